//! Where and how often to send.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The options of the exporter.
#[derive(Clone, PartialEq)]
pub struct OtlpOptions {
    /// The base address, such as `http://127.0.0.1:4318`; without a `/` at its end.
    pub endpoint: String,
    /// Headers of each message, such as the token of a service.
    pub headers: Vec<(String, String)>,
    /// The authorities that sign the collector's certificate; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// The share of operations whose spans are sent, from 0 to 1.
    pub sample_ratio: f64,
    /// The time between two messages of metrics.
    pub interval: Duration,
}

impl fmt::Debug for OtlpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may have secrets.
        f.debug_struct("OtlpOptions").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl OtlpOptions {
    /// Checks an address, and that headers are not sent to other machines without encryption.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_endpoint(endpoint: &str, has_headers: bool) -> Result<(), String> {
        let plain = endpoint.strip_prefix("http://");
        let Some(rest) = plain.or_else(|| endpoint.strip_prefix("https://")) else {
            return Err("expected http:// or https://, a host and a port".to_owned());
        };
        let host = rest.split('/').next().unwrap_or("");
        if !nagi_http::is_address(endpoint) || rest.contains(['?', '#']) {
            return Err("expected http:// or https://, a host and a port".to_owned());
        }
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_here = matches!(name, "localhost" | "127.0.0.1" | "[::1]");
        if plain.is_some() && has_headers && !is_here {
            return Err("headers are sent to other machines only with https://".to_owned());
        }
        Ok(())
    }
}

/// Reads a file of headers: `name: value` in each line; empty lines and those that begin with `#` are skipped.
///
/// # Errors
/// If a line is no header, or one of the request itself.
pub fn parse_headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut headers = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
        };
        let is_value = |value: &str| value.bytes().all(|c| (0x20..0x7f).contains(&c));
        match line.split_once(':').map(|(name, value)| (name.trim(), value.trim())) {
            Some((name, _)) if !nagi_http::may_be_set(name) => {
                return Err(format!("line {}: '{name}' is not for the file to set", at + 1));
            }
            Some((name, value)) if is_name(name) && is_value(value) => {
                headers.push((name.to_owned(), value.to_owned()));
            }
            _ => return Err(format!("line {} is no header: expected name: value", at + 1)),
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_addresses_of_http() {
        for good in
            ["http://127.0.0.1:4318", "https://otlp.example.com", "http://collector:4318/base"]
        {
            assert_eq!(OtlpOptions::check_endpoint(good, false), Ok(()), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1:4318",
            "grpc://x:4317",
            "http://",
            "http://user@x",
            "http://x?y",
            "http://x/a b",
            "http://x/a\tb",
            "http://x:99999",
            "http://[::1",
        ] {
            assert!(OtlpOptions::check_endpoint(bad, false).is_err(), "{bad}");
        }
        for (endpoint, fits) in [
            ("http://localhost:4318", true),
            ("http://[::1]:4318", true),
            ("https://otlp.example.com", true),
            ("http://otlp.example.com", false),
        ] {
            assert_eq!(OtlpOptions::check_endpoint(endpoint, true).is_ok(), fits, "{endpoint}");
        }
    }

    #[test]
    fn headers_are_lines() {
        let text = "# token\nAuthorization: Bearer a:b\n\n x-team : db \n";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = vec![pair("Authorization", "Bearer a:b"), pair("x-team", "db")];
        assert_eq!(parse_headers(text), Ok(headers));
        for bad in
            ["no colon", ": x", "a b: c", "a: \u{1}", "a: \u{e9}", "Host: x", "content-length: 1"]
        {
            assert!(parse_headers(bad).is_err(), "{bad}");
        }
    }
}
