//! The incidents that an incident has something in common with: the last time, and others that are open.

use super::facts::join_limited;
use super::{IncidentView, Phrases};
use findings::scope::pool_name;
use knowledge::clip::clip;
use knowledge::clock;
use knowledge::incident::{Act, LastTime, Neighbour, Note, SharedTrait};
use message::{Block, Line, TextSpan};

/// Maximum number of steps of the last time in the message.
const STEPS: usize = 2;
/// Maximum characters of a step, a result or a title in the message.
const SHORT: usize = 90;

/// Summarises in one line the last time that the cause hit the pool: when, how long, what was done, what came of it.
pub(super) fn last_time(view: &IncidentView<'_>, words: &Phrases) -> Option<Line> {
    let last = last(view)?;
    let done = notes(last, Act::Done);
    let mut sentences = vec![when(last, view, words)];
    if !done.is_empty() {
        let steps: Vec<String> = done.iter().skip(done.len().saturating_sub(STEPS)).map(|note| quoted(note)).collect();
        let steps = join_limited(&steps, STEPS, ", ", words);
        // A step that was marked after the end has not ended it.
        let soon = done.iter().rfind(|note| note.at <= last.resolved_at).map(|note| {
            let soon = words.text("last-time-soon", &[("soon", ended_after(note, last).into())]);
            format!("; {soon}")
        });
        let pieces = [("steps", steps.into()), ("soon", soon.unwrap_or_default().into())];
        sentences.push(words.line("last-time-done", &pieces));
    }
    if let Some(result) = notes(last, Act::Verify).last() {
        let result = clip(result.detail.trim(), SHORT);
        sentences.push(words.line("last-time-verified", &[("result", result.into())]));
    }
    sentences.extend(judged(last).map(|judged| judgement(judged, SHORT, words)));
    sentences.into_iter().reduce(|line, sentence| line.plain(" ").then(sentence))
}

/// Renders the last time for the page: the summary, then every note with its time.
pub(super) fn last_time_blocks(view: &IncidentView<'_>, words: &Phrases) -> Vec<Block> {
    let Some(last) = last(view) else { return Vec::new() };
    let one = |note: &Note| {
        let text = match note.act {
            Act::Done => {
                let soon = words.line("last-time-soon", &[("soon", ended_after(note, last).into())]);
                let step = words.line("last-time-step", &[("step", note.detail.trim().into())]);
                if note.at <= last.resolved_at { step.small(soon) } else { step }
            }
            Act::Verify => words.line("last-time-verified", &[("result", note.detail.trim().into())]),
            _ => judgement(note, usize::MAX, words),
        };
        Line::default().moment(note.at).plain(" · ").then(text)
    };
    let mut blocks = vec![Block::Paragraph(when(last, view, words))];
    if !last.notes.is_empty() {
        blocks.push(Block::Section(String::new(), last.notes.iter().map(one).collect()));
    }
    blocks
}

/// Names the other open incidents of the pool and of its nodes, a line for each.
pub(super) fn open_here(view: &IncidentView<'_>, words: &Phrases) -> Vec<Line> {
    let open = view.related.filter(|_| view.resolved_at.is_none()).map(|related| &related.open);
    open.into_iter().flatten().map(|other| neighbour(other, view, words)).collect()
}

fn neighbour(other: &Neighbour, view: &IncidentView<'_>, words: &Phrases) -> Line {
    let why = other.cause.as_ref().map(|cause| format!(" ← {}", clip(cause, SHORT))).unwrap_or_default();
    let what = match &other.what {
        Some(what) => link(&other.id, format!("{}{why}", clip(what, SHORT)), view),
        None => link(&other.id, words.text("open-elsewhere", &[]), view),
    };
    let pool = match other.pool.is_empty() {
        true => String::new(),
        false => words.text("open-of-pool", &[("pool", clip(&pool_name(&other.pool), SHORT).into())]),
    };
    let mut pieces = vec![("what", what.into()), ("at", TextSpan::Time(other.started_at).into())];
    let key = match &other.shared {
        SharedTrait::Pool => return words.line("open-here", &pieces),
        SharedTrait::Place => "open-in-place",
        SharedTrait::Node(node) => {
            pieces.push(("node", TextSpan::Code(clip(node, SHORT)).into()));
            "open-on-node"
        }
    };
    pieces.push(("pool", pool.into()));
    words.line(key, &pieces)
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

fn judgement(note: &Note, most: usize, words: &Phrases) -> Line {
    match note.act {
        Act::Wrong => words.line("last-time-wrong", &[("detail", clip(note.detail.trim(), most).into())]),
        _ => words.line("last-time-right", &[]),
    }
}

fn quoted(note: &Note) -> String {
    format!("\"{}\"", clip(note.detail.trim(), SHORT))
}

fn ended_after(step: &Note, last: &LastTime) -> String {
    clock::human_duration(clock::between(step.at, last.resolved_at))
}

/// Links to the page of another incident; where pages have no address, with the id that commands take.
fn link(id: &str, label: String, view: &IncidentView<'_>) -> TextSpan {
    match view.page.as_deref().and_then(|page| page.strip_suffix(view.id)).filter(|_| !view.id.is_empty()) {
        Some(pages) => TextSpan::Link(label, format!("{pages}{id}")),
        None => TextSpan::Plain(format!("{label} ({id})")),
    }
}
