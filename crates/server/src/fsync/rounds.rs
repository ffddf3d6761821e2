//! Work that only the disk can finish, on a thread of its own, so that the commands that wait for it can be interrupted
//! while the disk stands still.
//!
//! ```text
//!   commands     A asks      B, C ask       A has its answer    B and C have theirs
//!   thread       |------- round 1 --------||------ round 2 ------|
//! ```
//!
//! One round runs at a time, and one waits at most: it is done for all that asked before it began. So a disk that
//! stands still costs one thread, however many commands have come and were interrupted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nagi_error::{Code, Error, Result};
use parking_lot::{Condvar, Mutex};

/// Interval of the interrupt checks of waiting threads.
const LOOK: Duration = Duration::from_millis(20);

type Work = Box<dyn FnOnce() -> Result<()> + Send>;
/// How a round has ended, for all that wait for it: why it failed, or `None`. Without a value it has not ended.
type Outcome = Arc<OnceLock<Option<(Code, String)>>>;

/// Rounds of one kind of work.
#[derive(Default)]
pub(crate) struct Rounds {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    next: Option<(Work, Outcome)>,
    is_running: bool,
}

impl Rounds {
    /// Returns once a round that began after this call has ended. `work` may be left out in favour of that of another
    /// caller, so all of them have to want the same.
    ///
    /// # Errors
    /// Those of the round, and of `check`, the interrupt check of the wait. The round is then run nevertheless.
    pub(crate) fn run(
        self: &Arc<Self>,
        check: &mut dyn FnMut() -> Result<()>,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let next = state.next.get_or_insert_with(|| (Box::new(work), Outcome::default()));
        let outcome = Arc::clone(&next.1);
        if !state.is_running {
            let own = Arc::clone(self);
            let thread = std::thread::Builder::new().name("diskWork".to_owned());
            if let Err(error) = thread.spawn(move || own.serve()) {
                state.next = None;
                return Err(Error::new(Code::INTERNAL_ERROR, format!("no thread: {error}")));
            }
            state.is_running = true;
        }
        loop {
            // Also that of a round which others have ended since: they do not change it.
            match outcome.get() {
                Some(Some((code, message))) => return Err(Error::new(*code, message.as_str())),
                Some(None) => return Ok(()),
                None => {}
            }
            let waited = self.ended.wait_for(&mut state, LOOK);
            if waited.timed_out() && outcome.get().is_none() {
                parking_lot::MutexGuard::unlocked(&mut state, &mut *check)?;
            }
        }
    }

    /// Runs rounds until none waits.
    fn serve(&self) {
        let mut state = self.state.lock();
        while let Some((work, outcome)) = state.next.take() {
            let done = parking_lot::MutexGuard::unlocked(&mut state, || {
                catch_unwind(AssertUnwindSafe(work))
                    .unwrap_or_else(|_| Err(Error::bug("a thread that waits for the disk died")))
            });
            let failure = done.err().map(|error| (error.code(), error.message().to_owned()));
            // Only this thread sets it.
            let _ = outcome.set(failure);
            self.ended.notify_all();
        }
        state.is_running = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn interrupted() -> Result<()> {
        Err(Error::new(Code::INTERRUPTED, "killed"))
    }

    #[test]
    fn a_wait_ends_while_its_work_does_not_and_the_work_goes_on() {
        let rounds = Arc::<Rounds>::default();
        let (go, goes) = channel::<()>();
        let (said, says) = channel();
        let first = said.clone();
        let error = rounds.run(&mut interrupted, move || {
            let _ = goes.recv();
            let _ = first.send(1);
            Err(Error::bug("no caller waits for this"))
        });
        assert_eq!(error.unwrap_err().code(), Code::INTERRUPTED);
        // Of these one is run, once the first has ended: also if no caller waits for it any more.
        for n in [2, 3] {
            let said = said.clone();
            let work = move || {
                let _ = said.send(n);
                Ok(())
            };
            assert!(rounds.run(&mut interrupted, work).is_err());
        }
        assert!(says.try_recv().is_err());
        drop(go);
        assert_eq!([says.recv(), says.recv()], [Ok(1), Ok(2)]);
        rounds.run(&mut || Ok(()), || Ok(())).unwrap();
        drop(said);
        assert!(says.try_recv().is_err(), "3 was left out");
    }

    #[test]
    fn errors_and_panics_are_those_of_their_round() {
        let rounds = Arc::<Rounds>::default();
        let full = || Err(Error::new(Code::OUT_OF_DISK_SPACE, "full"));
        let error = rounds.run(&mut || Ok(()), full).unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::OUT_OF_DISK_SPACE, "full"));
        let error = rounds.run(&mut || Ok(()), || std::panic::panic_any("died")).unwrap_err();
        assert_eq!(error.code(), Error::bug("").code());
        rounds.run(&mut || Ok(()), || Ok(())).unwrap();
    }

    #[test]
    fn one_that_looks_late_gets_the_result_of_its_round() {
        let rounds = Arc::<Rounds>::default();
        for (first, second) in
            [(Err(Code::OUT_OF_DISK_SPACE), Ok(())), (Ok(()), Err(Code::BAD_VALUE))]
        {
            let of =
                |wanted: std::result::Result<(), Code>| wanted.map_err(|code| Error::new(code, ""));
            let (go, goes) = channel::<()>();
            let (begins, begun) = channel();
            let (asks, asked) = channel();
            let (late, is_late) = channel::<()>();
            std::thread::scope(|threads| {
                let rounds = &rounds;
                let waits = threads.spawn(move || {
                    let mut check = || {
                        let _ = asks.send(());
                        let _ = is_late.recv();
                        Ok(())
                    };
                    let work = move || {
                        let _ = begins.send(());
                        let _ = goes.recv();
                        of(first)
                    };
                    rounds.run(&mut check, work)
                });
                // It looks after its round, and the next one, have ended.
                begun.recv().unwrap();
                asked.recv().unwrap();
                drop(go);
                let ended = rounds.run(&mut || Ok(()), move || of(second));
                assert_eq!(ended.map_err(|error| error.code()), second);
                drop(late);
                assert_eq!(waits.join().unwrap().map_err(|error| error.code()), first);
            });
        }
    }
}
