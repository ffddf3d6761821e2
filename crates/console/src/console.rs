//! The threads of a console, from its start to its stop.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use nagi_server::{Networks, Server};
use tokio::sync::oneshot;

use crate::guard::Names;
use crate::state::{About, State};
use crate::{http, sampler};

/// Threads on which requests run.
const THREADS_MAX: usize = 8;
/// The stack of such a thread: that of a client's connection.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 8 << 20 } else { 1 << 20 };

/// A running console.
pub struct Console {
    http: JoinHandle<()>,
    sampler: JoinHandle<()>,
    stop_http: oneshot::Sender<()>,
    stop_sampler: mpsc::Sender<()>,
}

impl Console {
    /// Starts the console on bound sockets. `allowed`: from where clients may connect, if not from everywhere.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        server: Arc<Server>,
        listeners: Vec<TcpListener>,
        about: About,
        names: Names,
        allowed: Option<Networks>,
    ) -> io::Result<Console> {
        let port = match listeners.first() {
            Some(listener) => listener.local_addr()?.port(),
            None => 0,
        };
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        let state = Arc::new(State::new(server, port, about, names, allowed));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS_MAX)
            .thread_name("consoleRequest")
            .thread_stack_size(STACK_BYTES)
            .build()?;
        let (stop_http, http_stops) = oneshot::channel();
        let (stop_sampler, sampler_stops) = mpsc::channel();
        let sampled = state.clone();
        let sampler = std::thread::Builder::new().name("consoleSampler".to_owned());
        let sampler = sampler.spawn(move || {
            nagi_server::set_log_context("consoleSampler");
            sampler::run(&sampled, &sampler_stops);
        })?;
        let http = std::thread::Builder::new().name("console".to_owned()).spawn(move || {
            nagi_server::set_log_context("console");
            runtime.block_on(http::run(state, listeners, http_stops));
            // Requests that run were interrupted by the server's stop.
            runtime.shutdown_timeout(http::GRACE);
        })?;
        Ok(Console { http, sampler, stop_http, stop_sampler })
    }

    /// Stops it. The server is stopped before, so that no command runs any more.
    pub fn stop(self) {
        let Console { http, sampler, stop_http, stop_sampler } = self;
        let _ = stop_http.send(());
        drop(stop_sampler);
        for thread in [http, sampler] {
            let _ = thread.join();
        }
    }
}
