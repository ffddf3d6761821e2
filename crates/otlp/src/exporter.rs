//! The thread that sends spans and figures.
//!
//! ```text
//!   sent      the next metrics after the interval; spans as soon as there are many, or after a second
//!   failed    logged once; nothing is sent for 1, 2, 4, ... 64 seconds. Spans that arrive meanwhile are taken and
//!             counted as lost, so that the newest ones are sent when the collector is back
//! ```

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nagi_console::Figures;
use nagi_server::{Server, Span};

use crate::metrics::{self, Times};
use crate::options::OtlpOptions;
use crate::resource::Resource;
use crate::send::{LAST_TIME_MAX, Sender, TIME_MAX};
use crate::traces;

/// The time after which spans are sent even if they are few.
const SPANS_EVERY: Duration = Duration::from_secs(1);
/// Spans of a message: one of them has less than a kilobyte.
const SPANS_MAX: usize = 1024;
/// The pauses after failures.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// A running exporter.
pub struct Exporter(JoinHandle<()>);

impl Exporter {
    /// Starts the exporter of a server; `version` is that of the program.
    ///
    /// # Errors
    /// If the thread cannot be started, or a file of certificates cannot be used.
    pub fn start(server: Arc<Server>, options: OtlpOptions, version: &str) -> io::Result<Exporter> {
        let sender = Sender::new(&options).map_err(io::Error::other)?;
        let resource = Resource {
            service_name: "nagi".to_owned(),
            version: version.to_owned(),
            instance: server.instance_name(),
        };
        server.record_spans(options.sample_ratio);
        let thread = std::thread::Builder::new().name("otlpExporter".to_owned());
        let running = thread.spawn(move || {
            nagi_server::set_log_context("otlpExporter");
            Running {
                server: &server,
                interval: options.interval,
                figures: Figures::new(),
                start_ns: now_ns(),
                resource,
                sender,
                pause: Duration::ZERO,
                silent_until: None,
                time: TIME_MAX,
            }
            .run();
        })?;
        Ok(Exporter(running))
    }

    /// Waits for the end of the exporter, which the server's stop has begun.
    pub fn join(self) {
        let _ = self.0.join();
    }
}

struct Running<'s> {
    server: &'s Server,
    interval: Duration,
    figures: Figures,
    start_ns: u64,
    resource: Resource,
    sender: Sender,
    /// The last pause after a failure; zero after a success.
    pause: Duration,
    silent_until: Option<Instant>,
    /// The time that a message may take.
    time: Duration,
}

impl Running<'_> {
    fn run(&mut self) {
        let mut metrics_due = Instant::now();
        loop {
            let wait = metrics_due.saturating_duration_since(Instant::now()).min(SPANS_EVERY);
            let (spans, goes_on) = self.server.take_spans(wait);
            if !goes_on {
                self.time = LAST_TIME_MAX;
            }
            for part in spans.chunks(SPANS_MAX) {
                self.send_spans(part);
            }
            if Instant::now() >= metrics_due || !goes_on {
                self.send_figures();
                metrics_due = Instant::now() + self.interval;
            }
            if !goes_on {
                return;
            }
        }
    }

    fn send_spans(&mut self, spans: &[Span]) {
        let sent = !self.is_silent() && {
            let message = traces::encode(&self.resource, spans);
            self.post("/v1/traces", &message)
        };
        if !sent {
            self.server.note_lost_spans(spans.len());
        }
    }

    fn send_figures(&mut self) {
        if self.is_silent() {
            return;
        }
        let (figures, histograms) = self.figures.read(self.server);
        let times = Times { start_ns: self.start_ns, now_ns: now_ns() };
        let message = metrics::encode(&self.resource, times, &figures, &histograms);
        self.post("/v1/metrics", &message);
    }

    /// True during a pause after a failure.
    fn is_silent(&self) -> bool {
        self.silent_until.is_some_and(|until| Instant::now() < until)
    }

    fn post(&mut self, path: &str, message: &[u8]) -> bool {
        let outcome = self.sender.post(path, message, self.time);
        self.server.note_export(outcome.is_ok());
        match outcome {
            Ok(()) => {
                if !self.pause.is_zero() {
                    log::info!(target: "NETWORK", id = 8_200_321;
                        "The OpenTelemetry collector accepts messages again");
                }
                self.pause = Duration::ZERO;
                self.silent_until = None;
                true
            }
            Err(error) => {
                if self.pause.is_zero() {
                    log::warn!(target: "NETWORK", id = 8_200_320, error = error.as_str();
                        "The OpenTelemetry collector does not accept messages; it is tried again");
                }
                self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
                self.silent_until = Some(Instant::now() + self.pause);
                false
            }
        }
    }
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
