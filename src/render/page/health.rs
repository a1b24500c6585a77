//! The fleet health page.

use maud::{Markup, html};

use super::html::{StateStyle, fold, line, moment, pill, table};
use super::{Page, UpdateMode};
use crate::health::{Health, HealthCheck, HealthState, PoolHealth};
use crate::render::{Line, Phrases, facts};
use crate::signal::format_value;

/// Seconds between two polls of the page.
const EVERY: u32 = 15;

/// Renders the fleet health page.
pub fn health_page(health: &Health, words: &Phrases) -> String {
    let say = |key: &str| words.text(key, &[]);
    let title = say("page-health");
    let mut pools: Vec<&PoolHealth> = health.pools.iter().collect();
    pools.sort_by_key(|pool| rank(pool.state));
    let heading = format!("{title}: {}", words.text(state_key(health.state), &[]));
    let body = html! {
        div #now data-part {
            p.above { (state(health.state, words)) (moment(health.at)) }
            h1 { (title) }
        }
        div #pools data-part {
            @for text in health.notes.iter().chain(&health.problems) { p.none { (line(&Line::of(text))) } }
            @if pools.is_empty() {
                div.card { h2 { (say("health-no-pool")) } p { (line(&words.line("page-no-pool", &[]))) } }
            }
            @for pool in &pools { (pool_card(pool, words)) }
            @if health.left_out > 0 { p.dim { (words.text("health-left-out", &[("n", health.left_out.into())])) } }
            @if !pools.is_empty() { p.foot { (say("health-foot")) } }
        }
    };
    Page { title: &heading, place: "/health", kept: UpdateMode::Live { every: EVERY, alone: true }, body }.html(words)
}

fn rank(state: HealthState) -> u8 {
    match state {
        HealthState::Critical => 0,
        HealthState::Warning => 1,
        HealthState::Unknown => 2,
        HealthState::Healthy => 3,
    }
}

fn state_key(state: HealthState) -> &'static str {
    match state {
        HealthState::Healthy => "health-healthy",
        HealthState::Warning => "health-warning",
        HealthState::Critical => "health-critical",
        HealthState::Unknown => "health-unknown",
    }
}

fn state_style(state: HealthState) -> StateStyle {
    match state {
        HealthState::Healthy => StateStyle::Good,
        HealthState::Warning => StateStyle::Warn,
        HealthState::Critical => StateStyle::Bad,
        HealthState::Unknown => StateStyle::Mute,
    }
}

fn state(state: HealthState, words: &Phrases) -> Markup {
    pill(state_style(state), &words.text(state_key(state), &[]))
}

fn pool_card(pool: &PoolHealth, words: &Phrases) -> Markup {
    let whom = facts::pool_name(&pool.labels);
    let name = if whom.is_empty() { words.text("health-no-name", &[]) } else { whom.clone() };
    let wrong = |check: &&HealthCheck| matches!(check.state, Some(HealthState::Warning | HealthState::Critical));
    let (bad, rest): (Vec<&HealthCheck>, Vec<&HealthCheck>) = pool.checks.iter().partition(wrong);
    let (seen, unseen): (Vec<&HealthCheck>, Vec<&HealthCheck>) =
        rest.into_iter().partition(|check| check.value.is_some());
    let engines: Vec<&str> = pool.engines.iter().map(|engine| engine.engine.as_str()).collect();
    let data = [("n", pool.coverage.with_data.into()), ("of", pool.coverage.of.into())];
    let key = if pool.idle { "health-have-data-idle" } else { "health-have-data" };
    html! {
        section.card {
            p.above { (state(pool.state, words)) span { (words.text("health-replicas", &[("n", pool.replicas.into())])) } span { (engines.join(", ")) } }
            h2 { (name) }
            @if !bad.is_empty() { (checks(&name, &bad, words)) }
            @if !seen.is_empty() {
                (fold(&format!("{whom}/seen"), &html! { (words.text("page-in-order", &[("n", seen.len().into())])) }, false, &checks(&name, &seen, words)))
            }
            @if !unseen.is_empty() {
                (fold(&format!("{whom}/unseen"), &html! { (words.text("page-unseen", &[("n", unseen.len().into())])) }, false, &html! {
                    p { (words.text(key, &data)) }
                    ul { @for check in unseen { li {
                        (check.title)
                        @if let Some(why) = &check.why { ": " (line(&Line::of(why))) }
                        @if let Some(enable) = &check.enable { small { (line(&Line::of(enable))) } }
                    } } }
                }))
            }
        }
    }
}

fn checks(name: &str, checks: &[&HealthCheck], words: &Phrases) -> Markup {
    let say = |key: &str| words.text(key, &[]);
    let heads = ["page-check", "health-column-now", "page-limits", "page-replicas", "health-column-playbook"].map(say);
    let rows: Vec<Vec<Markup>> = checks
        .iter()
        .map(|check| {
            let limits: Vec<String> =
                check.thresholds.iter().map(|limit| format!("{} {}", limit.severity, limit.when)).collect();
            vec![
                html! { (check.title) },
                html! {
                    @if let Some(state) = check.state {
                        @let style = state_style(state);
                        span.mark.(style.class()) { span aria-hidden="true" { (style.sign()) " " } }
                    }
                    @if let Some(value) = check.value { (format_value(value, check.unit)) }
                    @if let Some(state) = check.state { small { (words.text(state_key(state), &[])) } }
                },
                html! { (limits.join(", ")) },
                html! { (facts::few_values(&check.replicas, check.unit, words)) },
                html! { @if let Some(id) = &check.playbook { a href={ "/playbooks/" (id) } { (id) } } },
            ]
        })
        .collect();
    table(name, &heads, &rows)
}
