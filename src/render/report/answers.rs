//! The seven questions of serving engineers, each with its answer or with a way to find it.

use maud::{Markup, html};

use super::ReportPageContext;
use super::workload::drawn;
use crate::render::page::html::{fold, line, moment, table};
use crate::render::{Line, Phrases, facts};
use crate::report::{Answers, Measured, Question, Report, moved};

/// Maximum number of pods named beside a command line.
const PODS: usize = 4;
/// Maximum number of nodes named.
const NODES: usize = 100;

/// Renders all seven answers.
pub(super) fn answers(report: &Report, around: &ReportPageContext<'_>, words: &Phrases) -> Markup {
    let a = &report.answers;
    let all = [
        (Question::Model, "report-q-model", model(a, words)),
        (Question::Hardware, "report-q-hardware", hardware(a, words)),
        (Question::Metrics, "report-q-metrics", (!a.metrics.is_empty()).then(|| measured("m", &a.metrics, words))),
        (Question::Workload, "report-q-workload", workload(a, words)),
        (Question::Deployment, "report-q-deployment", deployment(a, words)),
        (Question::Versions, "report-q-versions", versions(a, words)),
        (Question::Goal, "report-q-goal", goal(a, words)),
    ];
    html! {
        @if let Some(why) = around.no_numbers { p.none { (words.text(why, &[])) } }
        @for (question, title, answer) in all {
            div.qa {
                h3 { (words.text(title, &[])) }
                @let none = answer.is_none();
                @if let Some(answer) = answer { (answer) }
                @let open: Vec<&String> = a.open.iter().filter(|(of, _)| *of == question).map(|(_, how)| how).collect();
                @for how in &open { p.none { b { (words.text("report-not-known", &[])) } " " (line(&Line::of(how))) } }
                @if none && open.is_empty() { p.none { (words.text("report-not-known-bundle", &[])) } }
            }
        }
    }
}

fn list(key: &str, values: &[String], words: &Phrases) -> Markup {
    html! { @if !values.is_empty() { dt { (words.text(key, &[])) } dd { (values.join(", ")) } } }
}

fn model(a: &Answers, words: &Phrases) -> Option<Markup> {
    let m = &a.model;
    let empty = m.names.is_empty() && m.weights.is_empty() && m.arguments.is_empty() && m.settings.is_empty();
    // Settings that are not set are left out.
    let settings =
        m.settings.iter().filter(|(_, values)| values.iter().any(|value| value != "None" && !value.is_empty()));
    (!empty).then(|| {
        html! {
            dl.kv {
                (list("report-served-as", &m.names, words))
                (list("report-weights", &m.weights, words))
            }
            @if settings.clone().next().is_some() {
                (fold("model/settings", &html! { (words.text("report-settings", &[])) }, false, &html! {
                    dl.kv { @for (name, values) in settings { dt { code { (name) } } dd { (values.join(", ")) } } }
                }))
            }
            @for arguments in &m.arguments {
                @let more = arguments.of.len().saturating_sub(PODS);
                pre tabindex="0" { code { (arguments.words.join(" ")) } }
                p.dim {
                    (arguments.of.iter().take(PODS).cloned().collect::<Vec<_>>().join(", "))
                    @if more > 0 { " " (words.text("and-others", &[("n", more.into())])) }
                    " · " (arguments.source)
                }
            }
        }
    })
}

fn hardware(a: &Answers, words: &Phrases) -> Option<Markup> {
    let h = &a.hardware;
    let empty = h.gpus.is_empty() && h.interconnect.is_none() && h.nodes.is_empty();
    let (told, plain): (Vec<_>, Vec<_>) = h.nodes.iter().partition(|(_, facts)| !facts.is_empty());
    let plain: Vec<String> = plain.into_iter().take(NODES).map(|(node, _)| node.clone()).collect();
    (!empty).then(|| {
        html! {
            ul { @for gpu in &h.gpus { li { b { (gpu.count) " × " (gpu.kind) } " " small { (words.text("report-read-from", &[("source", gpu.source.as_str().into())])) } } } }
            dl.kv {
                @if let Some(interconnect) = &h.interconnect { dt { (words.text("report-interconnect", &[])) } dd { (interconnect) } }
                (list("report-nodes", &plain, words))
            }
            @if !told.is_empty() {
                @let n = told.len();
                (fold("hardware/nodes", &html! { (words.text("report-machines", &[("n", n.into())])) }, n <= 4, &html! {
                    dl.kv { @for (node, facts) in told.iter().take(NODES) { dt { (node) } dd { (facts.join(", ")) } } }
                }))
            }
        }
    })
}

/// Renders values before, during and after, with their change: changed ones stand out, those without data are folded.
pub(super) fn measured(key: &str, list: &[Measured], words: &Phrases) -> Markup {
    let say = |key: &str| words.text(key, &[]);
    let (told, untold): (Vec<&Measured>, Vec<&Measured>) =
        list.iter().partition(|m| [m.before, m.during, m.after].iter().any(Option::is_some));
    let over = told.iter().any(|m| m.after.is_some());
    let all = [("report-what", true), ("report-before", true), ("report-during", true), ("report-after", over)];
    let heads = all.into_iter().chain([("report-change", true)]).filter(|(_, shown)| *shown);
    let heads: Vec<String> = heads.map(|(key, _)| say(key)).collect();
    let value = |m: &Measured, v: Option<f64>| html! { span.num { (facts::measured(m, v, words)) } };
    let row = |m: &&Measured| {
        let moved = moved(m).is_some();
        let title = html! {
            @if moved { b { (m.title) } } @else { (m.title) }
            @if let Some(why) = &m.why { small { (line(&Line::of(why))) } }
        };
        let after = over.then(|| value(m, m.after));
        let change =
            html! { span.num.dim[!moved] { @if moved { b { (facts::moved_by(m)) } } @else { (facts::moved_by(m)) } } };
        [title, value(m, m.before), value(m, m.during)].into_iter().chain(after).chain([change]).collect()
    };
    let rows: Vec<Vec<Markup>> = told.iter().map(row).collect();
    let queries: Vec<(&str, &str)> =
        list.iter().filter_map(|m| Some((m.title.as_str(), m.query.as_deref()?))).collect();
    html! {
        @if !rows.is_empty() { (table(&say("report-q-metrics"), &heads, &rows)) }
        @if !untold.is_empty() {
            (fold(&format!("{key}/untold"), &html! { (words.text("report-untold", &[("n", untold.len().into())])) }, false, &html! {
                dl.kv { @for m in &untold { dt { (m.title) } dd { (line(&Line::of(m.why.as_deref().unwrap_or_default()))) } } }
            }))
        }
        @if !queries.is_empty() {
            (fold(&format!("{key}/queries"), &html! { (say("evidence-queries")) }, false, &html! {
                @for (title, query) in queries { p { (title) } pre tabindex="0" { code { (query) } } }
            }))
        }
    }
}

fn workload(a: &Answers, words: &Phrases) -> Option<Markup> {
    let w = &a.workload;
    (w.input.is_some() || w.output.is_some() || !w.load.is_empty()).then(|| {
        html! {
            @if let Some(input) = &w.input { (drawn("report-input", input, words)) }
            @if let Some(output) = &w.output { (drawn("report-output", output, words)) }
            @if !w.load.is_empty() { (measured("w", &w.load, words)) }
        }
    })
}

fn deployment(a: &Answers, words: &Phrases) -> Option<Markup> {
    let d = &a.deployment;
    let empty = d.mode.is_empty() && d.objects.is_empty() && d.engines.is_empty() && d.replicas.is_none();
    (!empty).then(|| {
        html! {
            @if !d.mode.is_empty() { p { b { (d.mode) } } }
            @for because in &d.because { p.dim { (line(&Line::of(because))) } }
            dl.kv {
                @if let Some((wanted, ready)) = d.replicas {
                    dt { (words.text("page-replicas", &[])) }
                    dd { (words.text("report-ready", &[("ready", ready.into()), ("wanted", wanted.into())])) }
                }
                (list("report-engines", &d.engines, words))
                (list("report-objects", &d.objects, words))
            }
        }
    })
}

fn versions(a: &Answers, words: &Phrases) -> Option<Markup> {
    let heads = ["report-what", "report-version", "report-source"].map(|key| words.text(key, &[]));
    let rows: Vec<Vec<Markup>> = a
        .versions
        .iter()
        .map(|v| vec![html! { (v.what) }, html! { code { (v.version) } }, html! { small { (v.source) } }])
        .collect();
    (!rows.is_empty()).then(|| table(&words.text("report-q-versions", &[]), &heads, &rows))
}

fn goal(a: &Answers, words: &Phrases) -> Option<Markup> {
    let g = &a.goal;
    let heads = ["report-what", "report-expected", "report-actual", "report-limit", "report-source"]
        .map(|key| words.text(key, &[]));
    let rows: Vec<Vec<Markup>> = g
        .expected
        .iter()
        .map(|e| {
            vec![
                html! { (e.title) },
                html! { (e.expected.clone().unwrap_or_else(|| words.text("expected-unknown", &[]))) },
                html! { b { (e.actual) } },
                html! { @if !e.limit.is_empty() { code { (e.limit) } } },
                html! { small { (e.source) } },
            ]
        })
        .collect();
    (!rows.is_empty() || g.since.is_some() || !g.changed.is_empty()).then(|| {
        html! {
            @if !rows.is_empty() { (table(&words.text("report-q-goal", &[]), &heads, &rows)) }
            @if let Some(since) = g.since { p { (words.text("report-not-met-since", &[])) " " (moment(since)) } }
            @if !g.changed.is_empty() {
                p { b { (words.text("report-changed", &[])) } }
                ul { @for changed in &g.changed { li { (line(&Line::of(changed))) } } }
            }
        }
    })
}
