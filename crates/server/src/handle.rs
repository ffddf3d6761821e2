//! From a frame to a reply: the whole interface that `net` uses.

use std::sync::Arc;

use crate::connection::Connection;
use crate::server::Server;

/// What net does after a frame was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Send `out`, then read the next frame.
    Reply,
    /// Nothing to send; read the next frame.
    NoReply,
    /// Send `out`, then call [`Server::resume`] for the next reply of the stream.
    Stream,
    /// Send `out` if it is not empty, then close.
    Close,
}

impl Server {
    /// Handles one whole message, header included, and appends the reply to `out`, which comes empty.
    ///
    /// Never fails: what is wrong with a request is said in the reply, what is wrong with the framing
    /// closes the connection. May block (awaitable hello, tailable cursors, locks).
    pub fn handle(
        self: &Arc<Server>,
        connection: &mut Connection,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) -> Outcome {
        let _ = (connection, frame, out);
        Outcome::Close
    }

    /// The next reply of the stream that the last outcome began. May block until there is one.
    pub fn resume(self: &Arc<Server>, connection: &mut Connection, out: &mut Vec<u8>) -> Outcome {
        let _ = (connection, out);
        Outcome::Close
    }
}
