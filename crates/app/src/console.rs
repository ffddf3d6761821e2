//! Opens the sockets of the web console, and starts it with the alerts.
//!
//! A server without its console is better than none: a port that is in use is a warning.

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::Arc;

use nagi_console::{About, Console, Doctor, Names, Setup};
use nagi_proc::machine;
use nagi_server::Server;

use crate::options::{ConsoleOptions, Options};
use crate::{build, doctor};

/// The distance of the console's port from the server's, as in MongoDB before version 3.6.
const PORT_DISTANCE: u16 = 1000;

/// Starts console and alerts of a server that listens at `port`; `None` if there are neither.
pub(crate) fn start(server: &Arc<Server>, options: &Options, port: u16) -> Option<Console> {
    let alerts = options.alerts.loaded();
    let bound = options.console.as_ref().and_then(|console| listen(console, port));
    if bound.is_none() && alerts.is_none() {
        return None;
    }
    let (address, listeners) = bound.unwrap_or_default();
    let about = About {
        version: build::VERSION.to_owned(),
        storage_engine: options.engine.name().to_owned(),
        doctor: doctor(options),
    };
    let console = options.console.clone().unwrap_or_default();
    let own = machine::host_name().into_iter().chain(console.bind_ip).collect();
    let names = Names { own, origins: console.origins };
    let allowed = options.net.allowed.clone();
    let has_pages = !listeners.is_empty();
    match Console::start(server.clone(), Setup { listeners, about, names, allowed, alerts }) {
        Ok(started) => {
            if has_pages {
                log::info!(target: "NETWORK", id = 8_200_234, address = address.as_str();
                    "Web console and metrics");
            }
            Some(started)
        }
        Err(error) => {
            log::warn!(target: "NETWORK", id = 8_200_235, error = error.to_string();
                "The web console cannot be started");
            None
        }
    }
}

/// The console's address and its sockets; `None` without one.
fn listen(console: &ConsoleOptions, port: u16) -> Option<(String, Vec<TcpListener>)> {
    let port = match console.port.or_else(|| port.checked_add(PORT_DISTANCE)) {
        Some(port) => port,
        None => {
            log::info!(target: "NETWORK", id = 8_200_232, port = port;
                "There is no web console: the port + 1000 is no port; set net.console.port");
            return None;
        }
    };
    let mut listeners = Vec::new();
    for address in addresses(console, port) {
        match TcpListener::bind(&address) {
            Ok(listener) => listeners.push(listener),
            Err(error) => {
                log::warn!(target: "NETWORK", id = 8_200_233, address = address.as_str(),
                    error = error.to_string();
                    "The web console cannot listen at an address, and stays off there until a restart");
            }
        }
    }
    let address = format!("http://{}:{port}", console.bind_ip.join(","));
    (!listeners.is_empty()).then_some((address, listeners))
}

/// Files may have changed since the start, so everything is read again for each report.
fn doctor(options: &Options) -> Doctor {
    let options = options.clone();
    Arc::new(move || doctor::live_report(&options))
}

/// The addresses of all names, without duplicates.
fn addresses(console: &ConsoleOptions, port: u16) -> Vec<String> {
    let mut all = Vec::new();
    for name in &console.bind_ip {
        let found = (name.as_str(), port).to_socket_addrs();
        match found {
            Ok(found) => all.extend(found.map(|address| address.to_string())),
            Err(error) => {
                log::warn!(target: "NETWORK", id = 8_200_236, name = name.as_str(),
                    error = error.to_string(); "The web console cannot find an address");
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}
