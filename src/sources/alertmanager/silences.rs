//! Silences across several Alertmanagers: created at the one that has the alerts; its peers are fallbacks.

use std::time::Duration;

use jiff::Timestamp;

use super::{Alertmanager, AlertmanagerError, NewSilence, Silence, chosen};
use findings::silence::{SilenceMatcher, WholePool, common, shared};
use knowledge::alert::{Alert, AlertStatus, Labels};
use knowledge::clock::{self, human_duration};
use std::collections::BTreeSet;

/// The shortest silence that is created.
pub const SHORTEST: Duration = Duration::from_secs(60);
/// The longest silence that a configuration may allow; longer ones belong into Alertmanager's configuration.
pub const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// Maximum length of a comment, in characters.
pub const COMMENT_CHARS: usize = 1_000;
/// The reason why a silence was not created or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SilenceError {
    /// No Alertmanager is configured for these alerts.
    #[error("no Alertmanager is configured for these alerts: set `alertmanagers`")]
    NoAlertmanager,
    /// No alert fires any more.
    #[error("nothing fires any more")]
    NothingFires,
    /// No matcher was chosen, or one that the firing alerts do not share.
    #[error("a silence needs at least one label on which the firing alerts agree")]
    NoMatcher,
    /// No labels were chosen, and the default matchers would match the whole pool.
    #[error(transparent)]
    WholePool(#[from] WholePool),
    /// The duration is below [`SHORTEST`] or above the longest one that is allowed.
    #[error("a silence lasts from a minute to {longest}", longest = human_duration(*.0))]
    Duration(Duration),
    /// No Alertmanager knows the id.
    #[error("no Alertmanager knows a silence `{0}`")]
    Unknown(String),
    /// The silence has already ended.
    #[error("the silence `{0}` has ended")]
    Over(String),
    /// Alertmanager may have created the silence, and did not say so.
    #[error("it is not known whether Alertmanager created the silence: {0}")]
    Unsure(AlertmanagerError),
    /// The error of Alertmanager.
    #[error(transparent)]
    Alertmanager(#[from] AlertmanagerError),
}

/// A silence that was created.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedSilence {
    /// Its id.
    pub id: String,
    /// Its matchers.
    pub matchers: Vec<SilenceMatcher>,
    /// Its end.
    pub until: Timestamp,
    /// Number of alerts that it matches now; `None` if Alertmanager did not answer.
    pub alerts: Option<usize>,
}

/// A request for a silence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilenceParameters {
    /// The author.
    pub who: String,
    /// The reason.
    pub comment: String,
    /// The duration.
    pub duration: Duration,
    /// The longest duration that is allowed.
    pub longest: Duration,
}

/// Creates a silence with these matchers, which must be among those that [`shared`] returns for `alerts`.
///
/// # Errors
/// When the request is invalid, every Alertmanager for these alerts is down, or one may have created it.
pub async fn create(
    all: &[Alertmanager],
    alerts: &[Alert],
    matchers: &[SilenceMatcher],
    wish: &SilenceParameters,
    now: Timestamp,
) -> Result<CreatedSilence, SilenceError> {
    if wish.duration < SHORTEST || wish.duration > wish.longest {
        return Err(SilenceError::Duration(wish.longest));
    }
    if !alerts.iter().any(|alert| alert.status == AlertStatus::Firing) {
        return Err(SilenceError::NothingFires);
    }
    let shared = shared(alerts);
    if matchers.is_empty() || !matchers.iter().all(|matcher| shared.contains(matcher)) {
        return Err(SilenceError::NoMatcher);
    }
    let until = clock::after(now, wish.duration);
    let comment = wish.comment.chars().map(|c| if c.is_control() { ' ' } else { c }).take(COMMENT_CHARS).collect();
    let silence = NewSilence {
        matchers: matchers.to_vec(),
        starts_at: now,
        ends_at: until,
        created_by: wish.who.clone(),
        comment,
    };
    let mut last = SilenceError::NoAlertmanager;
    for one in chosen(all, &common(alerts)) {
        match one.create(&silence).await {
            Ok(id) => {
                let alerts = one.alerts(matchers).await.ok().map(|matched| matched.len());
                return Ok(CreatedSilence { id, matchers: matchers.to_vec(), until, alerts });
            }
            // Its peer would create a second one.
            Err(error) if error.is_unsure() => return Err(SilenceError::Unsure(error)),
            Err(error) if error.is_down() => last = error.into(),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last)
}

/// Counts the alerts that these matchers meet now and that are not among `alerts`. Asks the Alertmanager in which
/// [`create`] would create the silence.
///
/// # Errors
/// When every Alertmanager for these alerts is down, or one refuses.
pub async fn others(
    all: &[Alertmanager],
    alerts: &[Alert],
    matchers: &[SilenceMatcher],
) -> Result<usize, SilenceError> {
    let own: BTreeSet<&Labels> = alerts.iter().map(|alert| &alert.labels).collect();
    let mut last = SilenceError::NoAlertmanager;
    for one in chosen(all, &common(alerts)) {
        match one.alerts(matchers).await {
            Ok(matched) => return Ok(matched.iter().filter(|labels| !own.contains(labels)).count()),
            Err(error) if error.is_down() => last = error.into(),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last)
}

/// Ends a silence on the Alertmanager that has it.
///
/// # Errors
/// When no Alertmanager has the silence, it is over already, or an Alertmanager that may have it is down.
pub async fn expire(all: &[Alertmanager], id: &str) -> Result<Silence, SilenceError> {
    let mut last = None;
    for one in all {
        // Queried first: Alertmanager 0.25 answers 500 when it is to end an unknown silence.
        match one.silence(id).await {
            Ok(Some(silence)) if silence.is_over() => return Err(SilenceError::Over(id.to_owned())),
            Ok(Some(silence)) => return one.expire(id).await.map(|()| silence).map_err(Into::into),
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| SilenceError::Unknown(id.to_owned()), Into::into))
}

/// Returns all active and pending silences without duplicates, those that end first at the top; and the errors of
/// Alertmanagers that could not be queried.
pub async fn list(all: &[Alertmanager]) -> (Vec<Silence>, Vec<String>) {
    let answers = futures::future::join_all(
        all.iter().map(|alertmanager| async move { (alertmanager, alertmanager.silences().await) }),
    )
    .await;
    let (mut silences, mut problems): (Vec<Silence>, Vec<String>) = Default::default();
    for (alertmanager, answer) in answers {
        match answer {
            Ok(some) => silences.extend(some),
            Err(error) => problems.push(format!("{}: {error}", alertmanager.url)),
        }
    }
    silences.sort_by(|a, b| (a.ends_at, &a.id).cmp(&(b.ends_at, &b.id)));
    silences.dedup_by(|a, b| a.id == b.id);
    (silences, problems)
}
