//! Checks the permissions, each by a real request, since nothing else shows reliably what a server allows.

use std::time::Instant;

use futures::stream::{self, StreamExt};
use kube::api::{ListParams, LogParams};

use super::Kubernetes;
use super::ask::{ApiQuery, Failure};
use super::kinds::{LOG, NODE, ResourceKind, Verb, read};

/// The name of an object that does not exist: a user with the permission gets 404.
const MISSING_OBJECT: &str = "llm-diagnose-doctor";
/// The namespace to try if none is configured; it exists in every cluster, and cluster-wide permissions hold there.
const NAMESPACE: &str = "default";
/// The version for kinds without a fixed one; servers authorise by group and resource only.
const ANY_VERSION: &str = "v1";
/// Maximum number of namespaces that are tried.
const NAMESPACES: usize = 8;
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 8;

/// The result of a check of permissions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The number of requests.
    pub tried: usize,
    /// The missing permissions: `list events in llm`.
    pub missing: Vec<String>,
    /// The reason why no or not all requests could be tried.
    pub failed: Option<String>,
}

impl Kubernetes {
    /// Tries every verb of every resource once, in each namespace that may be queried.
    pub async fn permissions(&self, deadline: Instant) -> Permissions {
        let ask = self.session(deadline);
        let allowed: Vec<&str> = match self.allowed.is_empty() {
            true => vec![NAMESPACE],
            false => self.allowed.iter().map(String::as_str).take(NAMESPACES).collect(),
        };
        let tries: Vec<(&ResourceKind, Verb, Option<&str>)> = read()
            .flat_map(|kind| kind.verbs.iter().map(move |verb| (kind, *verb)))
            .flat_map(|(kind, verb)| match *kind == NODE {
                true => vec![(kind, verb, None)],
                false => allowed.iter().map(|namespace| (kind, verb, Some(*namespace))).collect(),
            })
            .collect();
        let requests = tries.into_iter().map(|(kind, verb, namespace)| async move {
            let one = ListParams::default().limit(1);
            let last = LogParams { limit_bytes: Some(1), ..LogParams::default() };
            let query = match verb {
                _ if *kind == LOG => ApiQuery::Log(MISSING_OBJECT, &last),
                Verb::Get => ApiQuery::Get(MISSING_OBJECT),
                Verb::List => ApiQuery::List(&one),
            };
            let what = format!("{} {}", verb.name(), kind.name());
            let path = kind.path(kind.version.unwrap_or(ANY_VERSION), namespace);
            let what = namespace.map_or_else(|| what.clone(), |namespace| format!("{what} in {namespace}"));
            let answer = ask.stream(&path, query, &what, |_| Ok(())).await;
            (what, answer)
        });
        // The requests are collected first, because a lazy stream of them is not `Send`.
        let requests: Vec<_> = requests.collect();
        let mut requests = stream::iter(requests).buffered(AT_ONCE);
        let mut permissions = Permissions::default();
        while let Some((what, answer)) = requests.next().await {
            permissions.tried += 1;
            match answer {
                // A kind that is not installed needs no permission.
                Ok(()) | Err(Failure::Absent) => {}
                Err(Failure::Forbidden { .. }) => permissions.missing.push(what),
                Err(failure) if failure.is_final() => {
                    permissions.failed = Some(failure.to_string());
                    break;
                }
                Err(failure) => _ = permissions.failed.get_or_insert_with(|| format!("{what}: {failure}")),
            }
        }
        permissions
    }
}
