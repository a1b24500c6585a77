//! The app's Home: the open incidents, and the user's own.

use std::mem;

use serde_json::{Value, json};
use tracing::{error, warn};

use super::Desk;
use super::attempt::refused;
use super::authority::Power;
use super::incidents;
use knowledge::clock;
use knowledge::incident::IncidentState;
use message::{Block, Line, TextSpan};
use slack::SlackRequest;
use store::{Incident, IncidentQuery, StoreError};

/// Maximum number of lines of a list.
const LINES: usize = 20;
/// Maximum number of lines of a section; a line with a link to its page has about 300 characters.
const LINES_AT_ONCE: usize = 7;
/// Maximum number of incidents that are read.
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
    let open = desk.store.listed(&IncidentQuery::of_state(IncidentState::Open), READ).await?;
    let since = Some(clock::before(now, BEGAN));
    let ended = IncidentQuery { since, ..IncidentQuery::of_state(IncidentState::Resolved) };
    let ended = desk.store.listed(&ended, READ).await?;
    let is_own = |incident: &&Incident| incident.acknowledged.as_ref().is_some_and(|by| by.who == user);
    let own: Vec<&Incident> = open.iter().chain(&ended).filter(is_own).collect();
    let mut parts = list(desk, "home-own", "home-own-none", &own).await;
    parts.extend(list(desk, "home-open", "home-open-none", &open.iter().collect::<Vec<_>>()).await);
    parts.push(Block::Note(desk.words.line("home-at", &[("at", TextSpan::Time(now).into())])));
    Ok(parts)
}

/// Builds a list under a title with the number of its incidents, in sections.
async fn list(desk: &Desk, title: &str, none: &str, incidents: &[&Incident]) -> Vec<Block> {
    let mut lines: Vec<Line> = Vec::new();
    for incident in incidents.iter().take(LINES) {
        let line = incidents::line(desk, incident).await;
        lines.push(match incident.acknowledged.as_ref().filter(|_| incident.open) {
            Some(by) => {
                let who = Line(vec![TextSpan::User(by.who.clone())]);
                desk.words.line("home-taken", &[("line", line.into()), ("who", who.into())])
            }
            None => line,
        });
    }
    if incidents.is_empty() {
        lines.push(desk.words.line(none, &[]));
    }
    // More are not read, so they are not counted either.
    let all_read = incidents.len() < READ as usize;
    let n = if all_read { incidents.len().to_string() } else { format!("{READ}+") };
    let mut title = desk.words.text(title, &[("n", n.into())]);
    // Slack cuts a section of more than 3,000 characters.
    let sections = lines.chunks(LINES_AT_ONCE).map(|lines| Block::Section(mem::take(&mut title), lines.to_vec()));
    let mut blocks: Vec<Block> = sections.collect();
    if incidents.len() > LINES {
        let key = if all_read { "home-more" } else { "home-many-more" };
        blocks.push(Block::Paragraph(desk.words.line(key, &[("n", (incidents.len() - LINES).into())])));
    }
    blocks
}
