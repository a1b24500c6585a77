//! The app's Home: the open incidents, and the user's own.

use std::collections::BTreeSet;
use std::{mem, slice};

use serde_json::{Value, json};
use tracing::{error, warn};

use super::authority::Power;
use super::incidents;
use super::replies::Caller;
use knowledge::clock;
use message::{Block, Line, TextSpan};
use notify::Notifier;
use store::{Store, StoreError};

/// Maximum number of lines of a list.
const LINES: usize = 15;
/// Maximum number of lines of a section; a line with a link to its page has about 300 characters.
const LINES_AT_ONCE: usize = 7;
/// Maximum number of incidents of a list that are counted.
const READ: u32 = 100;
/// The user's incidents that began within this time are listed after their end too.
const BEGAN: std::time::Duration = std::time::Duration::from_secs(24 * 3_600);

/// Shows the lists in the user's Home, or the reason why not. Slack asks for them whenever the user opens it.
pub(super) async fn publish(caller: Caller<'_>) {
    let (log, notifier) = (caller.log, caller.notifier);
    let parts = match caller.check("home", None, Power::Read).await {
        Err(refusal) => vec![Block::Paragraph(notifier.words.line(refusal.key(), &[]))],
        Ok(()) => lists(log.store, notifier, caller.user()).await.unwrap_or_else(|error| {
            error!(%error, "cannot read the incidents for a user's Home");
            vec![Block::Paragraph(notifier.words.line("incident-unreadable", &[]))]
        }),
    };
    match caller.slack.publish_home(caller.user(), &view(&parts)).await {
        Ok(()) => log.metrics.inbound("home", "done"),
        Err(error) => {
            warn!(%error, user = caller.user(), "cannot show the Home");
            log.metrics.inbound("home", "failed");
        }
    }
}

/// Builds the view.
fn view(parts: &[Block]) -> Value {
    json!({ "type": "home", "blocks": render::slack_blocks(parts) })
}

async fn lists(store: &Store, notifier: &Notifier, user: &str) -> Result<Vec<Block>, StoreError> {
    let now = store.now();
    let open = store.incidents(true, None, READ).await?;
    let since = Some(clock::before(now, BEGAN));
    let recent = store.incidents(false, since, READ).await?;
    let both: BTreeSet<&String> = open.iter().chain(&recent).collect();
    // Ids begin with their time: the newest first.
    let both: Vec<String> = both.into_iter().rev().cloned().collect();
    let own = store.acknowledged_by(user, &both).await?;
    let mut parts = list(store, notifier, "home-own", "home-own-none", &own).await?;
    parts.extend(list(store, notifier, "home-open", "home-open-none", &open).await?);
    parts.push(Block::Note(notifier.words.line("home-at", &[("at", TextSpan::Time(now).into())])));
    Ok(parts)
}

/// Builds a list under a title with the number of its incidents, in sections.
async fn list(
    store: &Store,
    notifier: &Notifier,
    title: &str,
    none: &str,
    ids: &[String],
) -> Result<Vec<Block>, StoreError> {
    let mut lines: Vec<Line> = Vec::new();
    for id in ids.iter().take(LINES) {
        // One after the other: an incident may have thousands of alerts.
        let Some(incident) = store.each(slice::from_ref(id)).await?.pop() else { continue };
        let line = incidents::line(notifier, &incident).await;
        lines.push(match incident.acknowledged.as_ref().filter(|_| incident.open) {
            Some(by) => {
                let who = Line(vec![TextSpan::User(by.who.clone())]);
                notifier.words.line("home-taken", &[("line", line.into()), ("who", who.into())])
            }
            None => line,
        });
    }
    if ids.is_empty() {
        lines.push(notifier.words.line(none, &[]));
    }
    // More are not read, so they are not counted either.
    let all_read = ids.len() < READ as usize;
    let n = if all_read { ids.len().to_string() } else { format!("{READ}+") };
    let mut title = notifier.words.text(title, &[("n", n.into())]);
    // Slack cuts a section of more than 3,000 characters.
    let sections = lines.chunks(LINES_AT_ONCE).map(|lines| Block::Section(mem::take(&mut title), lines.to_vec()));
    let mut blocks: Vec<Block> = sections.collect();
    if ids.len() > LINES {
        let key = if all_read { "home-more" } else { "home-many-more" };
        blocks.push(Block::Paragraph(notifier.words.line(key, &[("n", (ids.len() - LINES).into())])));
    }
    Ok(blocks)
}
