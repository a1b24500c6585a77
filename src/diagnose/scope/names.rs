//! Names of a pool and its engines as gateways may write them: models, addresses, pods, Services.

use std::collections::BTreeSet;

use crate::scope::{POD_LABELS, Scope, fits};
use knowledge::alert::Labels;
use knowledge::signal::{Engine, Matcher};

/// The usual target label for the Service in Prometheus' discovery of Services and Endpoints.
pub(crate) const SERVICE: &str = "service";

/// The names of a pool's models, engines, pods and namespaces.
#[derive(Debug, Default)]
pub(crate) struct PoolNames {
    pub(crate) models: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    /// `host:port`, as Prometheus scrapes them.
    instances: BTreeSet<String>,
    pods: BTreeSet<(String, Option<String>)>,
    services: BTreeSet<(String, Option<String>)>,
    /// Namespaces of other engines, with the models that they serve there; `None` if they name no model.
    elsewhere: BTreeSet<(String, Option<String>)>,
    /// Hosts of engines that are not the pool's.
    foreign_hosts: BTreeSet<String>,
    /// True if only a part of the engines is known.
    pub(crate) in_part: bool,
    /// True if the scope's job is one of serving engines.
    pub(crate) narrowed_by_job: bool,
}

impl PoolNames {
    /// Returns the names that the alert itself carries.
    pub(crate) fn of_scope(scope: &Scope) -> Self {
        let of = |dimension: &str| scope.dimensions.get(dimension).cloned().into_iter().collect();
        Self { models: of("model"), namespaces: of("namespace"), ..Self::default() }
    }

    /// Reads a serving engine's row: stores its names if it belongs to the pool, else notes it as another pool's.
    pub(crate) fn learn(&mut self, engine: &Engine, scope: &Scope, matchers: &[Matcher], row: &Labels) {
        // Namespaces and addresses of another cluster are different ones even where the names are equal.
        if !in_cluster(engine, scope, row) {
            return;
        }
        let model = engine.dimension_value("model", row);
        let namespace = engine.dimension_value("namespace", row);
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
        self.narrowed_by_job |=
            scope.dimensions.get("job").is_some_and(|job| Some(job) == engine.dimension_value("job", row));
    }

    pub(crate) fn has_model(&self, model: &str) -> bool {
        self.models.iter().any(|own| same_model(own, model))
    }

    /// Returns true if a URL, address or pod name, as written by a gateway of namespace `beside`, is one of the
    /// pool's engines.
    pub(crate) fn has_address(&self, address: &str, beside: Option<&String>) -> bool {
        let address = address.split_once("://").map_or(address, |(_, rest)| rest);
        let address = address.split(['/', '?']).next().unwrap_or_default();
        if address.is_empty() {
            return false;
        }
        let name = host(address);
        // A pod has its own address, whichever port is scraped; engines on one machine differ only in the port.
        let shared = self.foreign_hosts.contains(name) || name == "localhost" || name.starts_with("127.");
        let same_host = || !shared && self.instances.iter().any(|own| host(own) == name);
        let mut parts = name.split('.');
        let first = parts.next().unwrap_or_default();
        let domain: Vec<&str> = parts.collect();
        // llm-d's endpoint picker names an endpoint `<pod>-rank-<n>`, one for each data-parallel rank.
        let ranked = first
            .rsplit_once("-rank-")
            .filter(|(_, rank)| !rank.is_empty() && rank.bytes().all(|b| b.is_ascii_digit()));
        let named = |pod: &String| pod == first || ranked.is_some_and(|(of, _)| pod == of);
        // `service.namespace.svc`, `pod.service.namespace.svc`; without a namespace, the gateway's own.
        let within = |at: usize, namespace: &Option<String>| match (domain.get(at), namespace) {
            (Some(part), Some(own)) => part == own,
            (None, Some(own)) => beside.is_none_or(|gateway| gateway == own),
            (_, None) => true,
        };
        self.instances.contains(address)
            || same_host()
            || self.pods.iter().any(|(pod, namespace)| named(pod) && within(1, namespace))
            || self.services.iter().any(|(service, namespace)| service == first && within(0, namespace))
    }

    /// Returns true if all engines of a namespace are known to belong to the pool.
    pub(crate) fn is_alone_in(&self, namespace: &str) -> bool {
        !self.in_part
            && self.namespaces.contains(namespace)
            && !self.elsewhere.iter().any(|(other, _)| other == namespace)
    }

    /// Returns true if a gateway in this namespace serves another pool that has a model of the same name.
    pub(crate) fn is_anothers(&self, namespace: &str) -> bool {
        let serves = |(other, model): &(String, Option<String>)| {
            other == namespace && model.as_ref().is_some_and(|model| self.has_model(model))
        };
        !self.namespaces.contains(namespace) && self.elsewhere.iter().any(serves)
    }
}

/// Returns true if a row belongs to the scope's cluster, or names no cluster.
pub(crate) fn in_cluster(engine: &Engine, scope: &Scope, row: &Labels) -> bool {
    let scope_cluster = scope.dimensions.get("cluster");
    engine.dimension_value("cluster", row).is_none_or(|cluster| scope_cluster.is_none_or(|scope| scope == cluster))
}

/// Returns true if two names mean the same model: a provider or owner may come first, `openai/`, `meta-llama/`.
pub(crate) fn same_model(one: &str, other: &str) -> bool {
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
    one == other || (!one.is_empty() && !other.is_empty() && (ends(one, other) || ends(other, one)))
}

/// Returns the host of `host:port`; an IPv6 address is in brackets.
pub(crate) fn host(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => address,
    }
}
