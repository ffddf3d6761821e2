//! `nagi ping`: whether a server answers, for health checks of containers and for scripts.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nagi_bson::doc;

use super::client::Client;
use super::flags::Flags;
use super::{URI, address, finish, is_help, refuse};

const HELP: &str = "\
nagi ping [--uri URI [--passwordFile FILE]] [--timeoutSeconds N]
  connects to a server, sends a ping, and exits with 0 if it answers, otherwise with 1
  --uri URI        mongodb://[user[:password]@]host[:port][/?authSource=db]; the default is
                   mongodb://127.0.0.1:27017. No user is needed
  --passwordFile FILE
                   the first line is the user's password, which is otherwise taken from NAGI_PASSWORD
  --timeoutSeconds N
                   for connecting, and for each reply (5)";

/// `--timeoutSeconds`, unless specified.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs `nagi ping ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let flags = match Flags::parse(args, &["--uri", "--passwordFile", "--timeoutSeconds"], HELP) {
        _ if is_help(args) => return finish(Ok(HELP.to_owned())),
        Ok(flags) => flags,
        Err(text) => return refuse(&text),
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
