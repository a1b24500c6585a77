//! Clients that share a server: one gate for all entries of the configuration with its address.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::gate::{CircuitLimits, Gate};
use super::{Config, PromError, Prometheus};
use knowledge::alert::Labels;

/// Returns the server of an address as scheme and `host:port`: in small letters, with the port that the scheme implies,
/// without user, password and path. An address that cannot be read has no server.
pub(super) fn server_of(url: &str) -> (String, String) {
    let Ok(parsed) = Url::parse(url) else { return Default::default() };
    let host = parsed.host_str().unwrap_or_default().trim_end_matches('.');
    let port = parsed.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    (parsed.scheme().to_owned(), format!("{host}{port}"))
}

impl Prometheus {
    /// Creates a client for each entry, in order and with its labels. Entries with one server (scheme, host and port) share
    /// its slots, as many as the largest `concurrency` among them, of which each takes half, and whether it works.
    pub fn sharing(configs: &[Config]) -> Result<Vec<(Self, Labels)>, PromError> {
        let clients = Self::sharing_within(configs, CircuitLimits::default())?;
        Ok(clients.into_iter().zip(configs.iter().map(|config| config.labels.clone())).collect())
    }

    pub(super) fn sharing_within(configs: &[Config], limits: CircuitLimits) -> Result<Vec<Self>, PromError> {
        let mut servers: BTreeMap<(String, String), Vec<&Config>> = BTreeMap::new();
        for config in configs {
            servers.entry(server_of(&config.url)).or_default().push(config);
        }
        let gate = |(server, entries): ((String, String), Vec<&Config>)| {
            let slots = entries.iter().map(|config| config.concurrency).max().unwrap_or_default();
            let gate = Gate::new(server.1.clone(), slots, entries.len(), limits);
            (server, Arc::new(gate))
        };
        let gates: BTreeMap<_, _> = servers.into_iter().map(gate).collect();
        let client = |config: &Config| {
            let client = Self::behind(Arc::clone(&gates[&server_of(&config.url)]), config)?;
            let is_alone = configs.iter().filter(|other| other.shown_url() == client.url).count() == 1;
            let key = if is_alone { client.url.clone() } else { format!("{} {}", client.url, client.name) };
            Ok(Self { key, ..client })
        };
        configs.iter().map(client).collect()
    }

    /// Returns the server as `host:port`.
    pub fn server(&self) -> &str {
        &self.gate.server
    }

    /// Returns the time until a probe asks a server that does not answer: zero while one does, `None` if queries are sent.
    pub fn pause_left(&self) -> Option<Duration> {
        self.gate.pause_left()
    }

    /// Returns each server as `host:port`, with whether it is not asked, and how many queries were not sent because it did
    /// not answer. Two that differ in their scheme alone are one.
    pub fn servers<'a>(clients: impl IntoIterator<Item = &'a Self>) -> BTreeMap<&'a str, (bool, u64)> {
        let gates: BTreeMap<_, _> =
            clients.into_iter().map(|client| (Arc::as_ptr(&client.gate), &*client.gate)).collect();
        let mut servers: BTreeMap<&str, (bool, u64)> = BTreeMap::new();
        for gate in gates.into_values() {
            let (is_shut, unsent) = servers.entry(&gate.server).or_default();
            *is_shut |= gate.is_shut();
            *unsent += gate.unsent();
        }
        servers
    }

    /// Groups clients by address, in the order of the first of each: they differ in headers alone.
    pub fn by_address<'a>(clients: impl IntoIterator<Item = &'a Self>) -> Vec<Vec<&'a Self>> {
        let mut groups: Vec<Vec<&Self>> = Vec::new();
        for client in clients {
            let is_same = |first: &Self| Arc::ptr_eq(&first.gate, &client.gate) && first.url == client.url;
            match groups.iter_mut().find(|group| is_same(group[0])) {
                Some(group) => group.push(client),
                None => groups.push(vec![client]),
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_server_are_told_by_scheme_host_and_port() {
        let server = |url: &str| {
            let (scheme, place) = server_of(url);
            format!("{scheme} {place}")
        };
        for url in ["http://mimir", "HTTP://Mimir.:80/prometheus/", "http://user:secret@mimir/eu?token=secret"] {
            assert_eq!(server(url), "http mimir:80");
        }
        assert_eq!(server("https://mimir"), "https mimir:443");
        assert_eq!(server("http://[::1]:9090/x"), "http [::1]:9090");
        assert_eq!(server("nowhere"), " ");
    }

    #[test]
    fn entries_with_one_address_are_told_apart_by_their_names_and_servers_by_their_label() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let entry = |(name, url): (&str, &str)| Config { name: name.into(), url: url.into(), ..Config::default() };
        let given =
            [("a", "http://m:9090/"), ("b", "http://m:9090"), ("c", "http://m:9090/eu"), ("d", "https://m:9090")];
        let clients: Vec<_> = Prometheus::sharing(&given.map(entry)).unwrap().into_iter().map(|(c, _)| c).collect();
        let keys: Vec<&str> = clients.iter().map(|client| client.key.as_str()).collect();
        assert_eq!(keys, ["http://m:9090 a", "http://m:9090 b", "http://m:9090/eu", "https://m:9090"]);
        assert_eq!(Prometheus::servers(&clients), BTreeMap::from([("m:9090", (false, 0))]));
    }
}
