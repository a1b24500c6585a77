//! Channels that refuse messages: deliveries stay due, the default channel shows the incident, and users are notified.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use tracing::{error, info, warn};

use super::Notifier;
use knowledge::clock::{self, Backoff};
use message::{Line, SlackMessage};
use slack::{Destination, MessageMark, Slack, SlackError, is_person};
use store::{Incident, Mention, Refusal, StoreError};

/// The pauses after refusals: an invitation for which Slack sends no event takes effect within the longest one.
pub const REFUSED: Backoff = Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(300) };
/// The interval between two checks of refused channels.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The age after which a refusal is dropped if nothing waits for it and only a new message could disprove it.
const FORGET_AFTER: Duration = Duration::from_secs(86_400);
/// Maximum number of users who are notified.
const MOST_NOTIFIED: usize = 10;
/// The timeout for notifying them.
const NOTIFY_WITHIN: Duration = Duration::from_secs(20);
/// The refusals that end according to the channel's own description.
const MEMBERSHIP_CODES: [&str; 3] = ["not_in_channel", "channel_not_found", "is_archived"];

impl Notifier {
    /// Makes up for the refusal of an incident's message or post: reports the channel, lets the default channel stand in,
    /// and mentions these users in its thread there, each once since the incident became critical.
    pub(super) async fn make_up(
        &self,
        slack: &Slack,
        incident: &Incident,
        [channel, wanted]: [&str; 2],
        error: &SlackError,
        mut calls: Vec<&str>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.report_refused_channel(slack, channel, error, now).await?;
        let (id, fallback) = (&incident.id, &self.config.channel);
        if fallback.is_empty() {
            return Ok(());
        }
        if error.is_about_channel() && channel != fallback && self.store.stand_in(id, channel, fallback, now).await? {
            self.metrics.delivery("slack", "rerouted", None);
            warn!(incident.id = id, channel, fallback, "the default channel shows the incident meanwhile");
        }
        if calls.is_empty() || wanted == fallback {
            return Ok(());
        }
        let Some(called) = self.store.called_people(id, fallback).await? else { return Ok(()) };
        calls.retain(|id| !called.includes(id));
        if calls.is_empty() {
            return Ok(());
        }
        let mention = Mention { since: incident.critical_at.unwrap_or(now), called: called.and(&calls) };
        self.store.queue_mentions(id, fallback, &calls, &mention, now).await
    }

    /// Records for all replicas that a channel refuses messages, and notifies users once.
    pub(super) async fn report_refused_channel(
        &self,
        slack: &Slack,
        channel: &str,
        error: &SlackError,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let code = error.code().unwrap_or_default();
        self.store.refused(channel, code, now).await?;
        if !self.store.claim_refusal_report(channel, now).await? {
            return Ok(());
        }
        error!(channel, code, "a channel does not take messages: {}", todo(code));
        if error.is_about_token() && code != "missing_scope" {
            // A direct message needs the same token.
            return Ok(());
        }
        let people = tokio::time::timeout(NOTIFY_WITHIN, self.people_to_notify(slack)).await.unwrap_or_default();
        if people.is_empty() {
            error!(channel, "there is no receiver for a direct message: set `slack.act.users` or `slack.escalate`");
            return Ok(());
        }
        let message = self.refusal_message(channel, code);
        let mark = MessageMark::new(&format!("refusal {channel}"));
        let posts = people.iter().map(|user| slack.post(Destination::channel(user), &message, &mark));
        let results = tokio::time::timeout(NOTIFY_WITHIN, join_all(posts)).await.unwrap_or_default();
        let reached = results.iter().filter(|result| result.is_ok()).count();
        self.metrics.delivery("direct", if reached > 0 { "posted" } else { "failed" }, None);
        if reached == 0 {
            warn!(channel, people = people.len(), "no direct message about the channel went out");
            self.store.release_refusal_report(channel).await?;
        }
        Ok(())
    }

    /// Builds the message about a refused channel.
    fn refusal_message(&self, channel: &str, code: &str) -> SlackMessage {
        let fallback = &self.config.channel;
        let pieces = [("channel", Line::default().code(channel).into()), ("code", Line::default().code(code).into())];
        let mut line = self.words.line("refused-channel", &pieces).plain(" ");
        let meanwhile = match fallback.is_empty() || channel == fallback {
            true => self.words.line("refused-waits", &[]),
            false => self.words.line("refused-meanwhile", &[("fallback", Line::default().code(&**fallback).into())]),
        };
        line = line.then(meanwhile).plain(" ");
        let todo = match code {
            "not_in_channel" | "channel_not_found" => "refused-invite",
            "is_archived" => "refused-unarchive",
            _ if is_about_token(code) => "refused-token",
            _ => "refused-permit",
        };
        let invite = Line::default().code("/invite @llm-diagnose");
        render::slack_line(&line.then(self.words.line(todo, &[("invite", invite.into())])))
    }

    /// Returns the users of `slack.act` and `slack.escalate`, with the members of their groups.
    async fn people_to_notify(&self, slack: &Slack) -> BTreeSet<String> {
        let act = &self.config.act;
        let named = act.users.iter().chain(self.config.escalate.iter().filter(|id| is_person(id))).chain(&act.groups);
        let (groups, users): (Vec<&String>, Vec<&String>) = named.partition(|id| id.starts_with('S'));
        let mut people: BTreeSet<String> = users.into_iter().cloned().collect();
        for group in groups {
            if people.len() >= MOST_NOTIFIED {
                break;
            }
            match slack.group_members(group).await {
                Ok(members) => people.extend(members),
                Err(error) => warn!(group, %error, "cannot tell who is in a user group"),
            }
        }
        people.into_iter().take(MOST_NOTIFIED).collect()
    }

    /// Checks the refused channels whose last check is at least `since` ago; deliveries to a channel that accepts
    /// messages again are due at once.
    pub async fn check_refused_channels(&self, since: Duration) {
        let Some(slack) = &self.slack else { return };
        let now = self.store.now();
        let refusals = match self.store.refusals().await {
            Ok(refusals) => refusals,
            Err(error) => return warn!(%error, "cannot read which channels do not take messages"),
        };
        for refusal in refusals.iter().filter(|refusal| clock::between(refusal.checked, now) >= since) {
            let open = tokio::time::timeout(NOTIFY_WITHIN, is_open(slack, refusal, now)).await.unwrap_or(false);
            let result = match open {
                true => self.store.accepted(&refusal.channel, now).await.map(drop),
                false => self.store.refused(&refusal.channel, &refusal.code, now).await,
            };
            match result {
                Ok(()) if open => info!(channel = refusal.channel, "the channel takes messages again"),
                Ok(()) => {}
                Err(error) => warn!(%error, channel = refusal.channel, "cannot store the state of a channel"),
            }
        }
    }
}

/// Returns true if a channel accepts messages, as far as Slack reports it without a post.
async fn is_open(slack: &Slack, refusal: &Refusal, now: Timestamp) -> bool {
    if MEMBERSHIP_CODES.contains(&refusal.code.as_str()) {
        let answer = slack.channel(&refusal.channel).await;
        return matches!(answer, Ok(Some(channel)) if channel.is_member && !channel.is_archived);
    }
    if is_about_token(&refusal.code) {
        let rights = slack.introduction().await.map(|introduction| introduction.scopes);
        return rights.is_ok_and(|scopes| scopes.is_none_or(|scopes| scopes.iter().any(|scope| scope == "chat:write")));
    }
    refusal.waiting == 0 && clock::between(refusal.since, now) > FORGET_AFTER
}

fn is_about_token(code: &str) -> bool {
    SlackError::Refused { code: code.to_owned(), detail: String::new() }.is_about_token()
}

/// Returns the manual fix for a refusal, for logs and readiness.
pub fn todo(code: &str) -> &'static str {
    match code {
        "not_in_channel" | "channel_not_found" => {
            "type /invite @llm-diagnose in it, or correct its name under `slack:`"
        }
        "is_archived" => "unarchive it, or name another channel under `slack:`",
        "missing_scope" => "add the scopes of config/slack/manifest.yaml and reinstall the app",
        code if is_about_token(code) => "reinstall the app and give the service its new bot token",
        _ => "let the app post there, or name another channel under `slack:`",
    }
}
