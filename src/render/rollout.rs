//! The changes of the last rollout, in a message and on a page.

use super::Phrases;
use super::facts::bullet;
use findings::Diagnosis;
use findings::rollout::{Rollout, TemplateChange};
use message::{Line, TextSpan};

/// Maximum number of changes in a message.
const FEW: usize = 3;

/// Renders the rollout with its first changes, in one line: the steps below it must stay in sight.
pub(super) fn in_short(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    let rollout = diagnosis.rollout.as_ref()?;
    let left = rollout.changes.len().saturating_sub(FEW);
    let changes = rollout.changes.iter().take(FEW).map(|one| change(one, words));
    let more = (left > 0).then(|| words.line("rollout-more", &[("n", left.into())]));
    let joined = changes.chain(more).reduce(|line, next| line.plain("; ").then(next)).unwrap_or_default();
    let parts = [Some(head(rollout, words)), Some(joined), deployed_by(rollout, words)];
    parts.into_iter().flatten().reduce(|line, next| line.plain(" ").then(next))
}

/// Renders the rollout with all of its changes, one line each; nothing without one.
pub(super) fn in_full(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Line> {
    let Some(rollout) = &diagnosis.rollout else { return Vec::new() };
    let changes = rollout.changes.iter().map(|one| bullet(change(one, words)));
    std::iter::once(head(rollout, words)).chain(changes).chain(deployed_by(rollout, words)).collect()
}

fn head(rollout: &Rollout, words: &Phrases) -> Line {
    let workload = ("workload", TextSpan::Code(rollout.workload.clone()).into());
    match rollout.at {
        Some(at) => words.line("rollout-at", &[workload, ("at", TextSpan::Time(at).into())]),
        None => words.line("rollout-back", &[workload]),
    }
}

fn deployed_by(rollout: &Rollout, words: &Phrases) -> Option<Line> {
    let by = rollout.deployed_by.as_ref()?;
    let name = match &by.link {
        Some(link) => TextSpan::Link(by.name.clone(), link.clone()),
        None => TextSpan::Code(by.name.clone()),
    };
    let pieces = [("tool", by.tool.as_str().into()), ("name", name.into())];
    Some(match &by.chart {
        None => words.line("rollout-by", &pieces),
        Some(chart) => {
            let [tool, name] = pieces;
            words.line("rollout-by-chart", &[tool, name, ("chart", chart.as_str().into())])
        }
    })
}

fn change(change: &TemplateChange, words: &Phrases) -> Line {
    let code = |text: &str| TextSpan::Code(text.to_owned()).into();
    let what = ("what", code(&change.what));
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            words.line("rollout-change", &[what, ("before", code(before)), ("after", code(after))])
        }
        (None, Some(after)) if after.is_empty() => words.line("rollout-new-flag", &[what]),
        (None, Some(after)) => words.line("rollout-new", &[what, ("after", code(after))]),
        (Some(before), None) if before.is_empty() => words.line("rollout-no-flag", &[what]),
        (Some(before), None) => words.line("rollout-gone", &[what, ("before", code(before))]),
        (None, None) => words.line("rollout-secret", &[what]),
    }
}
