//! The threads of a console, from its start to its stop.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use nagi_bson::DocBuf;
use nagi_server::{Networks, Server};
use tokio::sync::oneshot;

use crate::alerts::Alerts;
use crate::guard::Names;
use crate::pauses::Pauses;
use crate::sample::Moment;
use crate::state::{About, PLACES_MAX, State};
use crate::{alerts, http, sampler};

/// Threads on which requests run: one for each place, and some for streams, which look at their clients' rights.
const THREADS_MAX: usize = PLACES_MAX + 4;
/// The stack of such a thread: that of a client's connection.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 8 << 20 } else { 1 << 20 };

/// What a console is started with.
pub struct Setup {
    /// Bound sockets. Without one there are no pages, only alerts.
    pub listeners: Vec<TcpListener>,
    pub about: About,
    pub names: Names,
    /// From where clients may connect, if not from everywhere.
    pub allowed: Option<Networks>,
    /// `None`: no figure is watched.
    pub alerts: Option<Alerts>,
}

/// A running console.
pub struct Console {
    http: Option<(JoinHandle<()>, oneshot::Sender<()>)>,
    sampler: JoinHandle<()>,
    stop_sampler: mpsc::Sender<()>,
    pauses: (JoinHandle<()>, Arc<Pauses>),
    alerts: Option<Arc<alerts::Watch>>,
    server: Arc<Server>,
}

impl Console {
    /// Starts the console.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(server: Arc<Server>, setup: Setup) -> io::Result<Console> {
        let Setup { listeners, about, names, allowed, alerts } = setup;
        let port = match listeners.first() {
            Some(listener) => listener.local_addr()?.port(),
            None => 0,
        };
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        let alerts = alerts.map(|alerts| watch(&server, alerts)).transpose()?;
        let state = State::new(server.clone(), port, about, names, allowed, alerts.clone());
        let state = Arc::new(state);
        let (stop_sampler, stops) = mpsc::channel();
        let pauses = Arc::<Pauses>::default();
        let watches = (pauses.start()?, pauses.clone());
        let sampled = state.clone();
        let sampler = std::thread::Builder::new().name("consoleSampler".to_owned());
        let sampler = sampler.spawn(move || {
            nagi_server::set_log_context("consoleSampler");
            sampler::run(&sampled, &pauses, &stops);
        })?;
        let http = match listeners.is_empty() {
            true => None,
            false => Some(start_http(state, listeners)?),
        };
        Ok(Console { http, sampler, stop_sampler, pauses: watches, alerts, server })
    }

    /// Stops it. The server is stopped before, so that no command runs any more.
    pub fn stop(self) {
        let Console { http, sampler, stop_sampler, pauses, alerts, server } = self;
        drop(stop_sampler);
        if let Some((thread, stop)) = http {
            let _ = stop.send(());
            let _ = thread.join();
        }
        let _ = sampler.join();
        pauses.1.stop();
        let _ = pauses.0.join();
        if let Some(alerts) = alerts {
            // Those that a lock against writes has delayed: the server's stop has released it.
            alerts
                .keep_late_silences(Moment::now(), |silences| server.keep_alert_silences(silences));
            alerts.stop();
        }
    }
}

/// The rules with the threads of their actions.
fn watch(server: &Server, alerts: Alerts) -> io::Result<Arc<alerts::Watch>> {
    let status = DocBuf::build(|out| server.write_status(out));
    let host = status.as_doc().get("host").as_str().unwrap_or_default().to_owned();
    let teller = alerts::Teller::start(&alerts, &host)?;
    let watch = alerts::Watch::new(alerts, teller);
    watch.restore(&server.alert_silences(), Moment::now());
    Ok(Arc::new(watch))
}

fn start_http(
    state: Arc<State>,
    listeners: Vec<TcpListener>,
) -> io::Result<(JoinHandle<()>, oneshot::Sender<()>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .thread_name("consoleRequest")
        .thread_stack_size(STACK_BYTES)
        .build()?;
    let (stop, stops) = oneshot::channel();
    let thread = std::thread::Builder::new().name("console".to_owned()).spawn(move || {
        nagi_server::set_log_context("console");
        runtime.block_on(http::run(state, listeners, stops));
        // Requests that run were interrupted by the server's stop.
        runtime.shutdown_timeout(http::GRACE);
    })?;
    Ok((thread, stop))
}
