//! Opens the sockets of the web console.
//!
//! A server without its console is better than none: a port that is in use is a warning.

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::Arc;

use nagi_console::{About, Console, Doctor, Names};
use nagi_proc::machine;
use nagi_server::Server;

use crate::options::{ConsoleOptions, Options};
use crate::{build, doctor};

/// The distance of the console's port from the server's, as in MongoDB before version 3.6.
const PORT_DISTANCE: u16 = 1000;

/// Starts the console of a server that listens at `port`; `None` if there is none.
pub(crate) fn start(server: &Arc<Server>, options: &Options, port: u16) -> Option<Console> {
    let console = options.console.as_ref()?;
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
                    error = error.to_string(); "The web console cannot listen at an address");
            }
        }
    }
    if listeners.is_empty() {
        return None;
    }
    let about = About {
        version: build::VERSION.to_owned(),
        storage_engine: options.engine.name().to_owned(),
        doctor: doctor(options),
    };
    let own = machine::host_name().into_iter().chain(console.bind_ip.iter().cloned()).collect();
    let names = Names { own, origins: console.origins.clone() };
    let allowed = options.net.allowed.clone();
    match Console::start(server.clone(), listeners, about, names, allowed) {
        Ok(started) => {
            let address = format!("http://{}:{port}", console.bind_ip.join(","));
            log::info!(target: "NETWORK", id = 8_200_234, address = address.as_str();
                "Web console and metrics");
            Some(started)
        }
        Err(error) => {
            log::warn!(target: "NETWORK", id = 8_200_235, error = error.to_string();
                "The web console cannot be started");
            None
        }
    }
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
