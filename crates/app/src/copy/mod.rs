//! `nagi copy`: copies the data of one deployment into another while the source serves, and follows its changes.
//!
//! ```text
//!   nagi copy --from URI --to URI [--include NAME] [--exclude NAME] [--cutOver | --finish] [--verify]
//!
//!   start     a change stream is opened; collections are listed and created
//!   base      documents are copied by several workers
//!   follow    changes since the start are applied, until a signal, or for ever
//!   finish    nothing writes to the source any more; indexes become unique and expiring; both sides are compared
//! ```
//!
//! | module        | purpose                                                                       |
//! |---------------|-------------------------------------------------------------------------------|
//! | `flags.rs`    | the flags                                                                     |
//! | `filter.rs`   | which namespaces are copied                                                   |
//! | `link.rs`     | connections that outlive failures                                             |
//! | `listing.rs`  | what a deployment has                                                         |
//! | `state.rs`    | the progress, stored in the target                                            |
//! | `start.rs`    | the list of collections at the beginning of the change log                    |
//! | `base.rs`     | the base copy                                                                 |
//! | `stream.rs`, `token.rs`, `events.rs` | the change log, its times and events                   |
//! | `write.rs`    | changes of documents                                                          |
//! | `follow.rs`   | the order of changes; what happens to whole collections                       |
//! | `alter.rs`    | indexes, options, views                                                       |
//! | `compare.rs`  | comparison, and what change streams do not tell of                            |
//! | `users.rs`    | users and roles                                                               |
//! | `finish.rs`   | the end                                                                       |
//! | `progress.rs` | lines on standard error                                                       |
//!
//! It uses the wire protocol only, so each side may be any server that speaks it. Usage: docs/copy.md; the reasons:
//! decision 117.

mod alter;
mod base;
mod compare;
mod events;
mod filter;
mod finish;
mod flags;
mod follow;
mod link;
mod listing;
mod progress;
mod start;
mod state;
mod stream;
mod token;
mod users;
mod write;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagi_bson::DocBuf;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::exit;
use crate::{print, say};
pub(crate) use flags::FLAGS;
use flags::{End, Flags, Last};
use follow::{Follower, Until};
use link::{Deployment, Link, Result, Stop, Trouble, failed};
use progress::{Progress, note};
use state::Phase;

/// Runs `nagi copy ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let mut flags = match Flags::parse(args) {
        Ok(flags) => flags,
        Err(text) => {
            say(&format!("nagi copy: {text}\ntry 'nagi help copy' for more information"));
            return ExitCode::from(exit::BAD_OPTIONS);
        }
    };
    let text = match flags.read_passwords() {
        Err(text) => text,
        Ok(()) => match copy(flags) {
            Ok(text) => {
                print(&text);
                return ExitCode::SUCCESS;
            }
            Err(Trouble::Stopped) => "stopped; the same command continues".to_owned(),
            Err(Trouble::CursorLost) => "a cursor was lost; the same command continues".to_owned(),
            Err(Trouble::Refused { text, .. } | Trouble::Failed(text)) => text,
        },
    };
    note(&text);
    ExitCode::from(exit::FAILURE)
}

fn copy(mut flags: Flags) -> Result<String> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM] {
        // The second signal ends the process at once.
        let registered =
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop.0))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop.0)));
        if let Err(error) = registered {
            return failed(format!("signals: {error}"));
        }
    }
    let run = run_id()?;
    for address in flags.from.iter_mut().chain(&mut flags.to) {
        address.app_name = Some(start::app_name(&run));
    }
    let deployment = |side, addresses| {
        let (patience, stop) = (flags.patience, stop.clone());
        Arc::new(Deployment { side, addresses, patience, stop })
    };
    let from = deployment("source", flags.from);
    let mut source = Link::connect(&from)?;
    let mut target = Link::connect(&deployment("target", flags.to))?;
    let progress = Progress::new();
    let state = start::begin(&mut source, &mut target, &run, &flags.filter, &progress)?;
    let mut follower = Follower::new(source, target, flags.workers, flags.filter, state, progress)?;
    follower.find_names()?;
    if follower.state.phase == Phase::Base {
        follower.copy_base()?;
    }
    note("follows the changes of the source");
    match flags.end {
        End::BySignal => follower.follow(Until::Stopped).map(|_| String::new()),
        End::Finish => {
            follower.follow(Until::Near)?;
            follower.finish(&flags.last)
        }
        End::CutOver => {
            follower.follow(Until::Near)?;
            cut_over(&mut follower, &flags.last, &from)
        }
    }
}

/// Finishes with the source's writes blocked. They stay blocked if the target is complete, and are allowed again
/// otherwise.
fn cut_over(follower: &mut Follower, last: &Last, source: &Arc<Deployment>) -> Result<String> {
    let was_blocked = finish::is_blocked(&mut follower.source);
    let result = finish::block(&mut follower.source).and_then(|()| follower.finish(last));
    match result {
        Ok(text) => Ok(format!("{text}; the source still refuses writes")),
        Err(trouble) if was_blocked => Err(trouble),
        Err(trouble) => {
            // Not stopped by the signal that may have stopped the rest.
            source.stop.0.store(false, Ordering::Relaxed);
            finish::unblock(&mut Link::new(source));
            Err(trouble)
        }
    }
}

/// A name for this process, which no other one has.
fn run_id() -> Result<String> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        Err(error) => failed(format!("random numbers: {error}")),
    }
}

impl Follower {
    /// Copies the base, and then what belongs to it.
    fn copy_base(&mut self) -> Result<()> {
        // A stream begins at the next operation, which has not happened if the source is idle.
        let since = self.stream.time()?.min(self.newest()?);
        let workers = self.pairs.len();
        let (source, target) = (&mut self.source, &mut self.target);
        base::copy(source, target, &self.state, since, workers, &self.progress)?;
        self.state.refresh_skips(&mut self.target)?;
        let documents = self.progress.documents.load(Ordering::Relaxed);
        let bytes = self.progress.bytes.load(Ordering::Relaxed);
        note(&format!("the base has {documents} documents, {:.1} MB", bytes as f64 / 1e6));
        let listed = listing::all(&mut self.source, &self.filter)?;
        for listed in &listed {
            self.align_early(listed)?;
        }
        note("the indexes are built");
        state::drop_ranges(&mut self.target)?;
        self.state.phase = Phase::Following;
        self.state.token = DocBuf::from_doc(self.stream.token.as_doc());
        self.state.save(&mut self.target)
    }
}
