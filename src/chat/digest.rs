//! "Show incidents": the incidents of a digest, most severe first, page by page.

use std::cmp::Reverse;

use tracing::error;

use super::attempt::not_done;
use super::authority::Power;
use super::incidents::line;
use super::replies::Caller;
use knowledge::incident::Act;
use message::{Block, Line, Tone};
use store::{AuditResult, DigestContent, Incident};

/// Incidents per page.
const PAGE: usize = 15;

/// Lists the incidents of a digest, starting at index `from`.
pub(super) async fn list(caller: Caller<'_>, id: &str, from: &str) {
    if !caller.permit(Act::Digest.as_str(), Some(id), Power::of(Act::Digest)).await {
        return;
    }
    let (words, log) = (&caller.notifier.words, caller.log);
    let of = |incident: Incident| {
        let is_critical = incident.open && incident.critical;
        (Reverse(is_critical), Reverse(incident.open), incident.started_at, incident.id)
    };
    let DigestContent { mut incidents, unreadable, .. } = match log.store.digest_incidents(id, of).await {
        Ok(spoken) => spoken,
        Err(error) => {
            error!(%error, "cannot read a digest's incidents");
            return caller.tell_phrase("act-store").await;
        }
    };
    let left_out = words.line("digest-unreadable", &[("n", unreadable.into())]);
    if incidents.is_empty() {
        if unreadable == 0 {
            return not_done(caller, Act::Digest, "act-gone").await;
        }
        log.count_failure(Act::Digest.as_str());
        return caller.tell_line(left_out).await;
    }
    incidents.sort();
    let open = incidents.iter().filter(|(_, Reverse(open), ..)| *open).count();
    let critical = incidents.iter().filter(|(Reverse(critical), ..)| *critical).count();
    let total = incidents.len();
    let from = from.parse().unwrap_or(0).min(total - 1);
    let to = (from + PAGE).min(total);
    let headline = words.line(
        "listed",
        &[
            ("n", total.into()),
            ("firing", open.into()),
            ("critical", critical.into()),
            ("resolved", (total - open).into()),
        ],
    );
    let range = words.text("listed-shown", &[("from", (from + 1).into()), ("to", to.into()), ("n", total.into())]);
    let ids: Vec<String> = incidents[from..to].iter().map(|(.., id)| id.clone()).collect();
    let page = match log.store.each(&ids).await {
        Ok(page) => page,
        Err(error) => {
            error!(%error, "cannot read a digest's incidents");
            return caller.tell_phrase("act-store").await;
        }
    };
    let mut lines = Vec::new();
    for incident in &page {
        lines.push(line(caller.notifier, incident).await);
    }
    let mut parts = vec![Block::Section(range, lines)];
    if to < total {
        let label = words.text("listed-next", &[("n", (total - to).min(PAGE).into())]);
        let action = format!("{}:next", Act::Digest.as_str());
        parts.push(Block::Buttons(vec![render::button(&action, label, &format!("{id}/{to}"))]));
    }
    if unreadable > 0 {
        parts.push(Block::Note(left_out));
    }
    if let Some(page) = caller.notifier.incidents_page() {
        parts.push(Block::Note(Line::default().link(words.text("listed-page", &[]), page)));
    }
    log.metrics.act(Act::Digest.as_str(), AuditResult::Done.as_str());
    caller.tell_message(if open > 0 { Tone::Warning } else { Tone::Good }, headline, parts).await;
}
