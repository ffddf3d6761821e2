//! One configuration for all requests: no cookies, no redirects.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// The longest file of authorities.
const BYTES_MAX: u64 = 1 << 20;

/// A client that trusts the authorities of the system, or those of a file, and sends neither cookies nor logins.
/// `idle_max` connections stay open for the next request. It follows no redirects, and a status that is not 200 is no
/// error: its caller looks.
///
/// # Errors
/// If the file has no certificates or cannot be read.
pub fn client(ca_file: Option<&str>, idle_max: usize) -> Result<Agent, String> {
    let roots = match ca_file {
        None => RootCerts::PlatformVerifier,
        Some(path) => {
            let mut roots = Vec::new();
            for item in parse_pem(&small_file(path, BYTES_MAX)?) {
                let item = item.map_err(|error| format!("{path}: {error}"))?;
                if let PemItem::Certificate(certificate) = item {
                    roots.push(certificate);
                }
            }
            if roots.is_empty() {
                return Err(format!("{path}: no certificates"));
            }
            RootCerts::new_with_certs(&roots)
        }
    };
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(roots)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .max_idle_connections(idle_max)
        .user_agent("nagi")
        .build();
    Ok(Agent::new_with_config(config))
}

/// Reads a file of at most `bytes_max`. Others than regular files (pipes, devices) could block for ever.
///
/// # Errors
/// If it is another kind of file, larger, or cannot be read.
pub fn small_file(path: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let about = std::fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(format!("{path}: not a file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(format!("{path}: larger than {bytes_max} bytes")),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_files_are_read() {
        assert!(small_file("/dev/zero", 10).unwrap_err().ends_with("not a file"));
        assert!(small_file("/nonexistent/keys.json", 10).is_err());
        assert!(small_file("/", 10).unwrap_err().ends_with("not a file"));
        assert!(small_file("/proc/self/status", 10).unwrap_err().ends_with("larger than 10 bytes"));
    }
}
