//! The incidents that an incident has something in common with: the last time, and others that are open.

use super::facts::{join_limited, pool_name};
use super::{IncidentView, Phrases};
use knowledge::clip::clip;
use knowledge::clock;
use knowledge::incident::{Act, LastTime, Neighbour, Note};
use message::{Block, Line, TextSpan};

/// Maximum number of steps of the last time in the message.
const STEPS: usize = 2;
/// Maximum characters of a step, a result or a title in the message.
const SHORT: usize = 90;

/// Summarises in one line the last time that the cause hit the pool: when, how long, what was done, what came of it.
pub(super) fn last_time(view: &IncidentView<'_>, words: &Phrases) -> Option<Line> {
    let last = last(view)?;
    let done = notes(last, Act::Done);
    let mut line = when(last, view, words).plain(" ");
    line = match done.last() {
        None => line.then(words.line("last-time-undone", &[])),
        Some(step) => {
            let steps: Vec<String> = done.iter().rev().map(|note| quoted(note)).collect();
            let steps = join_limited(&steps, STEPS, ", ", words);
            let pieces = [("steps", steps.into()), ("soon", ended_after(step, last).into())];
            line.then(words.line("last-time-done", &pieces))
        }
    };
    if let Some(result) = notes(last, Act::Verify).last() {
        let result = clip(result.detail.trim(), SHORT);
        line = line.plain(" ").then(words.line("last-time-verified", &[("result", result.into())]));
    }
    if let Some(judged) = judged(last) {
        line = line.plain(" ").then(judgement(judged, words));
    }
    Some(line)
}

/// Renders the last time for the page: the summary, then every note with its time.
pub(super) fn last_time_blocks(view: &IncidentView<'_>, words: &Phrases) -> Vec<Block> {
    let Some(last) = last(view) else { return Vec::new() };
    let undone = notes(last, Act::Done).is_empty().then(|| words.line("last-time-undone", &[]));
    let one = |note: &Note| {
        let text = match note.act {
            Act::Done => {
                let soon = words.line("last-time-soon", &[("soon", ended_after(note, last).into())]);
                let step = words.line("last-time-step", &[("step", note.detail.trim().into())]);
                if note.at <= last.resolved_at { step.small(soon) } else { step }
            }
            Act::Verify => words.line("last-time-verified", &[("result", note.detail.trim().into())]),
            _ => judgement(note, words),
        };
        Line::default().moment(note.at).plain(" · ").then(text)
    };
    vec![
        Block::Paragraph(
            when(last, view, words)
                .then(undone.map(|undone| Line::default().plain(" ").then(undone)).unwrap_or_default()),
        ),
        Block::Section(String::new(), last.notes.iter().map(one).collect()),
    ]
}

/// Names the other open incidents of the pool and of its nodes, a line for each.
pub(super) fn open_here(view: &IncidentView<'_>, words: &Phrases) -> Vec<Line> {
    let open = view.related.filter(|_| view.resolved_at.is_none()).map(|related| &related.open);
    open.into_iter().flatten().map(|other| neighbour(other, view, words)).collect()
}

fn neighbour(other: &Neighbour, view: &IncidentView<'_>, words: &Phrases) -> Line {
    let why = other.cause.as_ref().map(|cause| format!(" ← {}", clip(cause, SHORT))).unwrap_or_default();
    let what = format!("{}{why}", clip(&other.what, SHORT));
    let mut pieces =
        vec![("what", link(&other.id, what, view).into()), ("at", TextSpan::Time(other.started_at).into())];
    let Some(node) = &other.node else { return words.line("open-here", &pieces) };
    pieces.push(("node", TextSpan::Code(clip(node, SHORT)).into()));
    pieces.push(("pool", clip(&pool_name(&other.pool), SHORT).into()));
    words.line("open-on-node", &pieces)
}

fn last<'a>(view: &IncidentView<'a>) -> Option<&'a LastTime> {
    view.diagnosis?.root()?;
    view.related?.last.as_ref()
}

fn when(last: &LastTime, view: &IncidentView<'_>, words: &Phrases) -> Line {
    let duration = clock::human_duration(clock::between(last.started_at, last.resolved_at));
    let at = last.started_at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    words.line("last-time", &[("at", link(&last.id, at, view).into()), ("duration", duration.into())])
}

fn notes(last: &LastTime, act: Act) -> Vec<&Note> {
    last.notes.iter().filter(|note| note.act == act).collect()
}

fn judged(last: &LastTime) -> Option<&Note> {
    last.notes.iter().rfind(|note| matches!(note.act, Act::Right | Act::Wrong))
}

fn judgement(note: &Note, words: &Phrases) -> Line {
    match note.act {
        Act::Wrong => words.line("last-time-wrong", &[("detail", clip(note.detail.trim(), SHORT).into())]),
        _ => words.line("last-time-right", &[]),
    }
}

fn quoted(note: &Note) -> String {
    format!("\"{}\"", clip(note.detail.trim(), SHORT))
}

fn ended_after(step: &Note, last: &LastTime) -> String {
    clock::human_duration(clock::between(step.at, last.resolved_at))
}

/// Links to the page of another incident; its label alone where pages have no address.
fn link(id: &str, label: String, view: &IncidentView<'_>) -> TextSpan {
    match view.page.as_deref().and_then(|page| page.strip_suffix(view.id)).filter(|_| !view.id.is_empty()) {
        Some(pages) => TextSpan::Link(label, format!("{pages}{id}")),
        None => TextSpan::Plain(label),
    }
}
