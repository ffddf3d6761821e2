//! The thread that writes the queued messages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use nagi_bson::DocBuf;
use parking_lot::Mutex;

use super::Counts;
use super::queue::Queue;
use super::sink::Sink;
use super::text::Encoding;

/// The time after which a failed write is repeated.
const RETRY: Duration = Duration::from_millis(250);

pub(super) struct Writer {
    pub(super) queue: Arc<Queue>,
    pub(super) sink: Arc<Mutex<Sink>>,
    pub(super) counts: Arc<Counts>,
    pub(super) encoding: Encoding,
}

/// A message, or several, as bytes for the destination.
struct Portion {
    bytes: Vec<u8>,
    messages: u64,
}

impl Writer {
    /// Runs until the queue is closed and empty.
    pub(super) fn run(self) {
        crate::logging::set_log_context("audit");
        while let Some(batch) = self.queue.next() {
            for portion in self.portions(&batch) {
                self.write(&portion);
            }
            self.queue.release(batch.iter().map(|message| message.as_doc().len()).sum());
        }
    }

    /// A file gets a batch at once; a datagram has one message.
    fn portions(&self, batch: &[DocBuf]) -> Vec<Portion> {
        let apart = self.sink.lock().takes_messages_apart();
        let mut portions: Vec<Portion> = Vec::new();
        for message in batch {
            if apart || portions.is_empty() {
                portions.push(Portion { bytes: Vec::new(), messages: 0 });
            }
            if let Some(last) = portions.last_mut() {
                self.encoding.write(message.as_doc(), &mut last.bytes);
                last.messages += 1;
            }
        }
        portions
    }

    /// Writes a portion. Repeats it after an error, until the destination takes it or the server ends.
    fn write(&self, portion: &Portion) {
        let (mut done, mut failing) = (0, false);
        while done < portion.bytes.len() {
            let written = self.sink.lock().write(portion.bytes.get(done..).unwrap_or_default());
            let error = match written {
                Ok(count) => {
                    done += count;
                    continue;
                }
                Err(error) => error,
            };
            add(&self.counts.write_errors, 1);
            if !failing {
                log::error!(target: "ACCESS", id = 9_000_172, error = error.to_string();
                    "The audit log cannot be written; the write is repeated until it succeeds");
            }
            failing = true;
            if is_hopeless(&error) || self.queue.wait_closed(RETRY) {
                self.fail(portion);
                return;
            }
        }
        add(&self.counts.written, portion.messages);
        add(&self.counts.written_bytes, portion.bytes.len() as u64);
        if failing {
            log::info!(target: "ACCESS", id = 9_000_173; "The audit log can be written again");
        }
    }

    fn fail(&self, portion: &Portion) {
        add(&self.counts.failed, portion.messages);
        log::error!(target: "ACCESS", id = 9_000_174, messages = portion.messages;
            "Messages of the audit log are lost, because they could not be written");
    }
}

/// True if the write would fail again: the message is longer than a datagram may be.
fn is_hopeless(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}
