//! Addresses that operators write.

use std::net::Ipv6Addr;

/// Whether a text is an address of a web server: `http://` or `https://`, a host, perhaps a port, and what follows, in
/// printable ASCII. A user is not accepted: it would be a password in an address that is shown.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest.filter(|rest| rest.bytes().all(|byte| byte.is_ascii_graphic())) else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    let (host_fits, port) = match authority.strip_prefix('[') {
        Some(inside) => match inside.split_once(']') {
            Some((host, port)) => (host.parse::<Ipv6Addr>().is_ok(), port),
            None => return false,
        },
        None => {
            let at = authority.find(':').unwrap_or(authority.len());
            let (host, port) = authority.split_at(at);
            let fits =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            (!host.is_empty() && host.bytes().all(fits), port)
        }
    };
    let is_port = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit())
            && digits.parse::<u16>().is_ok_and(|port| port > 0)
    };
    host_fits && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port_that_exists() {
        for good in [
            "http://127.0.0.1:4318",
            "https://otlp.example.com",
            "http://collector_1:4318/base",
            "https://[::1]:65535/x?y=z#w",
            "http://h?x",
        ] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "ftp://x/",
            "http://",
            "http://:80/",
            "http://[::1/",
            "http://[x]/",
            "http://[::1]x/",
            "http://x:99999/",
            "http://x:0/",
            "http://x:+1/",
            "http://x:/",
            "http://user@x/",
            "http://x/\u{1}",
            "http://x/\ty",
            "http://x/ y",
            "http://\u{e9}/",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
