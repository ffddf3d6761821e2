//! Messages to a service manager, as `sd_notify(3)` defines them: state of the start, watchdog, shutdown.
//!
//! ```text
//!   environment          messages
//!   NOTIFY_SOCKET        STATUS=...                          at each step
//!                        EXTEND_TIMEOUT_USEC=...             while a long start or stop makes progress
//!                        READY=1                             the listeners are open
//!   WATCHDOG_USEC        WATCHDOG=1                          at half the interval, after a successful probe
//!                        STOPPING=1                          the server no longer accepts requests
//! ```
//!
//! A thread sends the repeated messages. Before it sends `WATCHDOG=1` it runs a probe: a `ping` that takes the path of
//! a client's request, and a snapshot of a store on this machine. If the server hangs, the probe does not return, and
//! the service manager ends the process after its interval. A cluster that does not answer is no reason: its requests
//! have time limits, and another process would not be answered either. While the server starts or stops there is
//! nothing to probe; progress is then CPU time or disk I/O of this process since the last message.
//!
//! With `--fork` nothing is sent: the service manager watches the parent process.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nagi_bson::{Doc, doc};
use nagi_proc::{Process, fields};
use nagi_server::{Connection, Outcome, Peer, Server};
use nagi_store::Store;

use crate::remote::client;

/// The interval of messages without a watchdog, and the longest one.
const BEAT: Duration = Duration::from_secs(10);
/// How far a message extends the time limit of a start or stop. It covers pauses in which the disk does not respond.
const EXTENSION: Duration = Duration::from_secs(120);
/// CPU time that counts as progress, in ticks of 10 ms: the messages themselves and idle threads use less.
const TICKS_MIN: u64 = 2;
/// A probe that takes longer than this is logged.
const SLOW: Duration = Duration::from_secs(1);
/// The length of a status; `systemctl status` shows one line.
const STATUS_BYTES_MAX: usize = 400;

/// The connection to the service manager, if there is one. Dropping it ends the messages.
pub(crate) struct Notifier(Option<Arc<Shared>>);

struct Shared {
    socket: UnixDatagram,
    address: SocketAddr,
    watchdog: Option<Duration>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    /// What the server does; part of the repeated messages of a start and a stop.
    doing: &'static str,
    probe: Option<Probe>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Serving,
    Stopping,
    Ended,
}

impl Notifier {
    /// Connects to the service manager of the environment, and sends the first status. Sends nothing if there is none,
    /// or from a process that was started by `--fork`.
    pub(crate) fn start(is_forked: bool) -> Notifier {
        if is_forked {
            return Notifier(None);
        }
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Notifier(None);
        };
        let made = address(name.as_bytes())
            .and_then(|address| {
                let socket = UnixDatagram::unbound()?;
                // A service manager that reads nothing must delay neither the start nor the end.
                socket.set_nonblocking(true)?;
                Ok((address, socket))
            })
            .map(|(address, socket)| {
                let watchdog = watchdog_interval(
                    std::env::var("WATCHDOG_USEC").ok().as_deref(),
                    std::env::var("WATCHDOG_PID").ok().as_deref(),
                );
                let doing = "Opening the data directory";
                let state = State { phase: Phase::Starting, doing, probe: None };
                let (state, changed) = (Mutex::new(state), Condvar::new());
                Arc::new(Shared { socket, address, watchdog, state, changed })
            })
            .and_then(|shared| {
                shared.send(&format!("STATUS={}", shared.lock().doing))?;
                let own = shared.clone();
                let thread = std::thread::Builder::new().name("notifier".into());
                thread.spawn(move || own.repeat())?;
                Ok(shared)
            });
        match made {
            Ok(shared) => Notifier(Some(shared)),
            Err(error) => {
                log::warn!(target: "CONTROL", id = 8_200_060, error = error.to_string(),
                    socket = name.to_string_lossy().into_owned();
                    "The service manager cannot be notified");
                Notifier(None)
            }
        }
    }

    /// Names the step of the start that begins now.
    pub(crate) fn step(&self, doing: &'static str) {
        let Some(shared) = &self.0 else { return };
        shared.lock().doing = doing;
        shared.tell(&format!("STATUS={doing}"));
    }

    /// Reports that clients can connect. From now on the watchdog probes the server.
    pub(crate) fn ready(&self, server: &Arc<Server>, store: Option<&Arc<Store>>, port: u16) {
        let Some(shared) = &self.0 else { return };
        let mut state = shared.lock();
        state.phase = Phase::Serving;
        state.probe = shared.watchdog.map(|_| Probe::new(server, store));
        drop(state);
        shared.tell(&format!("READY=1\nSTATUS=Waiting for connections on port {port}"));
        shared.changed.notify_all();
    }

    /// Reports that the server stops.
    pub(crate) fn stopping(&self) {
        let Some(shared) = &self.0 else { return };
        let mut state = shared.lock();
        (state.phase, state.doing, state.probe) = (Phase::Stopping, "Writing data to disk", None);
        drop(state);
        shared.tell("STOPPING=1\nSTATUS=Writing data to disk");
        shared.changed.notify_all();
    }

    /// Reports why the server did not start.
    pub(crate) fn failed(&self, text: &str) {
        let Some(shared) = &self.0 else { return };
        shared.tell(&format!("STATUS={}", one_line(text)));
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.lock().phase = Phase::Ended;
            shared.changed.notify_all();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, text: &str) -> io::Result<()> {
        self.socket.send_to_addr(text.as_bytes(), &self.address).map(drop)
    }

    /// Sends a message; a failure is logged, because the service manager will then end the process.
    fn tell(&self, text: &str) {
        if let Err(error) = self.send(text) {
            log::warn!(target: "CONTROL", id = 8_200_061, error = error.to_string(), message = text;
                "A message could not be sent to the service manager");
        }
    }

    /// The body of the thread.
    fn repeat(&self) {
        let interval = self.watchdog.map_or(BEAT, |whole| (whole / 2).min(BEAT));
        let began = Instant::now();
        let mut before = Work::of_process();
        let mut state = self.lock();
        loop {
            let phase = state.phase;
            if phase == Phase::Ended {
                return;
            }
            let waited = self.changed.wait_timeout(state, interval);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if !timeout.timed_out() || state.phase != phase {
                continue;
            }
            // Without the lock: a probe that hangs must not delay a shutdown.
            let (doing, probe) = (state.doing, state.probe.take());
            drop(state);
            let now = Work::of_process();
            let message = match probe {
                Some(mut probe) => {
                    let message = probe.run();
                    state = self.lock();
                    if state.phase == phase {
                        state.probe = Some(probe);
                    }
                    message
                }
                None => {
                    state = self.lock();
                    extension(phase, doing, began.elapsed(), now.since(&before))
                }
            };
            before = now;
            if let Some(message) = message {
                self.tell(&message);
            }
        }
    }
}

/// The message of a start or stop that makes progress.
fn extension(phase: Phase, doing: &str, elapsed: Duration, progressed: bool) -> Option<String> {
    let time = EXTENSION.as_micros();
    match phase {
        Phase::Starting | Phase::Stopping if !progressed => None,
        Phase::Starting => Some(format!(
            "EXTEND_TIMEOUT_USEC={time}\nSTATUS={doing}, {} s after the start",
            elapsed.as_secs()
        )),
        Phase::Stopping => Some(format!("EXTEND_TIMEOUT_USEC={time}\nWATCHDOG=1\nSTATUS={doing}")),
        Phase::Serving | Phase::Ended => None,
    }
}

/// What this process has used so far.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    ticks: u64,
    /// Bytes read from disks and written to them.
    io_bytes: u64,
}

impl Work {
    fn of_process() -> Work {
        let io = Process::Own.text("io").unwrap_or_default();
        let bytes = |name| fields::number(&io, name).unwrap_or(0);
        Work {
            ticks: Process::Own.stat().map_or(0, |stat| stat.ticks()),
            io_bytes: bytes("read_bytes").saturating_add(bytes("write_bytes")),
        }
    }

    /// Returns true if there was progress since `before`.
    fn since(&self, before: &Work) -> bool {
        self.ticks >= before.ticks.saturating_add(TICKS_MIN) || self.io_bytes > before.io_bytes
    }
}

/// The watchdog's own connection to the server.
struct Probe {
    server: Arc<Server>,
    /// `None` for data in a cluster.
    store: Option<Arc<Store>>,
    connection: Option<Connection>,
    out: Vec<u8>,
}

impl Probe {
    fn new(server: &Arc<Server>, store: Option<&Arc<Store>>) -> Probe {
        let (server, store) = (server.clone(), store.cloned());
        Probe { server, store, connection: None, out: Vec::new() }
    }

    /// Returns the watchdog's message if the server answers; blocks as long as it does not.
    fn run(&mut self) -> Option<String> {
        let began = Instant::now();
        let reads = |store: &Arc<Store>| store.snapshot().is_ok();
        let answered = self.ping() && self.store.as_ref().is_none_or(reads);
        let took = began.elapsed();
        if !answered || took > SLOW {
            log::warn!(target: "CONTROL", id = 8_200_062, answered = answered,
                durationMillis = took.as_millis() as u64;
                "The server did not answer the watchdog's ping in time");
        }
        answered.then(|| "WATCHDOG=1".to_owned())
    }

    /// Sends a `ping` through the code that handles the messages of clients.
    fn ping(&mut self) -> bool {
        let local = || Peer { address: "watchdog".into(), unix_socket: true, local: None };
        if self.connection.is_none() {
            self.connection = self.server.connect(local());
        }
        // A server with too many connections works as configured.
        let Some(connection) = &mut self.connection else { return true };
        let message = client::message(doc! { "ping": 1, "$db": "admin" }.as_doc());
        self.out.clear();
        let outcome = self.server.handle(connection, &message, &mut self.out);
        connection.reply_sent();
        let body = self.out.get(client::BODY_AT..).and_then(|bytes| Doc::parse(bytes).ok());
        outcome == Outcome::Reply && body.is_some_and(|body| body.get("ok").is_truthy())
    }
}

/// The address of `NOTIFY_SOCKET`: a path, or a name in the abstract namespace after `@`.
fn address(name: &[u8]) -> io::Result<SocketAddr> {
    match name {
        [b'/', ..] => {
            SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::from_bytes(name)))
        }
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        _ => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "NOTIFY_SOCKET must begin with / or @"))
        }
    }
}

/// The interval of the watchdog, if it is meant for this process.
fn watchdog_interval(usec: Option<&str>, pid: Option<&str>) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(std::process::id())) {
        return None;
    }
    let interval = Duration::from_micros(usec?.parse().ok()?);
    (interval >= Duration::from_millis(2)).then_some(interval)
}

/// A text as the value of one line.
fn one_line(text: &str) -> String {
    let mut line = text.replace(|c: char| c.is_control(), " ");
    while line.len() > STATUS_BYTES_MAX {
        line.pop();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_progress_extends_a_start_or_stop() {
        let none = Work { ticks: 10, io_bytes: 5 };
        assert!(!none.since(&none));
        assert!(!Work { ticks: 11, ..none }.since(&none), "the messages themselves");
        assert!(Work { ticks: 12, ..none }.since(&none));
        assert!(Work { io_bytes: 6, ..none }.since(&none));
        let after = |phase, progressed| {
            extension(phase, "Opening", Duration::from_secs(20), progressed).unwrap_or_default()
        };
        let text = "EXTEND_TIMEOUT_USEC=120000000\nSTATUS=Opening, 20 s after the start";
        assert_eq!(after(Phase::Starting, true), text);
        assert!(after(Phase::Stopping, true).contains("\nWATCHDOG=1\n"));
        for phase in [Phase::Starting, Phase::Stopping, Phase::Serving] {
            assert_eq!(after(phase, false), "", "{phase:?}");
        }
    }

    #[test]
    fn addresses_and_intervals_of_the_environment() {
        assert!(address(b"/run/systemd/notify").unwrap().as_pathname().is_some());
        let name = address(b"@nagi/test").unwrap();
        assert_eq!(name.as_abstract_name(), Some(&b"nagi/test"[..]));
        for bad in [&b"vsock:2:1"[..], b"run/notify", &[b'/'; 300], &[b'@'; 300]] {
            assert!(address(bad).is_err());
        }
        let own = std::process::id().to_string();
        let interval = |usec, pid: Option<&str>| watchdog_interval(usec, pid);
        assert_eq!(interval(Some("3000000"), None), Some(Duration::from_secs(3)));
        assert_eq!(interval(Some("3000000"), Some(&own)), Some(Duration::from_secs(3)));
        for (usec, pid) in [
            (None, None),
            (Some("0"), None),
            (Some("x"), None),
            (Some("-1"), None),
            (Some("3000000"), Some("1")),
            (Some("3000000"), Some("x")),
        ] {
            assert_eq!(interval(usec, pid), None, "{usec:?} {pid:?}");
        }
    }

    #[test]
    fn a_status_is_one_short_line() {
        assert_eq!(one_line("a\nREADY=1"), "a READY=1");
        assert_eq!(one_line(&"\u{e4}".repeat(300)).len(), STATUS_BYTES_MAX);
    }
}
