//! Sends messages to the collector, by HTTP.

use std::io::Read;
use std::time::Duration;

use ureq::Agent;

use crate::options::OtlpOptions;

/// The time that a message may take in all, and that of the last ones, for which the end of the server waits.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(3);
pub(crate) const LAST_TIME_MAX: Duration = Duration::from_secs(1);
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
        let ca_file = options.ca_file.as_ref().map(|path| path.display().to_string());
        Ok(Sender {
            agent: nagi_http::client(ca_file.as_deref(), 1)?,
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
        let mut request = request.config().timeout_global(Some(time));
        if address.starts_with("http://") {
            // An address of this machine or its network: a proxy would ask its own.
            request = request.proxy(None);
        }
        let request = request.build();
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
