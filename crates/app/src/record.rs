//! The thread that records free space. From the record `nagi doctor` estimates when the disk will be full.

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::thread::{Builder, JoinHandle};

use nagi_host::EngineKind;

use crate::options::Options;

/// The thread. Dropping it stops and joins the thread, so that nothing is written after the lock of the data directory
/// is released.
pub(crate) struct Record {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Record {
    /// Starts the thread; does nothing for a server without a data directory.
    pub(crate) fn start(options: &Options) -> Record {
        if options.engine == EngineKind::Memory {
            return Record { stop: None, thread: None };
        }
        let folder = PathBuf::from(&options.db_path);
        let (stop, stopped) = mpsc::channel();
        let body = move || nagi_doctor::keep_record(&folder, &stopped);
        let builder = Builder::new().name("freeSpace".into()).stack_size(256 * 1024);
        let thread = builder.spawn(body).map_err(|error| {
            log::warn!(target: "CONTROL", id = 8_200_005, error = error.to_string();
                "Free space is not recorded: cannot start a thread");
        });
        Record { stop: Some(stop), thread: thread.ok() }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported, and costs only an hour of the record.
            let _ = thread.join();
        }
    }
}
