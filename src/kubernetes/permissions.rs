//! Which permissions are missing: each is tried by a real request, since nothing else tells what a server really allows.

use std::time::Instant;

use futures::stream::{self, StreamExt};
use kube::api::{ListParams, LogParams};

use super::Kubernetes;
use super::ask::{Failure, Query};
use super::kinds::{Kind, LOG, NODE, Verb, read};

/// The name of something that is nowhere: who may read it is told that it does not exist.
const NOWHERE: &str = "llm-diagnose-doctor";
/// Where no namespace is configured; every cluster has it, and permissions for all namespaces count there.
const NAMESPACE: &str = "default";
/// Servers decide by group and resource, whatever the version.
const ANY_VERSION: &str = "v1";
/// Namespaces that are tried.
const NAMESPACES: usize = 8;
/// Requests at once.
const AT_ONCE: usize = 8;

/// What was tried, and what is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// How many requests.
    pub tried: usize,
    /// What may not be read: `list events in llm`.
    pub missing: Vec<String>,
    /// Why nothing, or not all, could be tried.
    pub failed: Option<String>,
}

impl Kubernetes {
    /// Tries everything that is ever read once, in each namespace that may be asked.
    pub async fn permissions(&self, deadline: Instant) -> Permissions {
        let ask = self.ask(deadline);
        let allowed: Vec<&str> = match self.allowed.is_empty() {
            true => vec![NAMESPACE],
            false => self.allowed.iter().map(String::as_str).take(NAMESPACES).collect(),
        };
        let tries: Vec<(&Kind, Verb, Option<&str>)> = read()
            .flat_map(|kind| kind.verbs.iter().map(move |verb| (kind, *verb)))
            .flat_map(|(kind, verb)| match *kind == NODE {
                true => vec![(kind, verb, None)],
                false => allowed.iter().map(|namespace| (kind, verb, Some(*namespace))).collect(),
            })
            .collect();
        let asked = tries.into_iter().map(|(kind, verb, namespace)| async move {
            let one = ListParams::default().limit(1);
            let last = LogParams { limit_bytes: Some(1), ..LogParams::default() };
            let query = match verb {
                _ if *kind == LOG => Query::Log(NOWHERE, &last),
                Verb::Get => Query::Get(NOWHERE),
                Verb::List => Query::List(&one),
            };
            let what = format!("{} {}", verb.name(), kind.name());
            let path = kind.path(kind.version.unwrap_or(ANY_VERSION), namespace);
            let what = namespace.map_or_else(|| what.clone(), |namespace| format!("{what} in {namespace}"));
            let answer = ask.stream(&path, query, &what, |_| Ok(())).await;
            (what, answer)
        });
        // Made at once, because a stream that makes them as it goes cannot be sent between threads.
        let asked: Vec<_> = asked.collect();
        let mut asked = stream::iter(asked).buffered(AT_ONCE);
        let mut told = Permissions::default();
        while let Some((what, answer)) = asked.next().await {
            told.tried += 1;
            match answer {
                // A kind that is not installed is nothing that could be read.
                Ok(()) | Err(Failure::Absent) => {}
                Err(Failure::Forbidden { .. }) => told.missing.push(what),
                Err(failure) if failure.is_final() => {
                    told.failed = Some(failure.to_string());
                    break;
                }
                Err(failure) => _ = told.failed.get_or_insert_with(|| format!("{what}: {failure}")),
            }
        }
        told
    }
}
