//! The questions of serving engineers, each with its answer; the open ones with a way to find it.

use super::tenants::tenants;
use super::{Medium, ReportPageContext, code, code_block, evidence, group, list, pairs, paragraph, plain, table};
use crate::document::SectionKey;
use crate::{Phrases, facts};
use findings::facts::{Distribution, Measured, Version};
use knowledge::signal::{Unit, format_value};
use message::{Block, DocumentBlock, Folding, Line};
use report::{DeploymentInfo, Expected, Goal, Hardware, ModelInfo, Report, Workload, moved};

/// Maximum number of pods named for a command line.
const PODS: usize = 4;
/// Maximum number of nodes named in one line.
const NODES: usize = 100;

/// Builds all answers, and the list of what is not known.
pub(super) fn answers(report: &Report, around: &ReportPageContext<'_>, medium: Medium, words: &Phrases) -> Vec<Block> {
    let a = &report.answers;
    let open = vec![
        list(a.open.iter().map(|(_, how)| Line::of(how))),
        paragraph((around.live && !a.open.is_empty()).then(|| words.line("report-open-bundle", &[]))),
    ];
    let no_numbers = around.no_numbers.map(|why| words.line(why, &[]));
    let mut metrics = vec![Block::Gap(no_numbers.unwrap_or_default())];
    metrics.extend(measured("report-metrics", &a.metrics, medium, words));
    let mut all = [
        (SectionKey::Goal, "report-goal", goal(&a.goal, words)),
        (SectionKey::Metrics, "report-metrics", metrics),
        (SectionKey::Model, "report-model", model(&a.model, words)),
        (SectionKey::Hardware, "report-hardware", hardware(&a.hardware, words)),
        (SectionKey::Workload, "report-workload", workload(&a.workload, medium, words)),
        (SectionKey::Tenants, "report-tenants", tenants(&a.workload.tenants, words)),
        (SectionKey::Deployment, "report-deployment", deployment(&a.deployment, words)),
        (SectionKey::Versions, "report-versions", versions(&a.versions, words)),
        (SectionKey::Open, "report-open", open),
    ];
    // On a page the numbers and the versions stand first and open; the others fold.
    let is_open = |key: SectionKey| matches!(key, SectionKey::Metrics | SectionKey::Versions);
    if medium == Medium::Page {
        all.sort_by_key(|(key, ..)| !is_open(*key));
    }
    let folding = |key| if medium == Medium::Page && !is_open(key) { Folding::Closed } else { Folding::Never };
    all.into_iter()
        .map(|(key, title, parts)| group(key.as_str(), words.line(title, &[]), folding(key), parts))
        .collect()
}

fn goal(goal: &Goal, words: &Phrases) -> Vec<Block> {
    let row = |e: &Expected| {
        let expected = e.expected.clone().unwrap_or_else(|| words.text("expected-unknown", &[]));
        let limit = if e.limit.is_empty() { Line::default() } else { code(&e.limit) };
        vec![plain(&e.title), plain(expected), Line::default().bold(&e.actual), limit, plain(&e.source)]
    };
    let heads = ["report-what", "report-expected", "report-actual", "report-limit", "report-source"];
    let since = |at| words.line("report-not-met-since", &[("at", Line::default().moment(at).into())]);
    vec![
        table("report-goal", &heads, goal.expected.iter().map(row), words),
        paragraph(goal.since.map(since)),
        Block::Section(words.text("report-changed", &[]), goal.changed.iter().map(|text| Line::of(text)).collect()),
    ]
}

/// Builds values before, during and after, with their change: changed ones stand out, those without data are aside.
/// The name of the table is a phrase.
fn measured(name: &str, all: &[Measured], medium: Medium, words: &Phrases) -> Vec<Block> {
    let (with_data, without_data): (Vec<&Measured>, Vec<&Measured>) =
        all.iter().partition(|m| [m.before, m.during, m.after].iter().any(Option::is_some));
    let over = with_data.iter().any(|m| m.after.is_some());
    let mut heads = vec!["report-what", "report-before", "report-during", "report-after", "report-change"];
    heads.retain(|head| over || *head != "report-after");
    let row = |m: &&Measured| {
        let stands_out = |text: String| if moved(m).is_some() { Line::default().bold(text) } else { plain(text) };
        let value = |v| plain(facts::measured(m, v, words));
        let title = m.why.iter().fold(stands_out(m.title.clone()), |title, why| title.small(Line::of(why)));
        let after = over.then(|| value(m.after));
        let change = stands_out(facts::moved_by(m));
        [title, value(m.before), value(m.during)].into_iter().chain(after).chain([change]).collect()
    };
    let why = |m: &&Measured| (plain(&m.title), Line::of(m.why.as_deref().unwrap_or("–")));
    let title = words.line("report-without-data", &[("n", without_data.len().into())]);
    let asked = |m: &Measured| Some(plain(format!("{}: ", m.title)).code(m.query.as_deref()?));
    let queries = all.iter().filter_map(asked).collect();
    // On a page the values that changed stand open, the steady ones fold, unless nothing has changed.
    let folds = medium == Medium::Page && with_data.iter().any(|m| moved(m).is_some());
    let (shown, steady): (Vec<&Measured>, Vec<&Measured>) =
        with_data.into_iter().partition(|m| !folds || moved(m).is_some());
    let others = words.line("report-steady", &[("n", steady.len().into())]);
    let inside = vec![table(name, &heads, steady.iter().map(row), words)];
    vec![
        table(name, &heads, shown.iter().map(row), words),
        group(format!("{name}/steady"), others, Folding::Closed, if steady.is_empty() { Vec::new() } else { inside }),
        group(format!("{name}/untold"), title, Folding::Aside, vec![pairs(without_data.iter().map(why))]),
        evidence::queries(&format!("{name}/queries"), queries, Folding::Aside, words),
    ]
}

fn model(model: &ModelInfo, words: &Phrases) -> Vec<Block> {
    let listed = |values: &[String]| {
        let comma = |i| plain(if i == 0 { "" } else { ", " });
        values.iter().enumerate().fold(Line::default(), |line, (i, value)| line.then(comma(i).code(value)))
    };
    let names = [("report-served-as", &model.names), ("report-weights", &model.weights)];
    let arguments = model.arguments.iter().flat_map(|arguments| {
        let of = facts::join_limited(&arguments.of, PODS, ", ", words);
        let pieces = [("of", of.into()), ("source", arguments.source.as_str().into())];
        [paragraph(words.line("report-arguments", &pieces)), code_block(command(&arguments.words))]
    });
    // Settings that are not set are left out.
    let is_set = |values: &[String]| values.iter().any(|value| value != "None" && !value.is_empty());
    let settings = model.settings.iter().filter(|(_, values)| is_set(values));
    // The metric that tells them is named once, above what it tells.
    let mut by_metric: Vec<(&str, Vec<(Line, Line)>)> = Vec::new();
    for (name, values) in settings {
        let (metric, setting) = name.rsplit_once('.').unwrap_or(("", name));
        let pair = (code(setting), listed(values));
        match by_metric.last_mut().filter(|(last, _)| *last == metric) {
            Some((_, all)) => all.push(pair),
            None => by_metric.push((metric, vec![pair])),
        }
    }
    let settings = by_metric.into_iter().flat_map(|(metric, all)| {
        [Block::Note(if metric.is_empty() { Line::default() } else { code(metric) }), pairs(all)]
    });
    let settings = settings.collect();
    [pairs(names.map(|(key, values)| (words.line(key, &[]), listed(values))))]
        .into_iter()
        .chain(arguments)
        .chain([group("model/settings", words.line("report-settings", &[]), Folding::Closed, settings)])
        .collect()
}

/// Renders a command line that can be pasted: quoted, and wrapped before its options.
fn command(words: &[String]) -> String {
    let quoted =
        words.iter().map(|word| shlex::try_quote(word).map_or_else(|_| word.clone(), std::borrow::Cow::into_owned));
    let mut out = String::new();
    for word in quoted {
        match (out.is_empty(), word.starts_with('-')) {
            (true, _) => {}
            (false, true) => out.push_str(" \\\n  "),
            (false, false) => out.push(' '),
        }
        out.push_str(&word);
    }
    out
}

fn hardware(hardware: &Hardware, words: &Phrases) -> Vec<Block> {
    let gpus = hardware.gpus.iter().map(|gpu| {
        let source = words.line("report-read-from", &[("source", gpu.source.as_str().into())]);
        Line::default().bold(format!("{} × {}", gpu.count, gpu.kind)).small(source)
    });
    let (detailed, bare): (Vec<_>, Vec<_>) = hardware.nodes.iter().partition(|(_, facts)| !facts.is_empty());
    let bare: Vec<&str> = bare.into_iter().map(|(node, _)| node.as_str()).collect();
    let bare = facts::join_limited(&bare, NODES, ", ", words);
    let known = [("report-interconnect", hardware.interconnect.clone().unwrap_or_default()), ("report-nodes", bare)];
    let folding = if detailed.len() <= 4 { Folding::Open } else { Folding::Closed };
    let title = words.line("report-machines", &[("n", detailed.len().into())]);
    let detailed = detailed.into_iter().map(|(node, facts)| (plain(node), plain(facts.join(", "))));
    vec![list(gpus), named(known, words), group("hardware/nodes", title, folding, vec![pairs(detailed)])]
}

/// Builds pairs whose names are phrases.
fn named<const N: usize>(all: [(&str, String); N], words: &Phrases) -> Block {
    pairs(all.map(|(key, value)| (words.line(key, &[]), plain(value))))
}

fn workload(workload: &Workload, medium: Medium, words: &Phrases) -> Vec<Block> {
    let lengths = [("report-input", &workload.input), ("report-output", &workload.output)];
    let lengths = lengths.into_iter().filter_map(|(key, of)| Some(distribution(key, of.as_ref()?, words)));
    lengths.flatten().chain(measured("report-load", &workload.load, medium, words)).collect()
}

/// Builds a distribution: in a sentence, as bars, and bucket by bucket.
fn distribution(key: &str, d: &Distribution, words: &Phrases) -> Vec<Block> {
    let tokens = |value: f64| format_value(value, Unit::Tokens);
    let pieces = [
        ("count", format_value(d.count, Unit::Requests).into()),
        ("mean", tokens(d.mean).into()),
        ("half", facts::length(d, d.p50, words).into()),
        ("most", facts::length(d, d.p90, words).into()),
        ("nearly", facts::length(d, d.p99, words).into()),
    ];
    let spread = Line::default().bold(words.text(key, &[])).plain(" ").then(words.line("report-spread", &pieces));
    let earlier = |(mean, half)| {
        let pieces = [("mean", tokens(mean).into()), ("half", facts::length(d, half, words).into())];
        words.line("report-spread-earlier", &pieces)
    };
    let bound = |bound: Option<f64>| bound.map_or("∞".to_owned(), |b| format_value(b, Unit::Requests));
    let bucket =
        |(to, share): &(Option<f64>, f64)| plain(format!("≤ {}: {}", bound(*to), format_value(*share, Unit::Ratio)));
    let top = d.buckets.iter().map(|(_, share)| *share).filter(|share| share.is_finite()).fold(0.0, f64::max);
    // The last bucket has no bound, and its bar no label.
    let label = |to: Option<f64>| to.map(|to| format_value(to, Unit::Requests)).unwrap_or_default();
    let bar = |(to, share): &(Option<f64>, f64)| (label(*to), (share / top * 1_000.0).clamp(0.0, 1_000.0) as u16);
    // Empty buckets at both ends are left out.
    let first = d.buckets.iter().position(|(_, share)| *share > 0.0).unwrap_or(0);
    let last = d.buckets.iter().rposition(|(_, share)| *share > 0.0).map_or(0, |at| at + 1);
    let bars = d.buckets.get(first..last).unwrap_or_default().iter().map(bar).collect();
    let buckets = vec![list(d.buckets.iter().map(bucket)), Block::Note(code(&d.metric))];
    vec![
        paragraph(spread.clone()),
        Block::Note(d.earlier.map(earlier).unwrap_or_default()),
        Block::Document(DocumentBlock::Histogram { alt: spread.text(), bars }),
        group(format!("{key}/buckets"), words.line("report-buckets", &[]), Folding::Aside, buckets),
    ]
}

fn deployment(d: &DeploymentInfo, words: &Phrases) -> Vec<Block> {
    let ready =
        |(wanted, ready): (u32, u32)| words.text("report-ready", &[("ready", ready.into()), ("wanted", wanted.into())]);
    let known = [
        ("page-replicas", d.replicas.map(ready).unwrap_or_default()),
        ("report-engines", d.engines.join(", ")),
        ("report-objects", d.objects.join(", ")),
    ];
    vec![
        paragraph(Line::default().bold(&d.mode)),
        list(d.because.iter().map(|because| Line::of(because))),
        named(known, words),
    ]
}

fn versions(versions: &[Version], words: &Phrases) -> Vec<Block> {
    let row = |v: &Version| vec![plain(&v.what), code(&v.version), plain(&v.source)];
    let heads = ["report-what", "report-version", "report-source"];
    vec![table("report-versions", &heads, versions.iter().map(row), words)]
}
