//! The allow-list of addresses: a learnt address must not lead to internal services that trust their callers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use schemars::JsonSchema;
use serde::Deserialize;

/// An entry of `exporters.allow`: a network such as `10.0.0.0/8`, an address, or a host name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub enum Allowed {
    /// A network.
    Network(IpNet),
    /// A host name, whatever address it resolves to, except those that are always refused.
    Host(String),
}

impl TryFrom<String> for Allowed {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)) {
            Ok(network) => Ok(Self::Network(network)),
            Err(_) if is_host(&text) => Ok(Self::Host(text.to_ascii_lowercase())),
            Err(_) => Err(format!("`{text}` is no network, address or host: write it like 10.0.0.0/8")),
        }
    }
}

impl Allowed {
    /// Returns true if the address is in this network; a host name holds none, since it would have to be resolved.
    pub fn holds(&self, address: IpAddr) -> bool {
        match self {
            Self::Network(network) => network.contains(&address.to_canonical()),
            Self::Host(_) => false,
        }
    }
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
}

/// Returns the default allow-list: private networks. Loopback is not among them, because a learnt loopback address
/// means the loopback of another machine.
pub(super) fn private() -> Vec<Allowed> {
    let v4 = |a, b, bits| Allowed::Network(Ipv4Net::new_assert(Ipv4Addr::new(a, b, 0, 0), bits).into());
    let v6 = Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7);
    vec![v4(10, 0, 8), v4(172, 16, 12), v4(192, 168, 16), v4(100, 64, 10), Allowed::Network(v6.into())]
}

/// Returns true if `address`, which `host` resolves to, may be read.
pub(super) fn permits(allowed: &[Allowed], host: &str, address: IpAddr) -> bool {
    let address = address.to_canonical();
    !never(address)
        && allowed.iter().any(|entry| match entry {
            Allowed::Network(network) => network.contains(&address),
            Allowed::Host(name) => name.eq_ignore_ascii_case(host.trim_end_matches('.')),
        })
}

/// Returns true for addresses that are always refused: link-local, clouds' metadata services, multicast, broadcast.
fn never(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_broadcast()
                || v4.is_multicast()
                // The metadata services of Alibaba Cloud and Azure, which are not link-local.
                || [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)].contains(&v4)
        }
        IpAddr::V6(v6) => {
            let metadata = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
            v6.is_unicast_link_local() || v6.is_unspecified() || v6.is_multicast() || v6 == metadata
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(texts: &[&str]) -> Vec<Allowed> {
        texts.iter().map(|t| Allowed::try_from((*t).to_owned()).unwrap()).collect()
    }

    #[test]
    fn private_addresses_are_read_and_nothing_else_unless_told() {
        let may = |address: &str| permits(&private(), "x", address.parse().unwrap());
        for yes in ["10.1.2.3", "172.31.0.1", "192.168.7.7", "100.64.0.9", "fd12::1", "::ffff:10.1.2.3"] {
            assert!(may(yes), "{yes}");
        }
        for no in ["127.0.0.1", "::1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2001:db8::1", "::ffff:127.0.0.1"] {
            assert!(!may(no), "{no}");
        }
    }

    #[test]
    fn metadata_and_link_local_addresses_are_never_read_whatever_is_allowed() {
        let all = allowed(&["0.0.0.0/0", "::/0", "metadata.internal"]);
        for no in [
            "169.254.169.254",
            "169.254.1.1",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "0.0.0.0",
            "::",
            "::ffff:169.254.169.254",
        ] {
            assert!(!permits(&all, "metadata.internal", no.parse().unwrap()), "{no}");
        }
        assert!(permits(&all, "x", "127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn an_entry_is_a_network_an_address_or_a_host() {
        let list = allowed(&["127.0.0.0/8", "203.0.113.7", "gpu-1.example.org"]);
        let may = |host: &str, address: &str| permits(&list, host, address.parse().unwrap());
        assert!(may("", "127.9.9.9") && may("", "203.0.113.7") && !may("", "203.0.113.8"));
        assert!(may("GPU-1.example.org", "203.0.113.9") && !may("gpu-2.example.org", "203.0.113.9"));
        for wrong in ["10.0.0.0/33", "10.0.0.0/x", "", "http://x", "fe80::/129"] {
            assert!(Allowed::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
