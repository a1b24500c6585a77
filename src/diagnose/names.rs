//! What a pool and its engines are called, as gateways may write it: models, addresses, pods, Services.

use std::collections::BTreeSet;

use super::gather::POD_LABELS;
use super::scope::{Scope, fits};
use crate::alert::Labels;
use crate::signal::{Engine, Matcher};

/// The label that Prometheus' discovery of Services and Endpoints is usually kept as.
pub(super) const SERVICE: &str = "service";

/// The names of a pool's models, engines, pods and places.
#[derive(Debug, Default)]
pub(super) struct PoolNames {
    pub(super) models: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    /// `host:port`, as Prometheus scrapes them.
    instances: BTreeSet<String>,
    pods: BTreeSet<(String, Option<String>)>,
    services: BTreeSet<(String, Option<String>)>,
    /// Namespaces in which other engines serve, with the models that they serve there; none where they name no model.
    elsewhere: BTreeSet<(String, Option<String>)>,
    /// Hosts of engines that are not the pool's.
    foreign_hosts: BTreeSet<String>,
    /// The scope's job is one of serving engines.
    pub(super) narrowed_by_job: bool,
}

impl PoolNames {
    /// What the alert names.
    pub(super) fn of_scope(scope: &Scope) -> Self {
        let of = |dimension: &str| scope.dimensions.get(dimension).cloned().into_iter().collect();
        Self { models: of("model"), namespaces: of("namespace"), ..Self::default() }
    }

    /// Reads a serving engine's row: it belongs to the pool and its names are kept, or it is noted as another pool's.
    pub(super) fn learn(&mut self, engine: &Engine, scope: &Scope, matchers: &[Matcher], row: &Labels) {
        // Namespaces and addresses of another cluster are other ones, even where they are called the same.
        if !in_cluster(engine, scope, row) {
            return;
        }
        let model = engine.told("model", row);
        let namespace = engine.told("namespace", row);
        let instance = row.get("instance").filter(|value| !value.is_empty());
        if !fits(matchers, row) {
            self.elsewhere.extend(namespace.map(|namespace| (namespace.clone(), model.cloned())));
            self.foreign_hosts.extend(instance.map(|instance| host(instance).to_owned()));
            return;
        }
        self.models.extend(model.cloned());
        self.namespaces.extend(namespace.cloned());
        self.instances.extend(instance.cloned());
        let pod = POD_LABELS.iter().find_map(|label| row.get(*label).filter(|value| !value.is_empty()));
        self.pods.extend(pod.map(|pod| (pod.clone(), namespace.cloned())));
        self.services.extend(row.get(SERVICE).map(|service| (service.clone(), namespace.cloned())));
        self.narrowed_by_job |= scope.dimensions.get("job").is_some_and(|job| Some(job) == engine.told("job", row));
    }

    pub(super) fn has_model(&self, model: &str) -> bool {
        self.models.iter().any(|own| same_model(own, model))
    }

    /// Whether a URL, an address or a pod's name is one of the pool's engines, as a gateway of a namespace writes it.
    pub(super) fn has_address(&self, address: &str, beside: Option<&String>) -> bool {
        let address = address.split_once("://").map_or(address, |(_, rest)| rest);
        let address = address.split(['/', '?']).next().unwrap_or_default();
        if address.is_empty() {
            return false;
        }
        let name = host(address);
        // A pod has an address of its own, whichever port is scraped; engines of one machine differ in the port alone.
        let shared = self.foreign_hosts.contains(name) || name == "localhost" || name.starts_with("127.");
        let same_host = || !shared && self.instances.iter().any(|own| host(own) == name);
        let mut parts = name.split('.');
        let first = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        // llm-d's picker calls an endpoint `<pod>-rank-<n>`, each data-parallel rank by itself.
        let ranked = first
            .rsplit_once("-rank-")
            .filter(|(_, rank)| !rank.is_empty() && rank.bytes().all(|b| b.is_ascii_digit()));
        let named = |pod: &String| pod == first || ranked.is_some_and(|(of, _)| pod == of);
        // `service.namespace.svc`, `pod.service.namespace.svc`; without a namespace, the gateway's own.
        let within = |at: usize, namespace: &Option<String>| match (rest.get(at), namespace) {
            (Some(part), Some(own)) => part == own,
            (None, Some(own)) => beside.is_none_or(|gateway| gateway == own),
            (_, None) => true,
        };
        self.instances.contains(address)
            || same_host()
            || self.pods.iter().any(|(pod, namespace)| named(pod) && within(1, namespace))
            || self.services.iter().any(|(service, namespace)| service == first && within(0, namespace))
    }

    /// Whether the engines of a namespace are all the pool's.
    pub(super) fn is_alone_in(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace) && !self.elsewhere.iter().any(|(other, _)| other == namespace)
    }

    /// Whether a gateway in this namespace stands before another pool that serves a model of the same name.
    pub(super) fn is_anothers(&self, namespace: &str) -> bool {
        let serves = |(other, model): &(String, Option<String>)| {
            other == namespace && model.as_ref().is_some_and(|model| self.has_model(model))
        };
        !self.namespaces.contains(namespace) && self.elsewhere.iter().any(serves)
    }
}

/// Whether a row is of the scope's cluster, or names none.
pub(super) fn in_cluster(engine: &Engine, scope: &Scope, row: &Labels) -> bool {
    let asked = scope.dimensions.get("cluster");
    engine.told("cluster", row).is_none_or(|cluster| asked.is_none_or(|asked| asked == cluster))
}

/// Whether two names mean one model: providers and owners are written before it, `openai/`, `meta-llama/`.
pub(super) fn same_model(one: &str, other: &str) -> bool {
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
    one == other || (!one.is_empty() && !other.is_empty() && (ends(one, other) || ends(other, one)))
}

/// The host of `host:port`; an IPv6 address stands in brackets.
pub(super) fn host(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => address,
    }
}
