//! Clients that share a server: one gate for all entries of the configuration with its address.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::circuit::CircuitSettings;
use super::gate::Gate;
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
    /// its slots, as many as the largest `concurrency` among them, and whether it works.
    ///
    /// # Errors
    /// As [`Prometheus::new`].
    pub fn sharing(configs: &[Config]) -> Result<Vec<(Self, Labels)>, PromError> {
        let clients = Self::sharing_within(configs, CircuitSettings::default())?;
        Ok(clients.into_iter().zip(configs.iter().map(|config| config.labels.clone())).collect())
    }

    pub(super) fn sharing_within(configs: &[Config], settings: CircuitSettings) -> Result<Vec<Self>, PromError> {
        let mut servers: BTreeMap<(String, String), (usize, BTreeSet<String>)> = BTreeMap::new();
        for config in configs {
            let (slots, addresses) = servers.entry(server_of(&config.url)).or_default();
            *slots = config.concurrency.max(*slots);
            addresses.insert(config.shown_url());
        }
        let gate = |(server, (slots, addresses)): ((String, String), (usize, BTreeSet<String>))| {
            let gate = Gate::new(server.1.clone(), slots, addresses.len() > 1, settings);
            (server, Arc::new(gate))
        };
        let gates: BTreeMap<_, _> = servers.into_iter().map(gate).collect();
        configs.iter().map(|config| Self::behind(Arc::clone(&gates[&server_of(&config.url)]), config)).collect()
    }

    /// Returns the server as `host:port`.
    pub fn server(&self) -> &str {
        &self.door.gate.server
    }

    /// Returns true while the server is not asked, because it has not answered several times in a row.
    pub fn is_shut(&self) -> bool {
        self.door.gate.is_shut()
    }

    /// Returns the time until a server that does not answer is asked again; `None` if it is asked now.
    pub fn pause_left(&self) -> Option<Duration> {
        self.door.gate.pause_left()
    }

    /// Returns the number of queries that were not sent to the server because it did not answer.
    pub fn unsent(&self) -> u64 {
        self.door.gate.unsent()
    }

    /// Groups clients by address, in the order of the first of each: they differ in headers alone.
    pub fn by_address<'a>(clients: impl IntoIterator<Item = &'a Self>) -> Vec<Vec<&'a Self>> {
        let mut groups: Vec<Vec<&Self>> = Vec::new();
        for client in clients {
            let is_same = |first: &Self| Arc::ptr_eq(&first.door.gate, &client.door.gate) && first.url == client.url;
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
}
