//! `doctor`'s checks of Slack: token, scopes, clock, channels, groups, and inbound transport.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::ExposeSecret;

use super::{CALL, Findings};
use knowledge::clock;
use notify::todo;
use service::check::Level;
use service::config::{Config, SlackInlet, bot_token, inlet};
use slack::scopes::{OPTIONAL, scopes};
use slack::{self, Slack, SlackError, TokenInfo, socket};
use store::{Refusal, Store};

/// Maximum clock skew; signatures are valid for 5 minutes, so a larger skew will soon refuse Slack's requests.
const SKEW: Duration = Duration::from_secs(120);
/// Timeout for all pages of a long list of channels.
const LONG: Duration = Duration::from_secs(30);
/// The page with the settings of Slack apps.
const APPS: &str = "https://api.slack.com/apps";

/// Queries Slack only if a channel and a token are configured.
pub(super) async fn check(findings: &mut Findings, config: &Config, store: Option<&Store>) {
    let settings = &config.slack;
    if settings.channel.is_empty() && settings.routes.is_empty() {
        return findings.ok("slack", "no channel is configured: messages are printed".to_owned());
    }
    let token = match bot_token(settings) {
        Ok(token) => token,
        Err(error) => {
            let todo = "put the bot token (`xoxb-…`) into SLACK_BOT_TOKEN or the file of `slack.bot_token_file`";
            return findings.say("slack", Level::Fail, format!("{error:#}"), todo);
        }
    };
    let slack = match Slack::new(&settings.api_url, token.expose_secret()) {
        Ok(slack) => slack,
        Err(error) => {
            return findings.say("slack", Level::Fail, error.to_string(), "correct `slack.api_url`");
        }
    };
    let introduction = match within(CALL, slack.introduction()).await {
        Ok(introduction) => introduction,
        Err(error @ SlackError::Refused { .. }) => {
            let todo = format!("reinstall the app at {APPS} and copy its bot token (`xoxb-…`)");
            return findings.say("slack", Level::Fail, error.to_string(), &todo);
        }
        Err(error) => {
            let todo = "see that the service may reach `slack.api_url`";
            return findings.say("slack", Level::Warn, error.to_string(), todo);
        }
    };
    let team = &introduction.identity.team_id;
    findings.ok("slack", format!("the token is good, in workspace {team}"));
    rights(findings, &introduction);
    time(findings, introduction.clock, clock::now());
    channels(findings, &slack, settings, store).await;
    people(findings, &slack, config).await;
    weekly(findings, settings);
    way_in(findings, &slack, settings).await;
}

async fn within<T>(limit: Duration, call: impl Future<Output = Result<T, SlackError>>) -> Result<T, SlackError> {
    tokio::time::timeout(limit, call).await.unwrap_or(Err(SlackError::Late))
}

fn rights(findings: &mut Findings, introduction: &TokenInfo) {
    const NAME: &str = "slack scopes";
    let Some(token_scopes) = &introduction.scopes else {
        return findings.ok(NAME, "Slack does not say which the token has".to_owned());
    };
    let is_missing = |scope: &str| !token_scopes.iter().any(|granted| granted == scope);
    for (scope, cost) in OPTIONAL.iter().filter(|(scope, _)| is_missing(scope)) {
        let todo = format!("add it at {APPS} under OAuth & Permissions and reinstall, or leave it so");
        findings.say("slack history", Level::Warn, format!("the token lacks {scope}: {cost}"), &todo);
    }
    let is_optional = |scope: &str| OPTIONAL.iter().any(|(optional, _)| *optional == scope);
    let missing: Vec<&str> = scopes().into_iter().filter(|scope| is_missing(scope) && !is_optional(scope)).collect();
    if missing.is_empty() {
        return findings.ok(NAME, format!("the token has all {} that are needed", scopes().len() - OPTIONAL.len()));
    }
    // Without this scope no message can be posted.
    let level = if missing.contains(&"chat:write") { Level::Fail } else { Level::Warn };
    let todo =
        format!("add them at {APPS} under OAuth & Permissions (config/slack/manifest.yaml has all) and reinstall");
    findings.say(NAME, level, format!("the token lacks {}", missing.join(", ")), &todo);
}

fn time(findings: &mut Findings, slack_time: Option<Timestamp>, own_time: Timestamp) {
    const NAME: &str = "slack clock";
    let Some(slack_time) = slack_time else {
        return findings.ok(NAME, "Slack does not say what time it is".to_owned());
    };
    let skew = clock::between(slack_time, own_time).max(clock::between(own_time, slack_time));
    if skew <= SKEW {
        return findings.ok(NAME, format!("within {} s of ours", SKEW.as_secs()));
    }
    let side = if slack_time > own_time { "ahead of" } else { "behind" };
    let todo =
        "run a time service (chrony, systemd-timesyncd): requests that are 5 minutes off are refused as replayed";
    findings.say(NAME, Level::Warn, format!("Slack's is {} s {side} ours", skew.as_secs()), todo);
}

async fn channels(findings: &mut Findings, slack: &Slack, settings: &slack::Config, store: Option<&Store>) {
    let refusals = async { store?.refusals().await.ok() }.await.unwrap_or_default();
    let names: BTreeSet<&str> = settings.channels().collect();
    for channel in names {
        let name = format!("slack channel {channel}");
        let invite = format!("in the channel, type /invite @llm-diagnose ({channel})");
        match within(LONG, slack.channel(channel)).await {
            Ok(Some(info)) if info.is_archived => {
                let todo = "unarchive it, or name another channel under `slack:`";
                findings.say(&name, Level::Fail, "the channel is archived".to_owned(), todo);
            }
            Ok(Some(info)) if !info.is_member => {
                findings.say(&name, Level::Fail, "the app is not in the channel".to_owned(), &invite);
            }
            // A refusal by Slack counts, whatever Slack returns about the channel.
            Ok(Some(info)) => match refusals.iter().find(|refusal| refusal.channel == channel) {
                Some(Refusal { code, waiting, .. }) => {
                    let found = format!("Slack refused the last message: {code}; {waiting} wait for it");
                    findings.say(&name, Level::Fail, found, todo(code));
                }
                None => findings.ok(&name, format!("the app is in #{} ({})", info.name, info.id)),
            },
            Ok(None) => {
                let found = "there is no such channel, or it is private and the app is not in it".to_owned();
                findings.say(&name, Level::Fail, found, &format!("correct its name under `slack:`, or {invite}"));
            }
            Err(error) => findings.say(&name, Level::Warn, error.to_string(), &unseen(&error)),
        }
    }
}

/// Tells when the next weekly and daily summaries are due.
fn weekly(findings: &mut Findings, settings: &slack::Config) {
    let now = clock::now();
    let weekly = settings.weekly.as_ref().map(|weekly| ("weekly", weekly.moments(now), settings.weekly_channels()));
    let daily = settings.daily.as_ref().map(|daily| ("daily", daily.moments(now), settings.daily_channels()));
    for (key, moments, channels) in weekly.into_iter().chain(daily) {
        let name = format!("slack {key}");
        match moments {
            Ok(moments) => {
                let channels: Vec<&str> = channels.into_iter().collect();
                let next = moments.next.strftime("%Y-%m-%d %H:%M UTC");
                findings.ok(&name, format!("the next summary is due at {next} in {}", channels.join(", ")));
            }
            Err(error) => findings.say(&name, Level::Fail, error, &format!("correct `slack.{key}`")),
        }
    }
}

/// Checks the configured user groups and users: for actions, mentions and escalations.
async fn people(findings: &mut Findings, slack: &Slack, config: &Config) {
    let settings = &config.slack;
    let mentions =
        settings.routes.iter().filter_map(|route| route.mention.as_deref()).chain(settings.mention.as_deref());
    let acting = settings.act.groups.iter().chain(&settings.act.users).map(String::as_str);
    // The value may be the name of a pager too.
    let escalated = settings.escalate.as_deref().filter(|name| config.pagers.iter().all(|pager| pager.name != *name));
    let ids: BTreeSet<&str> = mentions.chain(acting).chain(escalated).collect();
    let (groups, users): (Vec<&str>, Vec<&str>) = ids.into_iter().partition(|id| id.starts_with('S'));
    let all = match groups.is_empty() {
        true => Ok(Vec::new()),
        false => within(CALL, slack.groups()).await,
    };
    for id in groups {
        let name = format!("slack group {id}");
        match &all {
            Ok(all) if all.iter().any(|group| group == id) => findings.ok(&name, "the user group is there".to_owned()),
            Ok(_) => {
                let todo = "take the id from the group's page in Slack (… > Copy group ID)";
                findings.say(&name, Level::Fail, "there is no such user group".to_owned(), todo);
            }
            Err(error) => findings.say(&name, Level::Warn, error.to_string(), &unseen(error)),
        }
    }
    for id in users {
        let name = format!("slack user {id}");
        match within(CALL, slack.member(id)).await {
            Ok(Some(_)) => findings.ok(&name, "the user is there".to_owned()),
            Ok(None) => {
                let todo = "take the id from the user's profile in Slack (⋮ > Copy member ID)";
                findings.say(&name, Level::Fail, "there is no such user, or they left".to_owned(), todo);
            }
            Err(error) => findings.say(&name, Level::Warn, error.to_string(), &unseen(&error)),
        }
    }
}

fn unseen(error: &SlackError) -> String {
    match error {
        SlackError::Refused { code, .. } if code == "missing_scope" => {
            format!("add the scopes of config/slack/manifest.yaml at {APPS} and reinstall")
        }
        SlackError::RateLimited(_) => "ask again in a minute".to_owned(),
        _ => "ask again; if it stays, name the channel by its id".to_owned(),
    }
}

async fn way_in(findings: &mut Findings, slack: &Slack, settings: &slack::Config) {
    match inlet(settings) {
        Err(error) => {
            let todo = format!("both secrets stand at {APPS} under Basic Information");
            findings.say("slack transport", Level::Fail, format!("{error:#}"), &todo);
        }
        Ok(SlackInlet::Off(hint)) => findings.ok("slack transport", format!("messages only; {hint}")),
        Ok(SlackInlet::Http(_)) => {
            let found = "the signing secret is there; Slack calls /slack/commands, /slack/interactions, /slack/events";
            findings.ok("slack http", found.to_owned());
        }
        Ok(SlackInlet::Socket(token)) => match socket::probe(slack, &token).await {
            Ok(()) => findings.ok("slack socket", "the WebSocket opens and Slack says hello".to_owned()),
            Err(error) => {
                let todo = "turn Socket Mode on for the app, and let the service reach wss://*.slack.com (HTTPS_PROXY)";
                findings.say("slack socket", Level::Fail, error, todo);
            }
        },
    }
}
