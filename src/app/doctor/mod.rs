//! The checks of everything that the service needs, each with its remedy.

mod bundles;
mod incident_studies;
mod names;
mod slack;
mod slo;
mod sources;
mod watchdog;

use std::collections::BTreeSet;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use secrecy::ExposeSecret;
use serde::Serialize;

use authoring::check;
use detect::newest;
use diagnose::health::coverage;
use findings::health::Coverage;
use findings::incident_studies::StudiesCoverage;
use knowledge::clip::{format_count, format_error};
use knowledge::clock;
use knowledge::gap::missing_part;
use knowledge::playbook::{Library, Problem, load};
use prom::{PromError, Prometheus};
use service::check::{Level, ServiceCheck};
use service::config::{Config, secret, state_directory, visit_store};
use store::{STORE_FILE, Store, StoreAccess};
use web::Credentials;

pub use incident_studies::studies_coverage;

/// The version of the JSON output; a change that breaks readers gives it another name.
const SCHEMA: &str = "llm-diagnose/doctor/v1";
/// Timeout of one call.
const CALL: Duration = Duration::from_secs(5);
/// Clock skew, in seconds, above which there is a warning, because every window shifts, and above which there is a
/// failure, because Prometheus' look-back of 5 minutes then hides everything.
const SKEW_SECONDS: [f64; 2] = [15.0, 240.0];
/// Maximum age of the newest sample, in seconds; above it the scrape interval is too long for a window of 5 minutes.
const AGE_SECONDS: f64 = 75.0;

/// The results of the checks.
#[derive(Debug, Serialize)]
pub struct Findings {
    schema: &'static str,
    /// Every check, in the order in which they ran.
    pub checks: Vec<ServiceCheck>,
    /// The signals that each Prometheus has, if they were asked for.
    pub coverage: Vec<Coverage>,
    /// The incidents of published studies that each Prometheus could name, if its signals were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub studies: Vec<StudiesCoverage>,
    /// True if a Prometheus could not be queried.
    #[serde(skip)]
    pub prometheus_unavailable: bool,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            checks: Vec::new(),
            coverage: Vec::new(),
            studies: Vec::new(),
            prometheus_unavailable: false,
        }
    }
}

impl Findings {
    /// Adds a passed check.
    pub fn ok(&mut self, name: &str, found: String) {
        self.checks.push(ServiceCheck { name: name.to_owned(), level: Level::Ok, found, todo: None });
    }

    /// Adds a check with its level and what to do.
    pub fn say(&mut self, name: &str, level: Level, found: String, todo: &str) {
        self.checks.push(ServiceCheck { name: name.to_owned(), level, found, todo: Some(todo.to_owned()) });
    }
}

/// Runs the checks for a running service: all but those of the signals, which the service reports separately.
pub async fn examine(config: Arc<Config>) -> Vec<ServiceCheck> {
    let mut findings = Findings::default();
    run_checks(&mut findings, Some(&config), config.playbooks.dir.as_deref(), &config.prometheus, false, &[]).await;
    findings.checks
}

/// Runs all checks, for the shell and for Slack; those of the signals only with `signals`. `files` are rules and
/// dashboards in which names of metrics are looked for.
pub async fn run_checks(
    findings: &mut Findings,
    config: Option<&Config>,
    dir: Option<&Path>,
    prometheuses: &[prom::Config],
    signals: bool,
    files: &[PathBuf],
) {
    let mut library = playbooks(findings, dir);
    if let (Some(config), Some(library)) = (config, &mut library)
        && let Err(error) = config.extend_library(library)
    {
        let todo = "correct `engines:` or `slo:`; config/llm-diagnose.example.yaml has every key";
        findings.say("configuration", Level::Fail, format_error(&error), todo);
    }
    if let Some(config) = config {
        match config.database.url_file.as_deref() {
            Some(file) => shared_store(findings, file).await,
            None => store(findings, &state_directory(config)),
        }
        webhook(findings, config);
    }
    if let Some(library) = &library {
        names::files(findings, library, files);
    }
    prometheus_entries(findings, prometheuses);
    let clients = clients(findings, prometheuses);
    for sharing in Prometheus::by_address(&clients) {
        address(findings, &sharing, library.as_ref(), config, signals).await;
    }
    if let Some(config) = config {
        sources::check(findings, config).await;
        bundles::check(findings, &config.bundle, &state_directory(config));
        let store = visit_store(config, StoreAccess::ReadOnly).await.ok();
        watchdog::check(findings, &config.watchdog, store.as_ref()).await;
        slack::check(findings, config, store.as_ref()).await;
        if let Some(store) = store {
            store.close().await;
        }
    }
}

fn playbooks(findings: &mut Findings, dir: Option<&Path>) -> Option<Library> {
    let place = dir.map_or_else(|| "check".to_owned(), |dir| format!("check {}", dir.display()));
    let first = |problems: &[Problem]| {
        let first = problems.first().map(|p| format!(": {}:{}: {}", p.file, p.line, p.message)).unwrap_or_default();
        format!("{}{first}", format_count(problems.len(), "problem"))
    };
    let todo = format!("run `llm-diagnose {place}`");
    let library = match load(dir) {
        Ok(library) => library,
        Err(problems) => {
            findings.say("playbooks", Level::Fail, first(&problems), &todo);
            return None;
        }
    };
    let unused = dir.map(|dir| check::unused(&library, dir)).unwrap_or_default();
    let problems = check::all(&library, dir);
    if !unused.is_empty() {
        let found = format!("{}; their entries are ignored", first(&unused));
        findings.say("playbooks", Level::Fail, found, &todo);
    } else if !problems.is_empty() {
        findings.say("playbooks", Level::Warn, first(&problems), &todo);
    } else {
        let (playbooks, signals) = (library.playbooks.len(), library.signals.len());
        findings.ok("playbooks", format!("{playbooks} playbooks and {signals} signals, no problems"));
    }
    Some(library)
}

/// Checks that the database can be written without changing it: the service may be running.
fn store(findings: &mut Findings, dir: &Path) {
    let path = dir.display();
    let database = dir.join(STORE_FILE);
    let opened = match database.exists() {
        true => std::fs::OpenOptions::new().read(true).append(true).open(&database).map(|_| ()),
        false => Ok(()),
    };
    match writable(dir).and_then(|nearest| opened.map(|()| nearest)) {
        Ok(nearest) if nearest == dir => findings.ok("store", format!("SQLite in {path}, which can be written")),
        Ok(_) => findings.ok("store", format!("SQLite in {path}, which will be made by the first start")),
        Err(error) => {
            let todo = "let the service's user write there, or set `state_dir` to a directory that it may write";
            findings.say("store", Level::Fail, format!("{path} cannot be written: {error}"), todo);
        }
    }
}

/// Writes and removes a file in a directory, or in its nearest existing ancestor; returns the directory that was used.
fn writable(dir: &Path) -> std::io::Result<PathBuf> {
    let nearest = dir.ancestors().find(|d| d.exists()).unwrap_or(Path::new("."));
    let nearest = if nearest.as_os_str().is_empty() { Path::new(".") } else { nearest };
    if !nearest.is_dir() {
        return Err(std::io::Error::other(format!("{} is no directory", nearest.display())));
    }
    let probe = nearest.join(format!(".llm-diagnose-doctor-{}", std::process::id()));
    std::fs::File::create_new(&probe)?;
    std::fs::remove_file(&probe)?;
    Ok(nearest.to_owned())
}

/// Queries a PostgreSQL; changes nothing in it.
async fn shared_store(findings: &mut Findings, file: &Path) {
    let url = match secret(file) {
        Ok(url) => url,
        Err(error) => {
            let todo = "put postgres://user:password@host:5432/database into the file of `database.url_file`";
            return findings.say("store", Level::Fail, format_error(&error), todo);
        }
    };
    let sent_at = Instant::now();
    match Store::examine(url.expose_secret()).await {
        Ok((named, version, true)) => {
            let took = sent_at.elapsed().as_millis();
            findings.ok("store", format!("{named} (version {version}) answers in {took} ms"));
        }
        Ok((named, _, false)) => {
            let todo = "make its user the database's owner, or `GRANT CREATE ON SCHEMA public` to it";
            findings.say("store", Level::Fail, format!("{named} lets its user make no tables"), todo);
        }
        Err(error) => {
            let todo = "see that the address in the file of `database.url_file` is right and answers from here";
            findings.say("store", Level::Fail, format!("PostgreSQL cannot be used: {error}"), todo);
        }
    }
}

fn is_loopback(listen: &str) -> bool {
    ["127.", "[::1]", "localhost"].iter().any(|host| listen.starts_with(host))
}

fn webhook(findings: &mut Findings, config: &Config) {
    if let Err(error) = config.listen.to_socket_addrs() {
        let found = format!("`listen: {}` is no address to listen on: {error}", config.listen);
        return findings.say("webhook", Level::Fail, found, "write it like 127.0.0.1:9098 or 0.0.0.0:9098");
    }
    let loopback = is_loopback(&config.listen);
    let todo = "remove `webhook.authentication: none`, and set `webhook.bearer_token_file` to a file with a token";
    match Credentials::new(&config.webhook) {
        Err(error) => {
            let todo = "correct the keys under `webhook:`, and make its files readable and not empty; flags of `serve` are \
                        not seen here";
            findings.say("webhook", Level::Fail, format_error(&error), todo);
        }
        Ok(credentials) if !credentials.are_set() && !loopback => {
            let found = format!("{} takes calls from everywhere without credentials", config.listen);
            findings.say("webhook", Level::Warn, found, todo);
        }
        Ok(credentials) => {
            let how = if credentials.are_set() { "with credentials" } else { "on loopback, without credentials" };
            findings.ok("webhook", format!("{}, {how}", config.listen));
        }
    }
}

/// Checks names and labels of several entries: each alert must find the one that is meant for it. Nothing is sent.
fn prometheus_entries(findings: &mut Findings, entries: &[prom::Config]) {
    let [_, .., last] = entries else { return };
    let name = "prometheus entries";
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    if names.len() < entries.len() {
        let found = "several entries have one name: metrics and checks do not tell them apart".to_owned();
        findings.say(name, Level::Warn, found, "give each entry of `prometheus:` a `name` of its own");
    }
    if let Some(entry) = entries[..entries.len() - 1].iter().find(|entry| entry.labels.is_empty()) {
        let found = format!("`{}` takes every alert, so the entries after it are never asked", entry.name);
        findings.say(name, Level::Warn, found, "give it `labels`, or put it last");
    } else if last.labels.is_empty() {
        findings.ok(name, format!("alerts that fit no labels go to `{}`", last.name));
    } else {
        let found =
            format!("all {} need labels: alerts that fit none get no diagnosis, only the reason", entries.len());
        findings.ok(name, found);
    }
}

/// Creates the clients of all entries that are correct; says what is wrong with the others.
fn clients(findings: &mut Findings, entries: &[prom::Config]) -> Vec<Prometheus> {
    let is_correct = |entry: &&prom::Config| match Prometheus::new(entry) {
        Ok(_) => true,
        Err(error) => {
            findings.prometheus_unavailable = true;
            let name = format!("prometheus/{}", entry.name);
            findings.say(&name, Level::Fail, error.to_string(), "correct its entry under `prometheus:`");
            false
        }
    };
    let correct: Vec<prom::Config> = entries.iter().filter(is_correct).cloned().collect();
    Prometheus::sharing(&correct).unwrap_or_default().into_iter().map(|(client, _)| client).collect()
}

/// Checks the entries that share an address. If it does not work, that is said once.
async fn address(
    findings: &mut Findings,
    sharing: &[&Prometheus],
    library: Option<&Library>,
    settings: Option<&Config>,
    signals: bool,
) {
    for (i, client) in sharing.iter().enumerate() {
        let silence = prometheus(findings, client, library, settings, signals).await;
        let (others, last) = (sharing.len() - i - 1, findings.checks.last_mut());
        if let (true, 1.., Some(said)) = (silence, others, last) {
            let entries = if others == 1 { "entry" } else { "entries" };
            said.found += &format!("; {others} more {entries} with this address not asked");
            return;
        }
    }
}

/// Checks one entry; returns true if its server does not work.
async fn prometheus(
    findings: &mut Findings,
    client: &Prometheus,
    library: Option<&Library>,
    settings: Option<&Config>,
    signals: bool,
) -> bool {
    let name = format!("prometheus/{}", client.name);
    let (sent_time, sent_at) = (clock::now(), Instant::now());
    let server_seconds = match client.clock(CALL).await {
        Ok(seconds) => seconds,
        Err(error) => {
            findings.prometheus_unavailable = true;
            let todo = "set `prometheus: [{ url: … }]` or --prometheus to an address that answers from here";
            let found = match &error {
                // The error contains the address.
                PromError::Unreachable(_) => error.to_string(),
                _ => format!("{}: {error}", client.url),
            };
            findings.say(&name, Level::Fail, found, todo);
            return error.is_silence();
        }
    };
    findings.ok(&name, format!("{} answers in {} ms", client.url, sent_at.elapsed().as_millis()));
    // The server read its clock between our request and now.
    let own_seconds = sent_time.as_millisecond() as f64 / 1e3 + sent_at.elapsed().as_secs_f64() / 2.0;
    let skew = server_seconds - own_seconds;
    let side = if skew > 0.0 { "ahead of" } else { "behind" };
    let clocks = format!("its clock is {:.0} s {side} ours", skew.abs());
    let todo = "run a time service (chrony, systemd-timesyncd) on both machines: every query names a time of ours";
    match SKEW_SECONDS.iter().filter(|limit| skew.abs() > **limit).count() {
        0 => findings.ok(&format!("{name} clock"), format!("within {:.0} s of ours", SKEW_SECONDS[0])),
        1 => findings.say(&format!("{name} clock"), Level::Warn, clocks, todo),
        _ => findings.say(&format!("{name} clock"), Level::Fail, clocks, todo),
    }
    let Some(library) = library else { return false };
    let at = Timestamp::from_millisecond((server_seconds * 1e3) as i64).unwrap_or(sent_time);
    age(findings, &name, client, library, at).await;
    names::rules(findings, &name, client, library).await;
    let settings = settings.cloned().unwrap_or_default().diagnose;
    slo::check(findings, &name, client, library, at, settings.window).await;
    if signals {
        let coverage_report = coverage(library, client, at, settings.window, settings.deadline).await;
        findings.prometheus_unavailable |= coverage_report.degraded;
        findings.studies.push(studies_coverage(library, &coverage_report));
        findings.coverage.push(coverage_report);
    }
    false
}

/// Checks the age of the engines' newest sample.
async fn age(findings: &mut Findings, name: &str, client: &Prometheus, library: &Library, at: Timestamp) {
    let name = format!("{name} data");
    let scrape = "scrape the engines' `/metrics`; --signals says what is there";
    let store = "see why a store of this server does not answer; engines may be in its part";
    let often = "scrape every 15 s to 30 s: a window of 5 minutes needs four samples, and short incidents more";
    match client.query(&newest(library), at, Instant::now() + CALL).await {
        Err(error) => {
            findings.say(&name, Level::Fail, error.to_string(), "see that Prometheus answers queries in time")
        }
        Ok(rows) => match rows.first().map(|row| at.as_millisecond() as f64 / 1e3 - row.value) {
            None => match rows.incomplete() {
                Some(said) => findings.say(&name, Level::Warn, missing_part(said), store),
                None => {
                    findings.say(&name, Level::Warn, "no engine's series in the last minutes".to_owned(), scrape);
                }
            },
            Some(age) if age > AGE_SECONDS => {
                findings.say(&name, Level::Warn, format!("the engines' newest sample is {age:.0} s old"), often);
            }
            Some(age) => findings.ok(&name, format!("the engines' newest sample is {:.0} s old", age.max(0.0))),
        },
    }
}
