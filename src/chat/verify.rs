//! "Verify fix": checks at once, and again after 5 and 15 minutes, whether a step worked.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::Desk;
use super::attempt::{self, not_done};
use super::replies::Caller;
use findings::{EvidenceResult, Fix, Outcome};
use knowledge::clock;
use knowledge::incident::Act;
use knowledge::playbook::{Condition, condition_text};
use knowledge::signal::format_value;
use message::{Block, Line, TextSpan, Tone};
use notify::Notifier;
use prom::assigned;
use render::Phrases;
use service::questions::Fleet;
use slack::{RequestPlace, SlackActor, SlackError, SlackRequest};
use store::{AuditEntry, AuditResult, Followup, Incident, Store, StoreError};

/// Delays of the automatic follow-ups after the button press.
const FOLLOWUP_DELAYS: [Duration; 2] = [Duration::from_secs(5 * 60), LONGEST_FOLLOWUP];
/// The longest delay of a follow-up.
pub const LONGEST_FOLLOWUP: Duration = Duration::from_secs(15 * 60);
/// Maximum number of follow-ups that run concurrently.
const AT_ONCE: u32 = 4;
/// The lease of a follow-up, in milliseconds; afterwards another replica may take it.
const LEASE_MS: i64 = 60_000;
/// The time after the last due time until which failed posts are retried.
const RETRY_POSTS_FOR: Duration = Duration::from_secs(15 * 60);
/// The longest pause between two polls for due follow-ups.
const IDLE: Duration = Duration::from_secs(5);

/// The condition to verify, and the place of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Check {
    signal: String,
    when: String,
    action: String,
    channel: String,
    thread: Option<String>,
    /// The end of the retries of its post, in unix milliseconds.
    until_ms: i64,
}

/// Finds the step that a button names, without secrets, as the message shows it. `None` if the current diagnosis no
/// longer has it: the user gets a notice, and the message is sent again so that its buttons match the current steps.
async fn fix(caller: Caller<'_>, act: Act, incident: &Incident, step: &str) -> Option<Fix> {
    let diagnosis = caller.notifier.cleaned(incident).await.diagnosis;
    let mut steps = diagnosis.into_iter().flat_map(|diagnosis| diagnosis.fix.now);
    let step_found = steps.find(|fix| render::step_id(fix) == step);
    if step_found.is_none() {
        not_done(caller, act, "step-changed").await;
        caller.log.touch(&incident.id).await;
    }
    step_found
}

/// Handles "Done": records the step in the audit log and the message; it can be verified from then on.
pub(super) async fn done(caller: Caller<'_>, id: &str, step: &str) {
    let log = caller.log;
    let Some(incident) = &caller.begin_act(Act::Done, id).await else { return };
    if !incident.open {
        return not_done(caller, Act::Done, "act-over").await;
    }
    let Some(fix) = fix(caller, Act::Done, incident, step).await else { return };
    if render::is_done(&fix, &incident.notes) {
        return not_done(caller, Act::Done, "done-already").await;
    }
    let Some(attempt) = attempt::begin(caller, Act::Done, Some(&incident.id)).await else { return };
    attempt.end(log, AuditResult::Done, &fix.cause, &render::step_text(&fix)).await;
}

/// Handles "Verify fix" for a step.
pub(super) async fn press(caller: Caller<'_>, fleet: &Fleet<'_>, id: &str, step: &str) {
    let (log, notifier) = (caller.log, caller.notifier);
    let Some(incident) = &caller.begin_act(Act::Verify, id).await else { return };
    let Some(fix) = fix(caller, Act::Verify, incident, step).await else { return };
    let Some(verify) = &fix.verify else {
        return not_done(caller, Act::Verify, "verify-no-check").await;
    };
    let Some(attempt) = attempt::begin(caller, Act::Verify, Some(&incident.id)).await else {
        return;
    };
    let place = &caller.request.place;
    let check = Check {
        signal: verify.signal.clone(),
        when: verify.when.clone(),
        action: fix.action.clone(),
        channel: place.channel.clone(),
        thread: place.thread.clone().or_else(|| place.message.clone()),
        until_ms: clock::unix_ms(clock::after(log.store.now(), FOLLOWUP_DELAYS[1] + RETRY_POSTS_FOR)),
    };
    let verdict = match query_condition(fleet, notifier, incident, &check).await {
        Ok(verdict) => verdict,
        Err(why) => {
            attempt.end(log, AuditResult::Failed, "", &why).await;
            return caller.tell_error("verify-failed", &why).await;
        }
    };
    let detail = verdict_line(&notifier.words, &verdict).text();
    let target = format!("{} {}", check.signal, check.when);
    attempt.end(log, AuditResult::Done, &target, &detail).await;
    if let Err(error) = post_verdict(caller, incident, &check, &verdict, Some(caller.user())).await {
        warn!(%error, incident.id = incident.id, "cannot tell the thread of a verification");
        caller.tell_line(Line::default().plain(detail)).await;
    }
    plan(log.store, incident, &check).await;
}

/// Schedules the follow-ups; another press replaces their times.
async fn plan(store: &Store, incident: &Incident, check: &Check) {
    let now = store.now();
    let due = FOLLOWUP_DELAYS.map(|later| clock::after(now, later));
    let kind = format!("verify {} {}", check.signal, check.when);
    let planned = match serde_json::to_string(check) {
        Ok(data) => store.follow_up(&incident.id, &kind, &data, &due).await.map_err(|e| e.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = planned {
        error!(error, incident.id = incident.id, "cannot plan to verify again");
    }
}

/// Queries the signal now, with the history that the condition may need; the answer has no secrets.
async fn query_condition(
    fleet: &Fleet<'_>,
    notifier: &Notifier,
    incident: &Incident,
    check: &Check,
) -> Result<(EvidenceResult, Vec<String>), String> {
    let when: Condition = check.when.parse()?;
    let prometheus = assigned(fleet.prometheus, &incident.alerts).ok_or("no Prometheus is configured")?;
    let request = fleet.diagnosing.request("", &incident.alerts, incident.started_at, clock::now());
    let checks = [(check.signal.as_str(), &when)];
    let (mut results, problems) = diagnose::verify_all(fleet.library, &prometheus, &request, &checks).await;
    let mut result = results.swap_remove(0);
    let redactor = notifier.redactor_of([incident]);
    let clean = |text: String| redactor.text("message", &text).into_owned();
    result.why = result.why.map(clean);
    Ok((result, problems.into_iter().map(clean).collect()))
}

/// Returns the verdict as a sentence: fixed, not yet, or cannot tell, with the value.
fn verdict_line(words: &Phrases, (result, problems): &(EvidenceResult, Vec<String>)) -> Line {
    let value = result.value.map(|value| format_value(value, result.unit)).unwrap_or_default();
    let why = problems.first().cloned().or_else(|| result.why.clone()).unwrap_or_default();
    let key = match (result.outcome, value.is_empty()) {
        (Outcome::Met, false) => "verify-fixed",
        (Outcome::Met, true) => "verify-fixed-bare",
        (Outcome::NotMet, false) => "verify-not-yet",
        (Outcome::NotMet, true) => "verify-not-yet-bare",
        (Outcome::NoData, _) => "verify-cannot-tell",
    };
    let condition = Line::default().code(condition_text(&result.when, result.unit));
    words.line(
        key,
        &[
            ("title", result.title.as_str().into()),
            ("value", value.into()),
            ("wanted", condition.into()),
            ("why", Line::of(&why).into()),
        ],
    )
}

async fn post_verdict(
    caller: Caller<'_>,
    incident: &Incident,
    check: &Check,
    verdict: &(EvidenceResult, Vec<String>),
    who: Option<&str>,
) -> Result<(), SlackError> {
    let tone = match verdict.0.outcome {
        Outcome::Met => Tone::Good,
        Outcome::NotMet => Tone::Warning,
        Outcome::NoData => Tone::Unknown,
    };
    let words = &caller.notifier.words;
    let line = verdict_line(words, verdict);
    let step = Line::of(&check.action.replace('\n', " "));
    let foot = match who {
        Some(who) => words.line("verify-asked", &[("who", TextSpan::User(who.to_owned()).into())]),
        None => words.line("verify-alone", &[]),
    };
    let parts = vec![Block::Paragraph(words.line("verify-step", &[("step", step.into())])), Block::Note(foot)];
    let body = render::slack_with_blocks(&line, tone, &parts);
    caller.post_in_thread(&incident.id, &body).await
}

impl Desk {
    /// Runs due follow-ups, a few concurrently, until stopped.
    pub async fn followups_loop(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let due = match self.due().await {
                Ok(due) => due,
                Err(error) => {
                    error!(%error, "cannot look for steps that are due for verification");
                    Vec::new()
                }
            };
            if due.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(IDLE) => {}
                    () = stop.cancelled() => return,
                }
                continue;
            }
            // A follow-up that is interrupted here is due again after its lease.
            tokio::select! {
                _ = join_all(due.iter().map(|followup| self.follow(followup))) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn due(&self) -> Result<Vec<Followup>, StoreError> {
        let now = self.service.store.keep_time().await?;
        self.service.store.take_followups(now, LEASE_MS, AT_ONCE).await
    }

    /// Runs one follow-up and marks it as done, unless it is to be tried again.
    async fn follow(&self, followup: &Followup) {
        if self.verify_again(followup).await
            && let Err(error) = self.service.store.followed_up(&followup.id).await
        {
            error!(%error, "cannot write that something was verified again");
        }
    }

    /// Verifies again and posts the result. Returns true if the follow-up is done, false if it is to be tried again.
    async fn verify_again(&self, followup: &Followup) -> bool {
        let Ok(check) = serde_json::from_str::<Check>(&followup.data) else {
            warn!(kind = followup.kind, "an unreadable follow-up is dropped");
            return true;
        };
        let incident = match self.service.store.incident(&followup.incident).await {
            Ok(Some(incident)) => incident,
            Ok(None) => return true,
            Err(error) => {
                error!(%error, "cannot read an incident");
                return false;
            }
        };
        let late = clock::unix_ms(self.service.store.now()) > check.until_ms;
        let verdict = match query_condition(&self.fleet(), &self.service.notifier, &incident, &check).await {
            Ok(verdict) => verdict,
            Err(error) => {
                warn!(error, incident.id = incident.id, "cannot verify again");
                return true;
            }
        };
        let request = SlackRequest {
            id: String::new(),
            who: SlackActor::default(),
            place: RequestPlace {
                channel: check.channel.clone(),
                thread: check.thread.clone(),
                ..RequestPlace::default()
            },
            what: slack::SlackAction::Press { action: Act::Verify.as_str().to_owned(), value: String::new() },
        };
        if let Err(error) = post_verdict(self.caller(&request), &incident, &check, &verdict, None).await {
            warn!(%error, incident.id = incident.id, "cannot tell the thread of a verification");
            return late || !error.is_retryable();
        }
        info!(incident.id = incident.id, outcome = ?verdict.0.outcome, "verified again");
        self.note_verified(&incident, &check, &verdict).await;
        true
    }

    /// Writes the verification to the audit log, with an empty user; the incident's message shows it.
    async fn note_verified(&self, incident: &Incident, check: &Check, verdict: &(EvidenceResult, Vec<String>)) {
        let attempt = AuditEntry::new_attempt(
            "",
            &check.channel,
            Act::Verify.as_str(),
            Some(&incident.id),
            self.service.store.now(),
        );
        let entry = AuditEntry {
            target: format!("{} {}", check.signal, check.when),
            result: AuditResult::Done,
            detail: verdict_line(&self.service.words, verdict).text(),
            ..attempt
        };
        let result = match self.service.store.audit(&entry).await {
            Ok(()) => self.service.store.touch(&incident.id).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            error!(%error, "cannot note a verification");
        }
        self.service.metrics.act(Act::Verify.as_str(), AuditResult::Done.as_str());
        self.service.deliveries.notify_one();
    }
}
