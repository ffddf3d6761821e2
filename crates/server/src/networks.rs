//! Networks in CIDR notation: lists of addresses from which something is allowed.

use std::net::IpAddr;

/// The maximum number of networks of a list: each new connection is compared with all of them.
const COUNT_MAX: usize = 1000;

/// An address and the length of its network prefix in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    pub(crate) fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        Some(Network { address, bits: bits.unwrap_or(most) }).filter(|n| n.bits <= most)
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let kept = |all: u128, width: u32| {
            let dropped = width - self.bits;
            if dropped >= 128 { 0 } else { all >> dropped }
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(given)) => {
                kept(u32::from(own).into(), 32) == kept(u32::from(given).into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(given)) => {
                kept(own.into(), 128) == kept(given.into(), 128)
            }
            _ => false,
        }
    }
}

/// A list of networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

impl Networks {
    /// Parses addresses and networks that are separated by commas: `10.0.0.0/8, 127.0.0.1, fd00::/8`.
    ///
    /// # Errors
    /// A text that names the item that is no network, or tells that there is none or too many.
    pub fn parse(list: &str) -> Result<Networks, String> {
        let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
        let networks: Result<Vec<Network>, String> = items
            .map(|item| {
                Network::parse(item).ok_or_else(|| {
                    format!("'{item}' is not an address or a CIDR range, such as 10.0.0.0/8 or ::1")
                })
            })
            .collect();
        match networks? {
            networks if networks.is_empty() => Err("the list of addresses is empty".to_owned()),
            networks if networks.len() > COUNT_MAX => {
                Err(format!("the list has more than {COUNT_MAX} addresses"))
            }
            networks => Ok(Networks(networks)),
        }
    }

    /// Returns true if the address is in one of the networks. One comparison for each network.
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_checked_and_compared() {
        let list = Networks::parse("10.0.0.0/8, 127.0.0.1,fd00::/8").unwrap();
        let has = |text: &str| list.contain(text.parse().unwrap());
        assert!(has("10.255.0.1") && has("127.0.0.1") && has("fd12::1") && has("::ffff:10.1.2.3"));
        assert!(!has("11.0.0.1") && !has("127.0.0.2") && !has("fe80::1"));
        assert!(Networks::parse("0.0.0.0/0").unwrap().contain("8.8.8.8".parse().unwrap()));
        for bad in ["", " , ", "10.0.0.0/33", "::/129", "host.example", "10.0.0.0/-1", "10.0.0/8"] {
            assert!(Networks::parse(bad).is_err(), "{bad}");
        }
        assert!(Networks::parse(&"::1,".repeat(COUNT_MAX + 1)).is_err());
    }
}
