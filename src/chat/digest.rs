//! "Show incidents": the incidents of a digest, most severe first, page by page.

use std::cmp::Reverse;

use tracing::error;

use super::Desk;
use super::attempt::permit;
use super::authority::Power;
use super::incidents::line;
use super::replies::{send_ephemeral_line, send_ephemeral_message, send_ephemeral_phrase};
use knowledge::incident::Act;
use message::{Block, Button, ButtonStyle, Line, Tone};
use slack::SlackRequest;
use store::{AuditResult, DigestContent, Incident};

/// Incidents per page.
const PAGE: usize = 15;

/// Lists the incidents of a digest, starting at index `from`.
pub(super) async fn list(desk: &Desk, inbound: &SlackRequest, id: &str, from: &str) {
    if !permit(desk, inbound, Act::Digest.as_str(), Some(id), Power::of(Act::Digest)).await {
        return;
    }
    let words = &desk.words;
    let of = |incident: Incident| {
        let is_critical = incident.open && incident.critical;
        (Reverse(is_critical), Reverse(incident.open), incident.started_at, incident.id)
    };
    let DigestContent { mut incidents, unreadable, .. } = match desk.store.digest_incidents(id, of).await {
        Ok(spoken) => spoken,
        Err(error) => {
            error!(%error, "cannot read a digest's incidents");
            return send_ephemeral_phrase(desk, inbound, "act-store").await;
        }
    };
    let left_out = words.line("digest-unreadable", &[("n", unreadable.into())]);
    if incidents.is_empty() {
        desk.metrics.act(Act::Digest.as_str(), AuditResult::Failed.as_str());
        return match unreadable {
            0 => send_ephemeral_phrase(desk, inbound, "act-gone").await,
            _ => send_ephemeral_line(desk, inbound, left_out).await,
        };
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
    let page = match desk.store.each(&ids).await {
        Ok(page) => page,
        Err(error) => {
            error!(%error, "cannot read a digest's incidents");
            return send_ephemeral_phrase(desk, inbound, "act-store").await;
        }
    };
    let mut lines = Vec::new();
    for incident in &page {
        lines.push(line(desk, incident).await);
    }
    let mut parts = vec![Block::Section(range, lines)];
    if to < total {
        parts.push(Block::Buttons(vec![Button {
            action: format!("{}:next", Act::Digest.as_str()),
            label: words.text("listed-next", &[("n", (total - to).min(PAGE).into())]),
            value: format!("{id}/{to}"),
            style: ButtonStyle::Plain,
            confirm: None,
        }]));
    }
    if unreadable > 0 {
        parts.push(Block::Note(left_out));
    }
    if let Some(page) = desk.notifier.incidents_page() {
        parts.push(Block::Note(Line::default().link(words.text("listed-page", &[]), page)));
    }
    desk.metrics.act(Act::Digest.as_str(), AuditResult::Done.as_str());
    send_ephemeral_message(desk, inbound, if open > 0 { Tone::Warning } else { Tone::Good }, headline, parts).await;
}
