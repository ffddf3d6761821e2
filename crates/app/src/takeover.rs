//! A server over a cluster as one of several nodes: its name, and its end when the other ones have given it up.
//!
//! Such a server can neither read nor write any more, and never will: only a new process can become a node again. So it
//! ends, with a status by which a supervisor starts it anew.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};

use nagi_proc::machine;
use nagi_server::Server;
use nagi_store::{NodeMode, NodeOptions, OnLost};

use crate::failure::{Failure, exit};
use crate::options::Options;

/// See the module's header.
#[derive(Default)]
pub(crate) struct Takeover {
    has_happened: AtomicBool,
    /// The server, once there is one.
    server: OnceLock<Weak<Server>>,
}

impl Takeover {
    /// The options of the store, which tells `this` when the other nodes have given it up.
    pub(crate) fn node(this: &Arc<Takeover>, options: &Options) -> NodeOptions {
        let told = Arc::clone(this);
        NodeOptions {
            mode: NodeMode::Member,
            name: name(options.net.port),
            on_lost: OnLost::new(move || {
                told.has_happened.store(true, SeqCst);
                told.end_server();
            }),
            ..NodeOptions::default()
        }
    }

    /// From now on it shuts the server down; also if it has happened already.
    pub(crate) fn ends(&self, server: &Arc<Server>) {
        // There is one server.
        let _ = self.server.set(Arc::downgrade(server));
        if self.has_happened.load(SeqCst) {
            self.end_server();
        }
    }

    fn end_server(&self) {
        if let Some(server) = self.server.get().and_then(Weak::upgrade) {
            server.request_shutdown();
        }
    }

    /// The failure of a server that has ended because of it.
    pub(crate) fn failure(&self) -> Result<(), Failure> {
        match self.has_happened.load(SeqCst) {
            true => Err(Failure {
                code: exit::CLUSTER,
                id: 8_200_414,
                message: "Terminating: the other nodes have given this one up",
                error: "ShutdownInProgress: this process did not renew its lease in time, and its writes are refused \
                        now; started again, it is a new node"
                    .to_owned(),
            }),
            false => Ok(()),
        }
    }
}

/// The name by which other nodes and their logs know this process.
fn name(port: u16) -> String {
    let host = machine::host_name().unwrap_or_else(|| "localhost".to_owned());
    let process = std::process::id();
    match port {
        // The system selects it later.
        0 => format!("{host}, process {process}"),
        port => format!("{host}:{port}, process {process}"),
    }
}

#[test]
fn a_name_has_host_port_and_process() {
    let process = std::process::id();
    assert!(name(27017).ends_with(&format!(":27017, process {process}")), "{}", name(27017));
    assert!(!name(0).contains(':'), "{}", name(0));
}
