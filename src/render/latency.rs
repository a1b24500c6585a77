//! The parts of a latency, and the share of it that a cause explains.

use super::Phrases;
use findings::{CauseFound, Diagnosis};
use knowledge::signal::{Unit, format_part, format_value};
use message::Line;

/// Renders the parts: `First tokens take 6.9 s on average: 4.2 s in the queue, 2.5 s computing the prompt, 0.2 s
/// elsewhere`.
pub(super) fn parts(diagnosis: &Diagnosis, resolved: bool, words: &Phrases) -> Option<Line> {
    let latency = diagnosis.parts.as_ref()?;
    let seconds = |value| format_part(value, latency.seconds);
    let part =
        |title: &str, value| words.text("latency-part", &[("seconds", seconds(value).into()), ("where", title.into())]);
    let parts = latency.parts.iter().map(|of| part(&of.title, of.seconds));
    let rest = latency.rest.map(|rest| words.text("latency-rest", &[("seconds", seconds(rest.seconds).into())]));
    let parts: Vec<String> = parts.chain(rest).collect();
    let pieces = [
        ("title", latency.title.as_str().into()),
        ("seconds", seconds(latency.seconds).into()),
        ("parts", parts.join(", ").into()),
    ];
    Some(words.line(if resolved { "latency-parts-were" } else { "latency-parts" }, &pieces))
}

/// Renders [`parts`] and the share that the best chain explains, for pages, which draw the chain separately.
pub(super) fn parts_with_share(diagnosis: &Diagnosis, resolved: bool, words: &Phrases) -> Option<Line> {
    let line = parts(diagnosis, resolved, words)?;
    let Some((root, share)) = diagnosis.root().and_then(|root| Some((root, root.explained?))) else {
        return Some(line);
    };
    let first = root.via.first().map_or(&root.title, |link| &link.title);
    let pieces = [("title", first.as_str().into()), ("share", format_value(share, Unit::Ratio).into())];
    Some(line.plain(" ").then(words.line("latency-explained-by", &pieces)))
}

/// Adds to the first link of a cause's chain the share of the latency that it explains.
pub(super) fn explained(link: Line, cause: &CauseFound, words: &Phrases) -> Line {
    match cause.explained {
        Some(share) => {
            let share = format_value(share, Unit::Ratio).into();
            words.line("latency-explained", &[("link", link.into()), ("share", share)])
        }
        None => link,
    }
}
