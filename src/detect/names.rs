//! Names of a pool and its engines as gateways may write them: models, addresses, pods, Services.

use std::collections::BTreeSet;

use findings::scope::{POD_LABELS, Scope};
use knowledge::alert::Labels;
use knowledge::signal::Engine;

/// The usual target label for the Service in Prometheus' discovery of Services and Endpoints.
pub(crate) const SERVICE: &str = "service";

/// The place of a program in the network: its cluster, its namespace, and the host that it is scraped at.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NetworkPlace<'a> {
    cluster: Option<&'a String>,
    /// The namespace, if the row has one.
    pub namespace: Option<&'a String>,
    host: Option<&'a str>,
}

impl<'a> NetworkPlace<'a> {
    /// Returns the place of a row of an engine or a gateway.
    pub(crate) fn of(engine: &Engine, row: &'a Labels) -> Self {
        let instance = row.get("instance").filter(|value| !value.is_empty());
        Self {
            cluster: engine.dimension_value("cluster", row),
            namespace: engine.dimension_value("namespace", row),
            host: instance.map(|value| host(value)),
        }
    }

    /// Returns true if a loopback address of the one is an address of the other: they are scraped on one host, and no
    /// namespace tells them apart.
    fn shares_loopback(&self, other: &Self) -> bool {
        let host = |place: &Self| place.host.map(|host| if is_loopback(host) { "localhost" } else { host }.to_owned());
        self.namespace == other.namespace && host(self) == host(other)
    }
}

/// The owner of an address, as a gateway writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddressOwner {
    /// One of the pool's engines.
    Pool,
    /// It may be a name of the pool: nothing speaks against it.
    Unknown,
    /// Another pool's engine, or nobody's that is known: it is not this pool.
    Other,
}

/// An engine as Prometheus scrapes it.
#[derive(Debug, Default)]
struct Served {
    /// `host:port`.
    instance: Option<String>,
    cluster: Option<String>,
    namespace: Option<String>,
    pod: Option<String>,
    service: Option<String>,
}

impl Served {
    fn of(engine: &Engine, row: &Labels) -> Self {
        let value = |label: &str| row.get(label).filter(|value| !value.is_empty()).cloned();
        Self {
            instance: value("instance"),
            cluster: engine.dimension_value("cluster", row).cloned(),
            namespace: engine.dimension_value("namespace", row).cloned(),
            pod: POD_LABELS.iter().find_map(|label| value(label)),
            service: value(SERVICE),
        }
    }

    fn place(&self) -> NetworkPlace<'_> {
        NetworkPlace {
            cluster: self.cluster.as_ref(),
            namespace: self.namespace.as_ref(),
            host: self.instance.as_deref().map(host),
        }
    }

    /// Returns true if an address, `host:port` or a name, is this engine's; `name` is its host.
    fn has(&self, address: &str, name: &str, gateway: NetworkPlace<'_>) -> bool {
        // The same address in another cluster is another machine.
        if self.cluster.as_ref().zip(gateway.cluster).is_some_and(|(own, gateway)| own != gateway) {
            return false;
        }
        if is_loopback(name) {
            let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned());
            let same_port = self.instance.as_deref().is_some_and(|own| port(own) == port(address));
            return same_port && self.place().shares_loopback(&gateway);
        }
        let mut parts = name.split('.');
        let first = parts.next().unwrap_or_default();
        let domain: Vec<&str> = parts.collect();
        // llm-d's endpoint picker names an endpoint `<pod>-rank-<n>`, one for each data-parallel rank.
        let ranked = first
            .rsplit_once("-rank-")
            .filter(|(_, rank)| !rank.is_empty() && rank.bytes().all(|b| b.is_ascii_digit()));
        let named = |pod: &String| pod == first || ranked.is_some_and(|(of, _)| pod == of);
        // `service.namespace.svc`, `pod.service.namespace.svc`; without a namespace, the gateway's own.
        let within = |at: usize| match (domain.get(at), &self.namespace) {
            (Some(part), Some(own)) => part == own,
            (None, Some(own)) => gateway.namespace.is_none_or(|gateway| gateway == own),
            (_, None) => true,
        };
        self.instance.as_deref() == Some(address)
            || self.pod.as_ref().is_some_and(|pod| named(pod) && within(1))
            || self.service.as_ref().is_some_and(|service| service == first && within(0))
    }
}

/// The names of a pool's models, engines, pods and namespaces.
#[derive(Debug, Default)]
pub(crate) struct PoolNames {
    /// The names of its models.
    pub models: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    clusters: BTreeSet<String>,
    own: Vec<Served>,
    /// Engines of other pools in the same cluster, with the models that they serve; `None` if they name no model.
    others: Vec<(Served, Option<String>)>,
    /// True if only a part of the engines is known.
    pub in_part: bool,
    /// True if the scope's job is one of serving engines.
    pub narrowed_by_job: bool,
}

impl PoolNames {
    /// Returns the names that the alert itself carries.
    pub(crate) fn of_scope(scope: &Scope) -> Self {
        let of = |dimension: &str| scope.dimensions.get(dimension).cloned().into_iter().collect();
        Self { models: of("model"), namespaces: of("namespace"), clusters: of("cluster"), ..Self::default() }
    }

    /// Reads a serving engine's row: the pool's own, or another pool's.
    pub(crate) fn learn(&mut self, engine: &Engine, scope: &Scope, is_own: bool, row: &Labels) {
        // Namespaces and addresses of another cluster are different ones even where the names are equal.
        let cluster = engine.dimension_value("cluster", row);
        if cluster.zip(scope.dimensions.get("cluster")).is_some_and(|(own, scope)| own != scope) {
            return;
        }
        let model = engine.dimension_value("model", row);
        let served = Served::of(engine, row);
        if !is_own {
            self.others.push((served, model.cloned()));
            return;
        }
        self.models.extend(model.cloned());
        self.clusters.extend(cluster.cloned());
        self.namespaces.extend(served.namespace.clone());
        self.own.push(served);
        self.narrowed_by_job |=
            scope.dimensions.get("job").is_some_and(|job| Some(job) == engine.dimension_value("job", row));
    }

    /// Returns true if it serves the model.
    pub(crate) fn has_model(&self, model: &str) -> bool {
        self.models.iter().any(|own| same_model(own, model))
    }

    /// Returns true if a row belongs to the pool's cluster, or names no cluster.
    pub(crate) fn in_cluster(&self, engine: &Engine, row: &Labels) -> bool {
        let cluster = engine.dimension_value("cluster", row);
        cluster.is_none_or(|cluster| self.clusters.is_empty() || self.clusters.contains(cluster))
    }

    /// Returns whose a URL, address or pod name is, as a gateway at `gateway` writes it.
    pub(crate) fn owner_of(&self, address: &str, gateway: NetworkPlace<'_>) -> AddressOwner {
        let address = address.split_once("://").map_or(address, |(_, rest)| rest);
        let address = address.split(['/', '?']).next().unwrap_or_default();
        // Where no engine of the pool is known, nothing contradicts.
        if address.is_empty() || self.own.is_empty() {
            return AddressOwner::Unknown;
        }
        let name = host(address);
        let is_at = |served: &Served| served.instance.as_deref().is_some_and(|own| host(own) == name);
        let other = || self.others.iter().any(|(served, _)| served.has(address, name, gateway));
        let own = self.own.iter().filter(|served| served.has(address, name, gateway));
        // Two namespaces may scrape one address: then it is the gateway's neighbour's.
        let beside = |served: &Served| served.namespace.as_ref() == gateway.namespace;
        let mut own = own.peekable();
        if own.peek().is_some() {
            return if !other() || own.any(beside) { AddressOwner::Pool } else { AddressOwner::Other };
        }
        if other() {
            return AddressOwner::Other;
        }
        let is_address =
            |host: &str| is_loopback(host) || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        if is_address(name) {
            // A pod has its own address, whichever port is scraped; engines on one machine differ only in the port.
            let shared = is_loopback(name) || self.others.iter().any(|(served, _)| is_at(served));
            // An address is comparable with addresses, not with names; some rows carry none.
            let mut known = self.own.iter().filter_map(|served| served.instance.as_deref()).map(host).peekable();
            let comparable = known.peek().is_some() && known.all(is_address);
            return match self.own.iter().any(|served| !shared && is_at(served)) {
                true => AddressOwner::Pool,
                false if comparable => AddressOwner::Other,
                false => AddressOwner::Unknown,
            };
        }
        if self.own.iter().any(is_at) {
            return AddressOwner::Pool;
        }
        // A name within the cluster says its namespace, `service.namespace`, `service.namespace.svc`,
        // `pod.service.namespace.svc`; a short one is of the gateway's own. Any other may lead anywhere.
        let domain: Vec<&str> = name.split('.').skip(1).collect();
        let namespace = match domain.as_slice() {
            [] => gateway.namespace.map(String::as_str),
            [namespace] | [namespace, "svc", ..] | [_, namespace, "svc", ..] => Some(*namespace),
            _ => None,
        };
        let elsewhere = namespace.is_some_and(|namespace| !self.namespaces.contains(namespace));
        if elsewhere && !self.namespaces.is_empty() { AddressOwner::Other } else { AddressOwner::Unknown }
    }

    /// Returns true if an engine belongs to the pool.
    pub(crate) fn is_served(&self) -> bool {
        !self.own.is_empty()
    }

    /// Returns true if all engines of a namespace are known to belong to the pool.
    pub(crate) fn is_alone_in(&self, namespace: &str) -> bool {
        let other = |(served, _): &(Served, Option<String>)| served.namespace.as_deref() == Some(namespace);
        !self.in_part && self.namespaces.contains(namespace) && !self.others.iter().any(other)
    }

    /// Returns true if a gateway in this namespace serves another pool that has a model of the same name.
    pub(crate) fn is_anothers(&self, namespace: &str) -> bool {
        let serves = |(served, model): &(Served, Option<String>)| {
            let is_named = || model.as_ref().is_some_and(|model| self.has_model(model));
            served.namespace.as_deref() == Some(namespace) && is_named()
        };
        !self.namespaces.contains(namespace) && self.others.iter().any(serves)
    }
}

/// Returns true for a host that is another machine for each program that names it: loopback, or unspecified.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}

/// Returns true if two names mean the same model: a provider or owner may come first, `openai/`, `meta-llama/`.
pub(crate) fn same_model(one: &str, other: &str) -> bool {
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
    one == other || (!one.is_empty() && !other.is_empty() && (ends(one, other) || ends(other, one)))
}

/// Returns the host of `host:port`; an IPv6 address is in brackets.
pub fn host(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => address,
    }
}
