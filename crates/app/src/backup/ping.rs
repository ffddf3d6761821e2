//! `nagi ping`: whether a server answers, for health checks of containers and for scripts.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nagi_bson::doc;

use super::client::Client;
use super::flags::Flags;
use super::{PING_FLAGS, URI, address, finish, refuse};

/// `--timeoutSeconds`, unless specified.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs `nagi ping ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let flags = match Flags::parse(args, PING_FLAGS) {
        Ok(flags) => flags,
        Err(text) => return refuse("ping", &text),
    };
    finish(ping(&flags))
}

fn ping(flags: &Flags) -> Result<String, String> {
    let mut address = address::parse(flags.uri.as_deref().unwrap_or(URI))?;
    let timeout = flags.timeout.unwrap_or(TIMEOUT);
    address.connect_timeout = address.connect_timeout.or(Some(timeout));
    address.silence_max = address.silence_max.or(Some(Some(timeout)));
    let began = Instant::now();
    let mut client = Client::connect(&address, flags.password_file.as_deref())?;
    client.run(doc! { "ping": 1, "$db": "admin" }.as_doc())?;
    Ok(format!("{} answered after {} ms", address.host, began.elapsed().as_millis()))
}
