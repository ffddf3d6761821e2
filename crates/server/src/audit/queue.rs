//! The queue between requests and the thread that writes. Its size is bounded in bytes.

use std::collections::VecDeque;
use std::time::Duration;

use nagi_bson::DocBuf;
use parking_lot::{Condvar, Mutex};

use crate::clock;
use crate::limits::AUDIT_QUEUE_BYTES_MAX;

/// The bytes of one batch, after which a longer queue is written by further batches.
const BATCH_BYTES: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    drained: Condvar,
}

#[derive(Default)]
struct State {
    messages: VecDeque<DocBuf>,
    /// The bytes of the messages that are not written yet, also of the batch that is being written.
    bytes: usize,
    closed: bool,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pushed {
    AtOnce,
    AfterWait,
    /// There was no room.
    Refused,
    /// The server ends.
    Closed,
}

impl Queue {
    /// Appends a message. Waits up to `wait` until there is room.
    pub(super) fn push(&self, message: DocBuf, wait: Duration) -> Pushed {
        let size = message.as_doc().len();
        let mut state = self.state.lock();
        let has_room =
            |state: &State| state.bytes == 0 || state.bytes + size <= AUDIT_QUEUE_BYTES_MAX;
        let mut pushed = Pushed::AtOnce;
        if !state.closed && !has_room(&state) && !wait.is_zero() {
            let until = clock::now() + wait;
            pushed = Pushed::AfterWait;
            while !state.closed && !has_room(&state) {
                if self.drained.wait_until(&mut state, until).timed_out() {
                    break;
                }
            }
        }
        if state.closed {
            return Pushed::Closed;
        }
        if !has_room(&state) {
            return Pushed::Refused;
        }
        state.bytes += size;
        state.messages.push_back(message);
        drop(state);
        self.filled.notify_one();
        pushed
    }

    /// Waits for messages and takes a batch; `None` once the queue is closed and empty. Its bytes count until
    /// [`Queue::release`].
    pub(super) fn next(&self) -> Option<Vec<DocBuf>> {
        let mut state = self.state.lock();
        while state.messages.is_empty() {
            if state.closed {
                return None;
            }
            self.filled.wait(&mut state);
        }
        let mut bytes = 0;
        let mut batch = Vec::new();
        while bytes < BATCH_BYTES
            && let Some(message) = state.messages.pop_front()
        {
            bytes += message.as_doc().len();
            batch.push(message);
        }
        Some(batch)
    }

    /// Gives back the room of written messages.
    pub(super) fn release(&self, bytes: usize) {
        self.state.lock().bytes -= bytes;
        self.drained.notify_all();
    }

    /// Waits up to `time`. Returns true if the queue is closed.
    pub(super) fn wait_closed(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        let until = clock::now() + time;
        while !state.closed {
            if self.drained.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.closed
    }

    /// Waits until all messages are written, at most for `time`.
    pub(super) fn wait_empty(&self, time: Duration) {
        let mut state = self.state.lock();
        let until = clock::now() + time;
        while state.bytes > 0 && !self.drained.wait_until(&mut state, until).timed_out() {}
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }

    /// The number of waiting messages, and the bytes that are not written yet.
    pub(super) fn len(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.messages.len(), state.bytes)
    }
}
