//! The address of a store: `tikv://pd1:2379,pd2:2379/prefix`.
//!
//! The hosts are placement drivers (PD); they know where the stores are. The prefix begins all keys, so that several
//! databases, and other programs, can use one cluster.

use std::collections::BTreeSet;

const SCHEME: &str = "tikv://";
const PORT: &str = "2379";
const HOSTS_MAX: usize = 16;
const PREFIX_BYTES_MAX: usize = 32;
/// The prefix if the address has none.
const PREFIX: &str = "nagi";

/// See the module's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// `host:port` of each placement driver.
    pub placement_drivers: Vec<String>,
    /// 1 to 32 of `a-z`, `0-9`, `_` and `-`.
    pub prefix: String,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it, for the operator.
    pub fn parse(text: &str) -> Result<Address, String> {
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| format!("an address of TiKV begins with {SCHEME}"))?;
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = if prefix.is_empty() { PREFIX } else { prefix };
        check_prefix(prefix)?;
        let placement_drivers: Vec<String> =
            hosts.split(',').map(with_port).collect::<Result<_, _>>()?;
        if placement_drivers.len() > HOSTS_MAX {
            return Err(format!("more than {HOSTS_MAX} placement drivers"));
        }
        let different: BTreeSet<&String> = placement_drivers.iter().collect();
        if different.len() < placement_drivers.len() {
            return Err("a placement driver is named twice".into());
        }
        Ok(Address { placement_drivers, prefix: prefix.into() })
    }
}

fn check_prefix(prefix: &str) -> Result<(), String> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    if prefix.len() <= PREFIX_BYTES_MAX && prefix.bytes().all(allowed) {
        return Ok(());
    }
    Err(format!("a prefix has 1 to {PREFIX_BYTES_MAX} of a-z, 0-9, _ and -, not '{prefix}'"))
}

/// The host with its port.
fn with_port(host: &str) -> Result<String, String> {
    let bad = || format!("'{host}' is not the address of a placement driver: HOST or HOST:PORT");
    // An IPv6 address is in brackets, so its colons are not those before a port.
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, port)) => {
            inner.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?;
            (&host[..inner.len() + 2], port.strip_prefix(':').or(port.is_empty().then_some(PORT)))
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some(PORT)),
        },
    };
    let port = port.ok_or_else(bad)?;
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-' || b == b'_';
    let is_host = name.starts_with('[') || (!name.is_empty() && name.bytes().all(is_name));
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_host && is_port { Ok(format!("{name}:{port}")) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let parsed =
            Address::parse("tikv://pd1,10.0.0.2:2380,[::1]:99,[::2]/orders-2").expect("fine");
        assert_eq!(
            parsed.placement_drivers,
            ["pd1:2379", "10.0.0.2:2380", "[::1]:99", "[::2]:2379"]
        );
        assert_eq!(parsed.prefix, "orders-2");
        assert_eq!(Address::parse("tikv://pd/").expect("fine").prefix, "nagi");
    }

    #[test]
    fn bad_addresses_are_refused() {
        for (text, why) in [
            ("http://pd/x", "begins with tikv://"),
            ("tikv://", "HOST or HOST:PORT"),
            ("tikv:///x", "HOST or HOST:PORT"),
            ("tikv://a,,b", "HOST or HOST:PORT"),
            ("tikv://a:0", "HOST or HOST:PORT"),
            ("tikv://a:65536", "HOST or HOST:PORT"),
            ("tikv://u@a", "HOST or HOST:PORT"),
            ("tikv://[::1", "HOST or HOST:PORT"),
            ("tikv://[x]", "HOST or HOST:PORT"),
            ("tikv://[::1]9", "HOST or HOST:PORT"),
            ("tikv://a,a:2379", "named twice"),
            ("tikv://a/UPPER", "a prefix has"),
            ("tikv://a/x/y", "a prefix has"),
            ("tikv://a/x?tls=1", "a prefix has"),
        ] {
            let error = Address::parse(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        let many: Vec<String> = (0..17).map(|n| format!("pd{n}")).collect();
        assert!(Address::parse(&format!("tikv://{}", many.join(","))).is_err());
        assert!(Address::parse(&format!("tikv://a/{}", "x".repeat(33))).is_err());
    }
}
