//! Silences over several Alertmanagers: the one whose alerts they are, and its peers while it is down.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::{Alertmanager, AlertmanagerError, Matcher, NewSilence, Silence, chosen};
use crate::alert::{Alert, AlertStatus, Labels, common_labels};
use crate::clock;

/// The longest silence that is made; what should be longer belongs into Alertmanager's configuration.
pub const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// Of a comment, in characters.
const COMMENT_CHARS: usize = 1_000;
/// The label with an alert's name.
pub const ALERTNAME: &str = "alertname";
/// Names of alerts that one matcher holds.
const NAMES: usize = 8;

/// Why a silence was not made or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SilenceError {
    /// None is configured for these alerts.
    #[error("no Alertmanager is configured for these alerts: set `alertmanagers`")]
    NoAlertmanager,
    /// Nothing fires any more.
    #[error("nothing fires any more")]
    NothingFires,
    /// A silence of everything.
    #[error("a silence needs at least one label on which the firing alerts agree")]
    NoMatcher,
    /// Nobody chose labels, and without the alerts' names these would be all.
    #[error(
        "the firing alerts have more than {NAMES} names, and without names a silence takes everything with {0}: choose labels"
    )]
    WholePool(String),
    /// Zero, or longer than [`LONGEST`].
    #[error("a silence lasts between a minute and 30 days")]
    Duration,
    /// No Alertmanager knows the id.
    #[error("no Alertmanager knows a silence `{0}`")]
    Unknown(String),
    /// It ended before.
    #[error("the silence `{0}` is over")]
    Over(String),
    /// What Alertmanager said.
    #[error(transparent)]
    Alertmanager(#[from] AlertmanagerError),
}

/// A silence that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Its id.
    pub id: String,
    /// What it silences.
    pub matchers: Vec<Matcher>,
    /// Until when.
    pub until: Timestamp,
    /// How many alerts it takes now; none when Alertmanager did not tell.
    pub alerts: Option<usize>,
}

/// The labels on which the firing alerts agree: what a silence of them may be made of. Empty when nothing fires.
pub fn common(alerts: &[Alert]) -> Labels {
    let firing: Vec<&Alert> = alerts.iter().filter(|alert| alert.status == AlertStatus::Firing).collect();
    let mut labels = common_labels(&firing);
    // Alertmanager refuses matchers that an absent label meets.
    labels.retain(|_, value| !value.is_empty());
    labels
}

/// What a silence of the firing alerts may be made of: the labels on which they agree, and their names where these
/// differ, so that it takes these alerts and not everything of their pool. Empty when nothing fires.
pub fn shared(alerts: &[Alert]) -> Vec<Matcher> {
    let common = common(alerts);
    let mut matchers: Vec<Matcher> = common.iter().map(|(name, value)| Matcher::equal(name, value)).collect();
    if !common.contains_key(ALERTNAME) {
        let firing = alerts.iter().filter(|alert| alert.status == AlertStatus::Firing);
        let names: BTreeSet<&str> =
            firing.map(|alert| alert.labels.get(ALERTNAME).map_or("", String::as_str)).collect();
        if (1..=NAMES).contains(&names.len()) && !names.contains("") {
            matchers.insert(0, Matcher::one_of(ALERTNAME, names));
        }
    }
    matchers
}

/// What a silence of the firing alerts is made of unless a person chooses: all that they share.
///
/// # Errors
/// When they have too many names for one matcher: without names it would take everything of their pool.
pub fn preselected(alerts: &[Alert]) -> Result<Vec<Matcher>, SilenceError> {
    let shared = shared(alerts);
    if shared.is_empty() || shared.iter().any(|matcher| matcher.name == ALERTNAME) {
        return Ok(shared);
    }
    let all: Vec<String> = shared.iter().map(ToString::to_string).collect();
    Err(SilenceError::WholePool(all.join(" ")))
}

/// Who wants it silent for how long, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Who.
    pub who: String,
    /// Why.
    pub comment: String,
    /// How long.
    pub duration: Duration,
}

/// Silences alerts that meet these matchers, which are some of those that [`shared`] told of `alerts`.
///
/// # Errors
/// When it cannot be, or every Alertmanager of these alerts is down.
pub async fn create(
    all: &[Alertmanager],
    alerts: &[Alert],
    matchers: &[Matcher],
    wish: &Wish,
    now: Timestamp,
) -> Result<Made, SilenceError> {
    if wish.duration < Duration::from_secs(60) || wish.duration > LONGEST {
        return Err(SilenceError::Duration);
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
                let alerts = one.alerts(matchers).await.ok();
                return Ok(Made { id, matchers: matchers.to_vec(), until, alerts });
            }
            Err(error) if error.is_down() => last = error.into(),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last)
}

/// Ends a silence, wherever it is.
///
/// # Errors
/// When nobody knows it, it is over already, or who may know it is down.
pub async fn expire(all: &[Alertmanager], id: &str) -> Result<Silence, SilenceError> {
    let mut last = None;
    for one in all {
        // Alertmanager 0.25 answers 500 when it is to end what it does not know.
        match one.silence(id).await {
            Ok(Some(silence)) if silence.is_over() => return Err(SilenceError::Over(id.to_owned())),
            Ok(Some(silence)) => return one.expire(id).await.map(|()| silence).map_err(Into::into),
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| SilenceError::Unknown(id.to_owned()), Into::into))
}

/// The silences that count or will, each once, those that end first at the top; with what Alertmanagers that could not
/// be asked said.
pub async fn list(all: &[Alertmanager]) -> (Vec<Silence>, Vec<String>) {
    let asked = futures::future::join_all(all.iter().map(|one| async move { (one, one.silences().await) })).await;
    let (mut silences, mut problems): (Vec<Silence>, Vec<String>) = Default::default();
    for (one, answer) in asked {
        match answer {
            Ok(some) => silences.extend(some),
            Err(error) => problems.push(format!("{}: {error}", one.url)),
        }
    }
    silences.sort_by(|a, b| (a.ends_at, &a.id).cmp(&(b.ends_at, &b.id)));
    silences.dedup_by(|a, b| a.id == b.id);
    (silences, problems)
}
