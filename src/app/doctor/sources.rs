//! `doctor`'s checks of the sources for evidence and bundles: cluster, Loki, engines, access to pages, bundle
//! directory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{CALL, Findings, is_loopback, writable};
use bundle::directory;
use service::check::Level;
use service::config::{Config, secret};
use sources::kubernetes::{self, Kubernetes};
use sources::loki::{self, Loki};
use web::{Access, Credentials};

/// Timeout for the check of all permissions.
const PERMISSIONS: Duration = Duration::from_secs(15);
/// Maximum number of missing permissions in a message.
const NAMED: usize = 6;

pub(super) async fn check(findings: &mut Findings, config: &Config, state: &Path) {
    cluster(findings, &config.kubernetes).await;
    if config.loki.is_empty() {
        findings.ok("loki", "none is configured: logs come from the cluster and from files".to_owned());
    }
    for loki in &config.loki {
        logs(findings, loki).await;
    }
    endpoints(findings, config);
    pages(findings, config);
    bundles(findings, config, state);
}

async fn cluster(findings: &mut Findings, config: &kubernetes::Config) {
    let name = "kubernetes";
    let client = match Kubernetes::connect(config).await {
        Ok(Some(client)) => client,
        Ok(None) => {
            return findings.ok(name, "is not asked: this is no pod, or `kubernetes.enabled` is false".to_owned());
        }
        Err(error) => {
            let todo = "correct `kubernetes:`, or set `kubernetes.enabled: false`: diagnoses and bundles go without it";
            return findings.say(name, Level::Fail, error.to_string(), todo);
        }
    };
    let permissions = client.permissions(Instant::now() + PERMISSIONS).await;
    if let Some(failed) = permissions.failed {
        let todo = "see that the API server answers from here in time, with the credentials that we have";
        findings.say(name, Level::Fail, failed, todo);
    } else {
        findings.ok(name, format!("answers {} questions, one of each kind", permissions.tried));
    }
    if !permissions.missing.is_empty() {
        let names = permissions.missing.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = permissions.missing.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let todo = "apply config/kubernetes/rbac.yaml, for logs config/kubernetes/logs.yaml in the fleet's namespaces, and name these \
             under `kubernetes.namespaces`; or leave it so: what cannot be read is named wherever it is missing";
        findings.say("kubernetes permissions", Level::Warn, format!("may not {names}{more}"), todo);
    }
}

async fn logs(findings: &mut Findings, config: &loki::Config) {
    let client = match Loki::new(config) {
        Ok(client) => client,
        Err(error) => {
            return findings.say("loki", Level::Fail, error.to_string(), "correct its entry under `loki:`");
        }
    };
    let name = format!("loki {}", client.url);
    match client.ready(Instant::now() + CALL).await {
        Ok(()) => {
            let labels = format!("answers; its labels are `{}` and `{}`", config.namespace, config.pod);
            findings.ok(&name, labels);
        }
        Err(error) => {
            let todo = "see `url`, `headers`, `namespace` and `pod` of its entry under `loki:`";
            findings.say(&name, Level::Fail, error.to_string(), todo);
        }
    }
}

/// Checks that engines may be read directly.
fn endpoints(findings: &mut Findings, config: &Config) {
    let allow = config.exporters.allow.len();
    if allow == 0 {
        let todo =
            "name the networks of the engines in `exporters.allow`; without one neither metrics nor settings are read";
        return findings.say("endpoints", Level::Warn, "no engine may be asked itself".to_owned(), todo);
    }
    let networks = if allow == 1 { "1 network" } else { &format!("{allow} networks") };
    findings
        .ok("endpoints", format!("engines and exporters are asked themselves within {networks} of `exporters.allow`"));
}

fn pages(findings: &mut Findings, config: &Config) {
    // Only loopback matters here, and a host name may resolve to any address.
    let listen = match is_loopback(&config.listen) {
        true => SocketAddr::from(([127, 0, 0, 1], 0)),
        false => SocketAddr::from(([0, 0, 0, 0], 0)),
    };
    // Errors of the webhook's credentials are a finding of their own.
    let credentials = Credentials::new(&config.webhook).unwrap_or_default();
    match Access::new(&config.pages, &credentials, listen, &config.public_url) {
        Err(error) => {
            let todo = "correct the keys under `pages:`, and make its files readable and not empty";
            findings.say("pages", Level::Fail, format!("{error:#}"), todo);
        }
        Ok(access) if !access.is_possible() && config.public_url.is_empty() => {
            findings
                .ok("pages", "closed, because the configuration names no readers; messages have no links".to_owned());
        }
        Ok(access) if !access.is_possible() => {
            let todo = "set `pages.bearer_token_file`, or `pages.username` and `password_file`, or a proxy; on loopback \
                        `pages.authentication: none` opens them";
            let found = "the configuration names no readers: pages and bundles are closed".to_owned();
            findings.say("pages", Level::Warn, found, todo);
        }
        Ok(_) => findings.ok("pages", "open to those who may".to_owned()),
    }
}

fn bundles(findings: &mut Findings, config: &Config, state: &Path) {
    let settings = &config.bundle;
    let dir = match settings.dir.as_os_str().is_empty() {
        true => state.join("bundles"),
        false => settings.dir.clone(),
    };
    let path = dir.display();
    let nearest: PathBuf = match writable(&dir) {
        Ok(nearest) => nearest,
        Err(error) => {
            let todo = "let the service's user write there, or set `bundle.dir` to a directory that it may write";
            return findings.say("bundles", Level::Fail, format!("{path} cannot be written: {error}"), todo);
        }
    };
    match directory::room(&nearest, settings.min_free_bytes) {
        Ok(room) => {
            findings.ok("bundles", format!("{path} can be written and has room for {} MiB", room >> 20));
        }
        Err(error) => {
            let todo = "free the disk, or lower `bundle.min_free_bytes`";
            findings.say("bundles", Level::Warn, error.to_string(), todo);
        }
    }
    if let Some(file) = &settings.link_key_file
        && let Err(error) = secret(file)
    {
        let todo = "make the file of `bundle.link_key_file` readable and not empty, the same at every replica";
        findings.say("bundle links", Level::Fail, format!("{error:#}"), todo);
    }
}
