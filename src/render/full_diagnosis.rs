//! A complete diagnosis, for terminals, which have enough space.

use std::time::Duration;

use super::document::drop_empty;
use super::facts::{
    FEW, affected_replicas_line, bullet, chain_summary, confidence, fact, facts, few, group_by_key, is_said,
    join_limited, join_non_empty, misfit, no_data, radius, verdict,
};
use super::links::graph;
use super::promise::{burnt, promise};
use super::symptom::absent;
use super::{Phrases, compared, direct, health, latency, logs, restart, rollout, screened};
use findings::scope::pool_name;
use findings::{CauseFound, Diagnosis, EvidenceResult, Fix, NO_PAST, Outcome, RuledOut, SymptomVerdict};
use knowledge::gap::missing_part;
use knowledge::playbook::condition_text;
use knowledge::signal::{Unit, format_value};
use message::{Block, Line, Message, TextSpan, Tone};

/// Builds the message of a diagnosis that a user requested.
pub fn diagnosis_message(diagnosis: &Diagnosis, prometheus: Option<&str>, words: &Phrases) -> Message {
    let (tone, word) = verdict_tone(diagnosis);
    let mut first = symptom(diagnosis, words);
    first.extend(latency::parts(diagnosis, false, words));
    let mut parts = vec![Block::Section(String::new(), first)];
    parts.extend(chain(diagnosis, words));
    parts.extend(fixes(diagnosis, words));
    parts.push(ruled_out(&not_nearest(diagnosis), words));
    parts.push(Block::Section(words.text("unchecked", &[]), unchecked(diagnosis, 2 * FEW, FEW, words)));
    parts.push(Block::Section(words.text("while-looking", &[]), diagnosis_notes(diagnosis, words)));
    drop_empty(&mut parts);
    parts.extend(screened::other_symptoms(diagnosis, words));
    let mut foot = Line::default().plain(foot(diagnosis, words));
    if let Some(link) = graph(diagnosis, prometheus, None) {
        foot = foot.plain(" · ").link(words.text("link-prometheus", &[]), link);
    }
    parts.push(Block::Note(foot));
    let why = match (diagnosis.root(), diagnosis.symptom.verdict) {
        // The word for the verdict already says so.
        (None, SymptomVerdict::Absent) => facts(&diagnosis.symptom.evidence, Outcome::NotMet, words).join(", "),
        _ => chain_summary(diagnosis, words),
    };
    let headline = [words.text(word, &[]), diagnosis.symptom.title.clone(), pool_name(&diagnosis.scope.labels), why];
    Message { tone, headline: join_non_empty(&headline), parts }
}

/// Returns the severity of a requested diagnosis, and the phrase for its verdict.
pub(super) fn verdict_tone(diagnosis: &Diagnosis) -> (Tone, &'static str) {
    match diagnosis.symptom.verdict {
        SymptomVerdict::Confirmed => (Tone::Critical, "asked-confirmed"),
        SymptomVerdict::Absent => (Tone::Good, "asked-absent"),
        SymptomVerdict::NoData => (Tone::Unknown, "asked-no-data"),
    }
}

/// Says if the symptom is confirmed, on which replicas, and the impact on users.
fn symptom(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Line> {
    let symptom = &diagnosis.symptom;
    let of = |outcome| facts(&symptom.evidence, outcome, words).join(", ");
    let lines = match symptom.verdict {
        SymptomVerdict::Confirmed => {
            let facts = format!("{}{}", of(Outcome::Met), radius(&diagnosis.replicas, words)).into();
            let impact = Line::default().plain(symptom.impact.trim());
            let mut lines = vec![words.line("symptom-confirmed", &[("facts", facts)]), impact];
            lines.extend(promise(diagnosis, words));
            lines.retain(|line| !line.text().is_empty());
            lines
        }
        SymptomVerdict::Absent => {
            let mut lines = vec![absent(diagnosis, of(Outcome::NotMet), words)];
            lines.extend(burnt(diagnosis, words));
            lines
        }
        SymptomVerdict::NoData => vec![no_data(diagnosis, words)],
    };
    screened::before(diagnosis, lines, words).into_iter().chain(screened::condition(diagnosis, words)).collect()
}

fn chain(diagnosis: &Diagnosis, words: &Phrases) -> Option<Block> {
    let title = words.text("why", &[]);
    let Some(best) = diagnosis.root() else {
        let stands = diagnosis.symptom.verdict == SymptomVerdict::Confirmed;
        return stands.then(|| Block::Section(title, explain_no_root_cause(diagnosis, words)));
    };
    let mut lines: Vec<Line> =
        best.via.iter().map(|j| link(&j.title, verdict(j.verdict, words), &j.evidence, words)).collect();
    lines.push(link(&best.title, confidence(best, words), &best.evidence, words));
    if let Some(first) = lines.first_mut() {
        *first = latency::explained(std::mem::take(first), best, words);
    }
    let meaning = Line::default().plain(best.meaning.trim().replace('\n', " "));
    lines.extend(affected_replicas_line(best, words));
    lines.extend(about_chain(diagnosis, meaning, words));
    Some(Block::Section(title, lines))
}

/// Returns the lines about the best chain: the past, the times, its meaning, what a rollout changed, other causes.
pub(super) fn about_chain(diagnosis: &Diagnosis, meaning: Line, words: &Phrases) -> Vec<Line> {
    let before =
        [compared::of_chain(diagnosis, words), story(diagnosis, words), misfit(diagnosis, Duration::ZERO, words)];
    let meaning = (!meaning.text().is_empty()).then_some(meaning);
    let changed = rollout::in_full(diagnosis, words);
    before.into_iter().chain([meaning]).flatten().chain(changed).chain(other_causes(diagnosis, words)).collect()
}

/// Explains why there is no root cause: no cause stands out, with the nearest ones, or there is no symptom to explain.
pub(super) fn explain_no_root_cause(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Line> {
    if diagnosis.symptom.verdict != SymptomVerdict::Confirmed {
        return vec![Line::default().plain(chain_summary(diagnosis, words))];
    }
    let near = |cause: &RuledOut| words.line("nearest", &[("cause", not_this(cause, words).into())]);
    std::iter::once(words.line("why-none", &[])).chain(diagnosis.nearest.iter().map(near)).collect()
}

/// Names the other possible causes.
pub(super) fn other_causes(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    let one = |cause: &CauseFound| {
        words.text(
            "other-cause",
            &[("title", cause.title.as_str().into()), ("verdict", confidence(cause, words).into())],
        )
    };
    let others: Vec<String> = diagnosis.causes.iter().skip(1).take(FEW).map(one).collect();
    (!others.is_empty()).then(|| words.line("also", &[("causes", others.join("; ").into())]))
}

fn link(title: &str, sure: String, evidence: &[EvidenceResult], words: &Phrases) -> Line {
    let agree = evidence.iter().filter(|e| e.outcome == Outcome::Met).count();
    let known = evidence.iter().filter(|e| e.outcome != Outcome::NoData).count();
    let unknown = evidence.len() - known;
    let met = facts(evidence, Outcome::Met, words).join(", ");
    let mut pieces = vec![
        ("title", title.into()),
        ("verdict", sure.into()),
        ("facts", met.into()),
        ("agree", agree.into()),
        ("known", known.into()),
    ];
    if unknown == 0 {
        return words.line("chain-link", &pieces);
    }
    pieces.push(("unknown", unknown.into()));
    words.line("chain-link-blind", &pieces)
}

/// Renders the onsets in order of time: `14:02 prompt length 2.2x → 14:05 KV cache peak 99 % → 14:06 TTFT p99 8.2 s`.
fn story(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    if diagnosis.timeline.len() < 2 {
        return None;
    }
    let mut onsets: Vec<_> = diagnosis.timeline.iter().collect();
    onsets.sort_by_key(|onset| onset.at);
    let mut story = Line::default();
    for (i, onset) in onsets.into_iter().enumerate() {
        let e = &onset.evidence;
        let much = match (e.value, e.baseline) {
            (Some(value), Some(baseline)) if baseline.abs() > 1e-9 => format_value(value / baseline, Unit::Factor),
            (Some(value), _) => format_value(value, e.unit),
            (None, _) => String::new(),
        };
        story = story.plain(if i == 0 { "" } else { " → " }).time(onset.at).plain(format!(" {} {much}", e.title));
    }
    Some(words.line("began", &[("story", story.into())]))
}

/// Renders all steps: first those for now, then the lasting ones.
pub(super) fn fixes(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Block> {
    let now = diagnosis.fix.now.iter().map(|fix| step(fix, words)).collect();
    let lasting = diagnosis.fix.lasting.iter().map(|fix| bullet(step(fix, words))).collect();
    let mut parts =
        vec![Block::Steps(words.text("do-now", &[]), now), Block::Section(words.text("lasting", &[]), lasting)];
    drop_empty(&mut parts);
    parts
}

/// Renders a step with the check that verifies it, and its source.
pub(super) fn step(fix: &Fix, words: &Phrases) -> Line {
    let mut line = Line::of(&fix.action.replace('\n', " "));
    if let Some(check) = &fix.verify {
        let when = condition_text(&check.when, check.unit);
        let check = format!("{} {}", check.title, when).into();
        line = words.line("step-worked", &[("step", line.into()), ("check", check)]);
    }
    if let Some(cost) = restart::cost(fix, words) {
        line = words.line("step-cost", &[("step", line.into()), ("cost", cost.into())]);
    }
    if let Some(url) = &fix.source {
        let source = TextSpan::Link(words.text("source", &[]), url.clone());
        line = words.line("step-source", &[("step", line.into()), ("source", source.into())]);
    }
    line
}

/// Renders a cause that was ruled out, and the evidence against it.
pub(super) fn not_this(cause: &RuledOut, words: &Phrases) -> Line {
    if let Some(share) = cause.explained {
        let share = format_value(share, Unit::Ratio).into();
        return words.line("ruled-out-share", &[("title", cause.title.as_str().into()), ("share", share)]);
    }
    match &cause.because {
        None => Line::default().plain(cause.title.clone()),
        Some(e) => {
            let (title, fact) = (cause.title.as_str().into(), fact(e, words).into());
            let when = condition_text(&e.when, e.unit).into();
            words.line("ruled-out-because", &[("title", title), ("fact", fact), ("when", when)])
        }
    }
}

/// Returns the causes ruled out, without those that [`explain_no_root_cause`] names as nearest.
fn not_nearest(diagnosis: &Diagnosis) -> Vec<&RuledOut> {
    let near = match (diagnosis.root(), diagnosis.symptom.verdict) {
        (None, SymptomVerdict::Confirmed) => diagnosis.nearest.as_slice(),
        _ => &[],
    };
    diagnosis.ruled_out.iter().filter(|cause| near.iter().all(|closest| closest.id != cause.id)).collect()
}

/// Renders the nearest misses as sentences and the rest by name; the JSON has everything.
fn ruled_out(list: &[&RuledOut], words: &Phrases) -> Block {
    let mut lines: Vec<Line> = list.iter().take(FEW).map(|cause| bullet(not_this(cause, words))).collect();
    let rest: Vec<&str> = list.iter().skip(FEW).map(|r| r.title.as_str()).collect();
    if !rest.is_empty() {
        let titles = ("titles", rest.iter().take(2 * FEW).copied().collect::<Vec<_>>().join("; ").into());
        lines.push(bullet(match rest.len().saturating_sub(2 * FEW) {
            0 => words.line("ruled-out-rest", &[titles]),
            n => words.line("ruled-out-rest-more", &[titles, ("n", n.into())]),
        }));
    }
    Block::Section(words.text("ruled-out", &[]), lines)
}

/// Renders the signals that could not be checked, a line per reason; at most `reasons_most` reasons with `titles_most`
/// titles each. One missing exporter affects many signals.
pub(super) fn unchecked(diagnosis: &Diagnosis, reasons_most: usize, titles_most: usize, words: &Phrases) -> Vec<Line> {
    // The note on the missing part has the server's words already.
    let in_part = (diagnosis.incomplete.as_deref().map(missing_part), words.text("why-in-part", &[]));
    let reasons = group_by_key(diagnosis.unchecked.iter().map(|u| {
        let enable = u.enable.as_deref().filter(|_| u.why != NO_PAST);
        let why = if in_part.0.as_ref() == Some(&u.why) { in_part.1.as_str() } else { u.why.as_str() };
        ((why, enable), u.title.as_str())
    }));
    let one = |((why, enable), titles): &((&str, Option<&str>), Vec<&str>)| {
        let titles = join_limited(titles, titles_most, ", ", words).into();
        let line = words.line("unchecked-reason", &[("titles", titles), ("why", Line::of(why).into())]);
        bullet(match enable {
            Some(enable) => {
                words.line("unchecked-enable", &[("reason", line.into()), ("enable", Line::of(enable).into())])
            }
            None => line,
        })
    };
    let mut lines: Vec<Line> = reasons.iter().take(reasons_most).map(one).collect();
    if reasons.len() > reasons_most {
        lines.push(bullet(words.line("and-others", &[("n", (reasons.len() - reasons_most).into())])));
    }
    lines
}

/// Returns the problems of the diagnosis, and the notes on logs and exporters.
pub(super) fn diagnosis_notes(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Line> {
    let direct = diagnosis.direct.as_ref().map(|read| direct::read_directly(read, words)).unwrap_or_default();
    let logs = diagnosis.logs.as_ref().map(|read| logs::read(read, words)).unwrap_or_default();
    let problems = diagnosis.problems.iter().filter(|problem| !is_said(diagnosis, problem));
    let data = problems.chain(&diagnosis.scope.notes).map(|text| Line::of(text));
    let then = screened::data(diagnosis, words);
    not_looked_at(diagnosis, words).into_iter().chain(direct).chain(logs).chain(then).chain(data).map(bullet).collect()
}

/// Names the causes that were not checked before the deadline.
fn not_looked_at(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    let titles: Vec<String> = diagnosis.not_looked_at.iter().map(|cause| cause.title.clone()).collect();
    (!titles.is_empty())
        .then(|| words.line("not-looked-at", &[("causes", join_limited(&titles, 2 * FEW, ", ", words).into())]))
}

/// Renders the origin of the diagnosis: playbook, time, queries, engines.
pub(super) fn foot(diagnosis: &Diagnosis, words: &Phrases) -> String {
    let engines: Vec<String> = diagnosis.engines.iter().map(health::engine).collect();
    let foot = words.text(
        "foot",
        &[
            ("playbook", Some(diagnosis.symptom.playbook.as_str()).filter(|id| !id.is_empty()).unwrap_or("-").into()),
            ("at", diagnosis.at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string().into()),
            ("queries", diagnosis.queries.into()),
            ("took", format_value(diagnosis.took_seconds, Unit::Seconds).into()),
        ],
    );
    match engines.is_empty() {
        true => foot,
        false => words.text("foot-engines", &[("foot", foot.into()), ("engines", engines.join(", ").into())]),
    }
}

/// Joins the titles of the checks without data.
pub(super) fn unknown<'a>(evidence: impl IntoIterator<Item = &'a EvidenceResult>, words: &Phrases) -> Option<String> {
    let mut titles: Vec<String> = Vec::new();
    for e in evidence.into_iter().filter(|e| e.outcome == Outcome::NoData) {
        if !titles.contains(&e.title) {
            titles.push(e.title.clone());
        }
    }
    (!titles.is_empty()).then(|| few(&titles, words))
}
