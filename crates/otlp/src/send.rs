//! Sends messages to the collector, by HTTP.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use crate::options::OtlpOptions;

/// The time that a message may take in all, and that of the last ones, for which the end of the server waits.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(3);
pub(crate) const LAST_TIME_MAX: Duration = Duration::from_secs(1);
/// The longest file of certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// What is read of a collector's reply.
const REPLY_BYTES_MAX: u64 = 64 << 10;

/// A client of one collector.
pub(crate) struct Sender {
    agent: Agent,
    endpoint: String,
    headers: Vec<(String, String)>,
}

impl Sender {
    /// # Errors
    /// If the file of certificates cannot be used.
    pub(crate) fn new(options: &OtlpOptions) -> Result<Sender, String> {
        let roots = match &options.ca_file {
            None => RootCerts::PlatformVerifier,
            Some(path) => roots_of(path)?,
        };
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let mut config = Agent::config_builder()
            .tls_config(tls)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_idle_connections(1)
            .user_agent("nagi");
        if options.endpoint.starts_with("http://") {
            // An address of this machine or its network: a proxy would ask its own.
            config = config.proxy(None);
        }
        Ok(Sender {
            agent: Agent::new_with_config(config.build()),
            endpoint: options.endpoint.clone(),
            headers: options.headers.clone(),
        })
    }

    /// Posts a message to `path`, such as `/v1/traces`, within `time`.
    ///
    /// # Errors
    /// If there is no reply, or one that is no success.
    pub(crate) fn post(&self, path: &str, message: &[u8], time: Duration) -> Result<(), String> {
        let address = format!("{}{path}", self.endpoint);
        let mut request =
            self.agent.post(&address).header("content-type", "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name.as_str(), value.as_str());
        }
        let request = request.config().timeout_global(Some(time)).build();
        let mut response = request.send(message).map_err(|error| format!("{address}: {error}"))?;
        let status = response.status();
        // The connection can be used again once the reply was read.
        let mut reply = Vec::new();
        let _ = response.body_mut().as_reader().take(REPLY_BYTES_MAX).read_to_end(&mut reply);
        match status.is_success() {
            true => Ok(()),
            false => Err(format!("{address}: status {}", status.as_u16())),
        }
    }
}

fn roots_of(path: &Path) -> Result<RootCerts, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let mut roots = Vec::new();
    for item in parse_pem(&bytes) {
        if let PemItem::Certificate(certificate) = item.map_err(|e| format!("{shown}: {e}"))? {
            roots.push(certificate);
        }
    }
    match roots.is_empty() {
        true => Err(format!("{shown}: no certificates")),
        false => Ok(RootCerts::new_with_certs(&roots)),
    }
}
