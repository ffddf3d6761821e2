//! What the warnings of the start are made of.

use std::net::{IpAddr, ToSocketAddrs};

use crate::options::Options;

/// An open door, or one that no client can pass: what is logged at the start, and what to do about it.
pub(crate) struct Door {
    pub(crate) id: i64,
    pub(crate) text: &'static str,
    /// The address, file or option that it is about.
    pub(crate) place: String,
    pub(crate) fix: &'static str,
}

pub(crate) fn is_loopback(name: &str) -> bool {
    if let Ok(address) = name.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    match (name, 0).to_socket_addrs() {
        Ok(mut all) => all.all(|address| address.ip().to_canonical().is_loopback()),
        Err(_) => true,
    }
}

pub(crate) fn is_on(options: &Options, parameter: &str) -> bool {
    let value = options.parameters.iter().rfind(|(name, _)| name == parameter);
    value.is_some_and(|(_, value)| value == "true" || value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for name in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(is_loopback(name), "{name}");
        }
        for name in ["0.0.0.0", "::", "10.0.0.1", "fe80::1", "::ffff:10.0.0.1"] {
            assert!(!is_loopback(name), "{name}");
        }
    }
}
