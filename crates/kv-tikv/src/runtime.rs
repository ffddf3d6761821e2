//! The runtime of the client, which nothing outside of this crate sees: callers block until a task has ended.
//!
//! Tasks run on threads of the runtime and not on the caller's, whose stack may be small; a panic within the client
//! ends a task and becomes an error of its caller.

use std::{
    future::Future,
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use nagi_kv::{Error, Result, interrupt};
use tokio::sync::oneshot;

/// Threads that wait for sockets. Requests are small, so two keep up with some ten thousand in a second.
const THREADS: usize = 2;
const STACK_BYTES: usize = 2 << 20;
/// How often a caller that waits looks if its request was interrupted.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    /// # Errors
    /// If the threads cannot be started.
    pub(crate) fn start() -> Result<Runtime> {
        let built = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("nagi-tikv")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build();
        Ok(Runtime(Some(built?)))
    }

    /// Runs a task and waits for its result.
    ///
    /// # Errors
    /// Those of the task. `Interrupted` if the caller's request was interrupted: the task does not go on.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.begin(task)?.wait()
    }

    /// Runs a task and waits for its result. The task is told by the channel if the caller's request was interrupted,
    /// and has to end soon then.
    pub(crate) fn wait_or_stop<
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    >(
        &self,
        task: impl FnOnce(oneshot::Receiver<()>) -> F,
    ) -> Result<T> {
        self.spawn(task)?.wait()
    }

    /// Begins a task whose result is waited for later. It ends when that is dropped.
    ///
    /// # Errors
    /// If the runtime has ended.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<Running<T>> {
        self.spawn(|stop| async move {
            tokio::select! {
                done = task => done,
                _ = stop => Err(Error::Interrupted),
            }
        })
    }

    fn spawn<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        task: impl FnOnce(oneshot::Receiver<()>) -> F,
    ) -> Result<Running<T>> {
        let Some(runtime) = &self.0 else { return Err(ended()) };
        let (sender, receiver) = mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel();
        let task = task(stopped);
        runtime.spawn(async move {
            // The channel is empty; it is closed if its receiver is gone.
            let _ = sender.send(task.await);
        });
        Ok(Running { receiver, stop: Some(stop) })
    }
}

/// A task that runs.
pub(crate) struct Running<T> {
    receiver: mpsc::Receiver<Result<T>>,
    stop: Option<oneshot::Sender<()>>,
}

impl<T> Running<T> {
    /// Waits for its result.
    ///
    /// # Errors
    /// Those of the task; what it makes of being told that the caller's request was interrupted.
    pub(crate) fn wait(mut self) -> Result<T> {
        loop {
            match self.receiver.recv_timeout(LOOK) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                Err(RecvTimeoutError::Timeout) => {
                    if self.stop.is_some() && !interrupt::go_on() {
                        // A task that has just ended has closed the channel.
                        let _ = self.stop.take().map(|stop| stop.send(()));
                    }
                }
            }
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Gives second phases of commits a moment. They may also be completed by any later reader.
            runtime.shutdown_timeout(Duration::from_millis(500));
        }
    }
}

fn ended() -> Error {
    Error::other("a task of the client of TiKV ended without a result")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_arrive_and_a_panic_is_an_error() {
        let runtime = Runtime::start().expect("starts");
        assert_eq!(runtime.wait(async { Ok(7) }).expect("a result"), 7);
        let panicked = runtime.wait::<u8>(async { panic!("a defect of the client") });
        assert!(matches!(panicked, Err(Error::Io(_))));
        assert_eq!(runtime.wait(async { Ok(8) }).expect("it goes on"), 8);
        let (one, other) = (runtime.begin(async { Ok(1) }), runtime.begin(async { Ok(2) }));
        assert_eq!(other.expect("it runs").wait().expect("a result"), 2);
        assert_eq!(one.expect("it runs").wait().expect("a result"), 1);
    }
}
