//! `nagi ping`: whether a server answers, for health checks of containers and for scripts.

use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nagi_bson::doc;

use super::flags::Flags;
use super::{PING_FLAGS, finish, refuse};
use crate::remote::address::{Address, BY_CERTIFICATE};
use crate::remote::client::Client;
use crate::remote::password;

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

/// Waits at most the timeout for the whole exchange: for the name's addresses, the connection and the replies, however
/// slowly each of their bytes arrives.
fn ping(flags: &Flags) -> Result<String, String> {
    let mut address = flags.address()?;
    let timeout = flags.timeout.unwrap_or(TIMEOUT);
    address.connect_timeout = address.connect_timeout.or(Some(timeout));
    address.silence_max = address.silence_max.or(Some(Some(timeout)));
    // Before the time starts: a person may type it.
    let password_file = flags.password_file.as_deref();
    if let Some((user, missing @ None)) = &mut address.login
        && address.mechanism != Some(BY_CERTIFICATE)
    {
        *missing = Some(password::find(user, password_file)?);
    } else if password_file.is_some() {
        // Reports that it has no use.
        exchange(&address, password_file)?;
    }
    let host = address.host.clone();
    let (sender, answers) = mpsc::channel();
    // Not joined: resolving a name cannot be interrupted, and the process ends.
    let thread = std::thread::Builder::new().name("ping".to_owned());
    let begun = thread.spawn(move || sender.send(exchange(&address, None)));
    begun.map_err(|error| format!("{host}: {error}"))?;
    let late = || Err(format!("{host}: the server has not answered in time"));
    let took = answers.recv_timeout(timeout).unwrap_or_else(|_| late())?;
    Ok(format!("{host} answered after {} ms", took.as_millis()))
}

/// Connects, logs in if the address names a user, and sends a `ping`. Returns how long that took.
fn exchange(address: &Address, password_file: Option<&Path>) -> Result<Duration, String> {
    let began = Instant::now();
    let mut client = Client::connect(address, password_file)?;
    client.run(doc! { "ping": 1, "$db": "admin" }.as_doc())?;
    Ok(began.elapsed())
}
