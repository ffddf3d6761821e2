//! The thread that keeps the record of free space, by which `nagi doctor` tells when the disk is full.

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::thread::{Builder, JoinHandle};

use crate::options::{EngineKind, Options};

/// The thread; dropping it ends and joins it, so that nothing writes once the folder's lock is gone.
pub(crate) struct Record {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Record {
    /// Starts it; does nothing for a server without a data directory.
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
            // A panic in it has been reported already, and loses an hour of a record.
            let _ = thread.join();
        }
    }
}
