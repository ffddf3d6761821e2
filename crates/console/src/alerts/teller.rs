//! Tells actions about events: a thread and a bounded queue for each, so that one that hangs does not hold up another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::action::Action;
use super::event::Event;

/// Events that wait for an action; more are dropped.
const WAITING_MAX: usize = 16;

/// What became of the events of one action.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) delivered: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) dropped: AtomicU64,
}

struct Worker {
    name: String,
    kind: &'static str,
    told: Arc<Told>,
    /// `None`: stopped.
    running: Mutex<Option<Running>>,
}

struct Running {
    queue: SyncSender<Event>,
    thread: JoinHandle<()>,
    /// Closed when the server stops.
    stop: Sender<()>,
}

/// The actions with their threads.
#[derive(Default)]
pub(crate) struct Teller(Vec<Worker>);

impl Teller {
    /// Starts a thread for each action.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start(alerts: &super::Alerts, host: &str) -> std::io::Result<Teller> {
        let workers = alerts.actions.iter().map(|action| {
            let (queue, events) = sync_channel(WAITING_MAX);
            let (stop, stops) = std::sync::mpsc::channel();
            let told = Arc::<Told>::default();
            let (name, kind) = (action.name().to_owned(), action.kind_name());
            let (action, host, counts) = (action.clone(), host.to_owned(), told.clone());
            let thread = std::thread::Builder::new().name("alertAction".to_owned());
            let thread = thread.spawn(move || {
                nagi_server::set_log_context("alertAction");
                run(&action, &host, &events, &stops, &counts);
            })?;
            let running = Mutex::new(Some(Running { queue, thread, stop }));
            Ok(Worker { name, kind, told, running })
        });
        workers.collect::<std::io::Result<_>>().map(Teller)
    }

    /// Logs an event, and hands it to the actions of its rule. Never waits.
    pub(super) fn tell(&self, event: &Event) {
        log_event(event);
        for worker in event.rule.actions.iter().filter_map(|at| self.0.get(*at)) {
            let running = worker.running.lock();
            let Some(running) = &*running else { continue };
            if running.queue.try_send(event.clone()).is_err() {
                worker.told.dropped.fetch_add(1, Ordering::Relaxed);
                log::warn!(target: "CONTROL", id = 8_200_363, action = worker.name.as_str(),
                    alert = event.rule.name.as_str();
                    "An alert was not told: too many wait for its action");
            }
        }
    }

    /// Name, kind and counts of each action.
    pub(super) fn actions(&self) -> impl Iterator<Item = (&str, &'static str, &Told)> {
        self.0.iter().map(|worker| (worker.name.as_str(), worker.kind, &*worker.told))
    }

    /// Ends the threads. What waits is not told any more: a request may take seconds.
    pub(crate) fn stop(&self) {
        // All are told to end before the first is waited for: each may have a request that takes its whole time.
        let ending = self.0.iter().filter_map(|worker| worker.running.lock().take());
        let end = |Running { queue, thread, stop }| {
            drop((queue, stop));
            thread
        };
        let threads: Vec<_> = ending.map(end).collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn run(action: &Action, host: &str, events: &Receiver<Event>, stop: &Receiver<()>, told: &Told) {
    use std::sync::mpsc::TryRecvError;
    while let Ok(event) = events.recv() {
        if stop.try_recv() == Err(TryRecvError::Disconnected) {
            return;
        }
        match action.run(&event, host, stop) {
            Ok(()) => drop(told.delivered.fetch_add(1, Ordering::Relaxed)),
            Err(why) => {
                told.failed.fetch_add(1, Ordering::Relaxed);
                log::warn!(target: "CONTROL", id = 8_200_362, action = action.name(),
                    alert = event.rule.name.as_str(), error = why; "An alert could not be told to its action");
            }
        }
    }
}

fn log_event(event: &Event) {
    use super::event::What;
    let rule = &event.rule;
    let value = event.value.map_or("unknown".to_owned(), |value| value.to_string());
    let (name, severity, condition) = (rule.name.as_str(), rule.severity.name(), rule.condition());
    match event.what {
        What::Ended => log::info!(target: "CONTROL", id = 8_200_361, alert = name, value = value,
            lastedSecs = event.lasted_ms / 1000; "Alert ended"),
        What::Began | What::Lasts => log::warn!(target: "CONTROL", id = 8_200_360, alert = name,
            severity = severity, value = value, condition = condition,
            lastedSecs = event.lasted_ms / 1000, advice = rule.advice.as_str(); "Alert"),
    }
}
