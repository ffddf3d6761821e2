//! The runtime of the client, which nothing outside of this crate sees: callers block until a task has ended.
//!
//! Tasks run on threads of the runtime and not on the caller's, whose stack may be small; a panic within the client
//! ends a task and becomes an error of its caller.

use std::{future::Future, sync::mpsc, time::Duration};

use nagi_kv::{Error, Result};

/// Threads that wait for sockets. Requests are small, so two keep up with some ten thousand in a second.
const THREADS: usize = 2;
const STACK_BYTES: usize = 2 << 20;

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
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let Some(runtime) = &self.0 else { return Err(ended()) };
        let (sender, receiver) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            // The receiver waits below, so the channel is open and empty.
            let _ = sender.send(task.await);
        });
        receiver.recv().unwrap_or_else(|_| Err(ended()))
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
    }
}
