//! `doctor`'s checks of the sources for evidence: cluster, Loki, engines; and of the access to pages.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{CALL, Findings, is_loopback};
use service::check::Level;
use service::config::Config;
use sources::kubernetes::{self, Kubernetes};
use sources::loki::{self, Loki};
use web::Login;
use web::{Access, Credentials};

/// Timeout for the check of all permissions.
const PERMISSIONS: Duration = Duration::from_secs(15);
/// Maximum number of missing permissions in a message.
const NAMED: usize = 6;

pub(super) async fn check(findings: &mut Findings, config: &Config) {
    cluster(findings, &config.kubernetes).await;
    if config.loki.is_empty() {
        findings.ok("loki", "none is configured: logs come from the cluster and from files".to_owned());
    }
    for loki in &config.loki {
        logs(findings, loki).await;
    }
    endpoints(findings, config);
    pages(findings, config);
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
    if let Some(Err(error)) = config.pages.oidc.as_ref().map(|oidc| Login::new(oidc, &config.public_url)) {
        let todo = "correct `pages.oidc`, and make its file readable and not empty";
        return findings.say("pages", Level::Fail, format!("{error:#}"), todo);
    }
    match Access::new(&config.pages, &credentials, listen, &config.public_url) {
        Err(error) => {
            let todo = "correct the keys under `pages:`, and make its files readable and not empty";
            findings.say("pages", Level::Fail, format!("{error:#}"), todo);
        }
        Ok(_) if config.pages.oidc.is_some() => findings.ok("pages", "open to those who sign in".to_owned()),
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
