//! The app's Home: the open incidents, and the user's own.

use std::collections::BTreeSet;
use std::{mem, slice};

use serde_json::{Value, json};
use tracing::{error, warn};

use super::attempt::refused;
use super::authority::Power;
use super::{Desk, incidents};
use knowledge::clock;
use message::{Block, Line, TextSpan};
use slack::SlackRequest;
use store::StoreError;

/// Maximum number of lines of a list.
const LINES: usize = 15;
/// Maximum number of lines of a section; a line with a link to its page has about 300 characters.
const LINES_AT_ONCE: usize = 7;
/// Maximum number of incidents of a list that are counted.
const READ: u32 = 100;
/// The user's incidents that began within this time are listed after their end too.
const BEGAN: std::time::Duration = std::time::Duration::from_secs(24 * 3_600);

/// Shows the lists in the user's Home, or the reason why not. Slack asks for them whenever the user opens it.
pub(super) async fn publish(desk: &Desk, inbound: &SlackRequest) {
    let parts = match refused(desk, inbound, "home", None, Power::Read).await {
        Some(refusal) => vec![Block::Paragraph(desk.words.line(refusal.key(), &[]))],
        None => lists(desk, &inbound.who.user).await.unwrap_or_else(|error| {
            error!(%error, "cannot read the incidents for a user's Home");
            vec![Block::Paragraph(desk.words.line("incident-unreadable", &[]))]
        }),
    };
    match desk.slack.publish_home(&inbound.who.user, &view(&parts)).await {
        Ok(()) => desk.metrics.inbound("home", "done"),
        Err(error) => {
            warn!(%error, user = inbound.who.user, "cannot show the Home");
            desk.metrics.inbound("home", "failed");
        }
    }
}

/// Builds the view.
fn view(parts: &[Block]) -> Value {
    json!({ "type": "home", "blocks": render::slack_blocks(parts) })
}

async fn lists(desk: &Desk, user: &str) -> Result<Vec<Block>, StoreError> {
    let now = desk.store.now();
    let open = desk.store.incidents(true, None, READ).await?;
    let since = Some(clock::before(now, BEGAN));
    let recent = desk.store.incidents(false, since, READ).await?;
    let both: BTreeSet<&String> = open.iter().chain(&recent).collect();
    // Ids begin with their time: the newest first.
    let both: Vec<String> = both.into_iter().rev().cloned().collect();
    let own = desk.store.acknowledged_by(user, &both).await?;
    let mut parts = list(desk, "home-own", "home-own-none", &own).await?;
    parts.extend(list(desk, "home-open", "home-open-none", &open).await?);
    parts.push(Block::Note(desk.words.line("home-at", &[("at", TextSpan::Time(now).into())])));
    Ok(parts)
}

/// Builds a list under a title with the number of its incidents, in sections.
async fn list(desk: &Desk, title: &str, none: &str, ids: &[String]) -> Result<Vec<Block>, StoreError> {
    let mut lines: Vec<Line> = Vec::new();
    for id in ids.iter().take(LINES) {
        // One after the other: an incident may have thousands of alerts.
        let Some(incident) = desk.store.each(slice::from_ref(id)).await?.pop() else { continue };
        let line = incidents::line(desk, &incident).await;
        lines.push(match incident.acknowledged.as_ref().filter(|_| incident.open) {
            Some(by) => {
                let who = Line(vec![TextSpan::User(by.who.clone())]);
                desk.words.line("home-taken", &[("line", line.into()), ("who", who.into())])
            }
            None => line,
        });
    }
    if ids.is_empty() {
        lines.push(desk.words.line(none, &[]));
    }
    // More are not read, so they are not counted either.
    let all_read = ids.len() < READ as usize;
    let n = if all_read { ids.len().to_string() } else { format!("{READ}+") };
    let mut title = desk.words.text(title, &[("n", n.into())]);
    // Slack cuts a section of more than 3,000 characters.
    let sections = lines.chunks(LINES_AT_ONCE).map(|lines| Block::Section(mem::take(&mut title), lines.to_vec()));
    let mut blocks: Vec<Block> = sections.collect();
    if ids.len() > LINES {
        let key = if all_read { "home-more" } else { "home-many-more" };
        blocks.push(Block::Paragraph(desk.words.line(key, &[("n", (ids.len() - LINES).into())])));
    }
    Ok(blocks)
}
