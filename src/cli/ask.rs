//! The input of `diagnose` and `bundle`: labels, an alert's file, a pool's name ─▶ a request, and its answer.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde_json::Value;

use super::input;
use chat::command::When;
use diagnose::health::{HealthSource, Triage};
use diagnose::{ExtraSources, LogSources, health, moment};
use findings::{AlertCondition, Request, Scope};
use knowledge::alert::{AlertGroup, AlertStatus, Labels, PayloadError};
use knowledge::clock;
use knowledge::playbook::{Library, Problem, select, without_expression};
use service::config::Config;
use service::questions::target;

/// Maximum bytes of a file with an alert.
const FILE_BYTES: u64 = 64 << 20;

/// Maximum age of a request that counts as one about now.
const JUST: Duration = Duration::from_secs(60);

/// Maximum bytes of all logs together.
const LOG_BYTES: u64 = 64 << 20;

/// Builds the request; the playbook is empty if the symptom has to be found.
///
/// # Errors
/// If the arguments define no request, or there is no such playbook.
pub(super) fn request(
    library: &Library,
    config: &Config,
    playbook: Option<&str>,
    target: Option<&str>,
    labels: &[(String, String)],
    when: &When,
    group: Option<&AlertGroup>,
) -> anyhow::Result<Request> {
    let screen = playbook.is_none();
    let playbook = match (playbook, group) {
        (Some(name), _) => library.playbook_id(name).map_err(anyhow::Error::msg)?.to_owned(),
        // The symptom is searched later.
        (None, None) if target.is_some() => String::new(),
        (None, Some(group)) => select(library, &group.alerts).map(|selection| selection.playbook).unwrap_or_default(),
        (None, None) => bail!("pass --alert or --playbook"),
    };
    let labels: Labels = labels.iter().cloned().collect();
    target::known_labels(config.prometheus.iter().map(|prometheus| &prometheus.labels), &labels)?;
    let mut scope = group.map(|g| Scope::of_alerts(&g.alerts)).unwrap_or_default();
    let label_scope = Scope::of_labels(&labels);
    scope.dimensions.extend(label_scope.dimensions);
    scope.replicas.extend(label_scope.replicas);
    let names_pool = target.is_some() || scope.is_about_pools(library);
    if let Some(group) = group.filter(|_| playbook.is_empty() && !names_pool) {
        bail!(
            "no playbook knows alert `{}`, and its labels name no pool: pass --playbook, or a --label such as model=NAME",
            group.alerts.first().map(|a| a.name()).unwrap_or_default()
        );
    }
    let now = clock::now();
    let time_of_alerts = || group.map_or(now, |group| time_of_alerts(group, now));
    let at = when.at.map_or_else(time_of_alerts, |at| at.resolve(now));
    let rules = group.filter(|_| playbook.is_empty()).map(|group| without_expression(&group.alerts));
    Ok(Request {
        playbook,
        rules: rules.unwrap_or_default(),
        conditions: group.map(|group| AlertCondition::of_alerts(&group.alerts)).unwrap_or_default(),
        // A named playbook is never replaced by another.
        screen,
        scope,
        at,
        since: match when.last {
            Some(last) => Some(clock::before(at, last)),
            None => group.and_then(|g| g.alerts.iter().map(|a| a.starts_at).min()),
        },
        window: when.last.unwrap_or(config.diagnose.window),
        is_young: false,
        baseline: config.diagnose.baseline,
        deadline: config.diagnose.deadline,
    })
}

/// Returns the time of the diagnosis of an alert group.
fn time_of_alerts(group: &AlertGroup, now: Timestamp) -> Timestamp {
    let active = group.active();
    let Some(began) = active.iter().map(|alert| alert.starts_at).min() else { return now };
    let fires = active.iter().any(|alert| alert.status == AlertStatus::Firing);
    let ended = active.iter().map(|alert| alert.ends_at).max().filter(|_| !fires);
    moment(began, ended.map(|ended| ended.max(began)), now)
}

/// Returns true if a request is about now, so that exporters' own pages are evidence.
pub(super) fn is_now(request: &Request) -> bool {
    clock::between(request.at, clock::now()) < JUST
}

/// Returns the Prometheus of these alerts: the one of the argument, else the configured one whose labels match; without
/// alerts the one for every alert, else the first.
///
/// # Errors
/// If no configured one is for these alerts.
pub(super) fn prometheus(
    config: &Config,
    url: Option<&str>,
    group: Option<&AlertGroup>,
) -> anyhow::Result<prom::Config> {
    let Some(group) = group.filter(|_| url.is_none()) else {
        let named = url.map(|url| prom::Config { url: url.to_owned(), ..prom::Config::default() });
        let general = config.prometheus.iter().find(|p| p.labels.is_empty()).or(config.prometheus.first());
        return Ok(named.or_else(|| general.cloned()).unwrap_or_default());
    };
    let configured: Vec<_> = config.prometheus.iter().map(|p| (p.clone(), p.labels.clone())).collect();
    let Some(chosen) = prom::choose(&configured, &group.alerts) else {
        let entries: Vec<_> = configured.iter().map(|(one, labels)| (one.name.as_str(), labels)).collect();
        bail!("{}; or pass --prometheus", prom::unassigned(&entries, &group.alerts));
    };
    Ok(chosen.clone())
}

/// Finds the named pool, and its symptom.
///
/// # Errors
/// If no pool or several match the name, no series has a value of the given labels, or the query fails.
pub(super) async fn answer(
    library: &Library,
    source: HealthSource<'_>,
    request: &mut Request,
    target: Option<&str>,
    labels: &[(String, String)],
    extra: ExtraSources<'_>,
) -> anyhow::Result<Triage> {
    let labels: Labels = labels.iter().cloned().collect();
    // Concurrent with the diagnosis, so that an unresponsive Prometheus costs its timeout only once.
    let values_known = target::known_values(library, source, &labels, request.at, request.deadline);
    let (values_known, answered) =
        futures::future::join(values_known, answer_about(library, source, request, target, extra)).await;
    values_known.and(answered)
}

async fn answer_about(
    library: &Library,
    source: HealthSource<'_>,
    request: &mut Request,
    target: Option<&str>,
    extra: ExtraSources<'_>,
) -> anyhow::Result<Triage> {
    if let Some(typed) = target {
        let matches = target::find(library, &[source], typed, request.at, request.deadline).await?;
        let only = target::only(matches, typed)?;
        let label_scope = std::mem::replace(&mut request.scope, only.scope());
        request.scope.dimensions.extend(label_scope.dimensions);
    }
    Ok(health::answer(library, source, request, extra).await)
}

/// Connects the configured sources of logs and reads the given files.
///
/// # Errors
/// If a file cannot be read, or an entry of `loki:` is invalid.
pub(super) async fn logs(config: &Config, files: &[PathBuf]) -> anyhow::Result<LogSources> {
    let sources = LogSources::connect(&config.kubernetes, &config.loki).await.context("in `loki:`")?;
    let (files, unread) = logs::files::read(files, LOG_BYTES);
    if let Some(gap) = unread.first() {
        bail!("cannot read the log {}: {}", gap.what, gap.reason.as_str());
    }
    Ok(LogSources { files, ..sources })
}

/// Reads an alert's file.
///
/// # Errors
/// If it cannot be read, or contains no alert.
pub(super) fn read(path: &str) -> anyhow::Result<AlertGroup> {
    read_whole(path).map(|(group, _)| group)
}

/// As [`read`]; also returns the whole content of the file.
pub(super) fn read_whole(path: &str) -> anyhow::Result<(AlertGroup, Value)> {
    let (source_name, text) = input::text(path, "the alert", FILE_BYTES)?;
    let with_position = |error| match error {
        PayloadError::Shape(json) if json.line() > 0 => {
            anyhow::Error::new(Problem::of_json(&source_name, &text, &json))
        }
        error => error.into(),
    };
    let group = AlertGroup::from_file(text.as_bytes())
        .map_err(with_position)
        .with_context(|| format!("{source_name} holds no alert"))?;
    Ok((group, serde_json::from_str(&text).with_context(|| format!("{source_name} is no JSON"))?))
}
