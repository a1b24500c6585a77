//! The fleet health page.

use maud::{Markup, html};

use super::document::blocks;
use super::html::{line, moment, pill};
use super::{Page, UpdateMode};
use crate::document::drop_empty;
use crate::health::{tone, with_server, word, worst_first};
use crate::{Phrases, facts};
use findings::health::{Health, HealthCheck, HealthState, PoolHealth};
use knowledge::playbook::condition_text;
use knowledge::signal::format_value;
use message::{Block, BlockGroup, DocumentBlock, Folding, Line, StateStyle};

/// Seconds between two polls of the page.
const EVERY: u32 = 15;

/// Maximum number of pools in the summary: a screen.
const BRIEF: usize = 18;
/// Maximum number of checks that the summary names for a pool.
const WRONG: usize = 2;

/// Renders the fleet health page.
pub fn health_page(health: &Health, words: &Phrases) -> String {
    let say = |key: &str| words.text(key, &[]);
    let title = say("page-health");
    let pools = worst_first(health);
    let heading = format!("{title}: {}", word(health.state, words));
    let name_of = |pool: &PoolHealth| with_server(facts::pool_name(&pool.labels), health, pool, words);
    let body = html! {
        div #now data-part {
            p.above { (state(health.state, words)) (moment(health.at)) }
            h1 { (title) }
        }
        div #pools data-part {
            @for text in health.problems.iter().chain(&health.notes) { p.none { (line(&Line::of(text))) } }
            @if pools.is_empty() {
                div.card { h2 { (say("health-no-pool")) } p { (line(&words.line("page-no-pool", &[]))) } }
            }
            @if pools.len() > 1 { (summary(&pools, &name_of, words)) }
            @for (i, pool) in pools.iter().enumerate() { (pool_card(i, pool, &name_of(pool), words)) }
            @if health.left_out > 0 { p.dim { (words.text("health-left-out", &[("n", health.left_out.into())])) } }
            @if !pools.is_empty() { p.foot { (say("health-foot")) } }
        }
    };
    Page { title: &heading, place: "/health", kept: UpdateMode::Live { every: EVERY, alone: true }, body }.html(words)
}

fn state(state: HealthState, words: &Phrases) -> Markup {
    pill(StateStyle::of(tone(state)), &word(state, words))
}

/// Renders one line for each pool, the worst first, as much as a screen shows; each leads to the pool's card.
fn summary(pools: &[&PoolHealth], name_of: &dyn Fn(&PoolHealth) -> String, words: &Phrases) -> Markup {
    let wrong = |pool: &PoolHealth| {
        let is_wrong = |c: &&HealthCheck| c.state.is_some_and(HealthState::is_wrong);
        let titles: Vec<&str> = pool.checks.iter().filter(is_wrong).map(|check| check.title.as_str()).collect();
        facts::join_limited(&titles, WRONG, ", ", words)
    };
    html! {
        section.card aria-labelledby="summary" {
            h2 #summary { (words.text("page-pools", &[("n", pools.len().into())])) }
            ul.brief {
                @for (i, pool) in pools.iter().take(BRIEF).enumerate() {
                    li { (state(pool.state, words)) a href={ "#pool-" (i) } { (name_of(pool)) } span.dim { (wrong(pool)) } }
                }
            }
            @if pools.len() > BRIEF { p.dim { (line(&words.line("and-others", &[("n", (pools.len() - BRIEF).into())]))) } }
        }
    }
}

fn pool_card(i: usize, pool: &PoolHealth, name: &str, words: &Phrases) -> Markup {
    let wrong = |check: &&HealthCheck| check.state.is_some_and(HealthState::is_wrong);
    let (bad, rest): (Vec<&HealthCheck>, Vec<&HealthCheck>) = pool.checks.iter().partition(wrong);
    let (seen, unseen): (Vec<&HealthCheck>, Vec<&HealthCheck>) =
        rest.into_iter().partition(|check| check.value.is_some());
    let engines: Vec<&str> = pool.engines.iter().map(|engine| engine.engine.as_str()).collect();
    let data = [("n", pool.coverage.with_data.into()), ("of", pool.coverage.of.into())];
    let key = if pool.idle { "health-have-data-idle" } else { "health-have-data" };
    let fold = |key: &str, title: &str, n: usize, parts: Vec<Block>| {
        let (key, title) = (format!("{name}/{key}"), words.line(title, &[("n", n.into())]));
        let parts = if n > 0 { parts } else { Vec::new() };
        Block::Document(DocumentBlock::Group(BlockGroup { key, title, folding: Folding::Closed, parts }))
    };
    let missing = |check: &&HealthCheck| {
        let why = check.why.as_ref().map(|why| Line::default().plain(": ").then(Line::of(why)));
        let enable = check.enable.as_deref().map(Line::of).unwrap_or_default();
        Line::default().plain(&check.title).then(why.unwrap_or_default()).small(enable)
    };
    let unseen_lines = Block::Section(String::new(), unseen.iter().map(missing).collect());
    let counted = Block::Paragraph(words.line(key, &data));
    let mut parts = vec![
        checks(name, format!("{name}/bad"), &bad, words),
        fold("seen", "page-in-order", seen.len(), vec![checks(name, format!("{name}/seen"), &seen, words)]),
        fold("unseen", "page-unseen", unseen.len(), vec![counted, unseen_lines]),
    ];
    drop_empty(&mut parts);
    html! {
        section.card id={ "pool-" (i) } {
            p.above { (state(pool.state, words)) span { (words.text("health-replicas", &[("n", pool.replicas.into())])) } span { (engines.join(", ")) } @if !pool.kinds.is_empty() { span { (pool.kinds.join(", ")) } } }
            h2 { (name) }
            (blocks(&parts, words))
        }
    }
}

fn checks(name: &str, key: String, checks: &[&HealthCheck], words: &Phrases) -> Block {
    let heads = ["page-check", "health-column-now", "page-limits", "page-replicas", "health-column-playbook"];
    let row = |check: &&HealthCheck| {
        let thresholds = check
            .thresholds
            .iter()
            .map(|threshold| format!("{} {}", threshold.severity, condition_text(&threshold.when, check.unit)));
        let value = check.value.map(|value| format_value(value, check.unit)).unwrap_or_default();
        let value = Line::default().plain(value);
        let replicas = facts::few_values(&check.replicas, check.unit, words);
        vec![
            Line::default().plain(&check.title),
            check
                .state
                .iter()
                .fold(value, |value, state| value.plain(" ").state(StateStyle::of(tone(*state)), word(*state, words))),
            Line::default().plain(thresholds.collect::<Vec<_>>().join(", ")),
            Line::default().plain(replicas),
            check.playbook.iter().fold(Line::default(), |line, id| line.link(id, format!("/playbooks/{id}"))),
        ]
    };
    let heads = heads.map(|key| words.text(key, &[])).to_vec();
    let rows = checks.iter().map(row).collect();
    Block::Document(DocumentBlock::Table { key, name: name.to_owned(), folds: true, heads, rows })
}
