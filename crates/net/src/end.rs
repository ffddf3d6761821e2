//! How the service of a connection ends, and which error of a socket means what.

use std::io::{self, ErrorKind};

/// Why a thread stops serving a connection.
pub(crate) enum End {
    /// The peer was silent between two frames for [`NetConfig::idle_after`]; the connection goes on.
    Idle,
    /// The peer disconnected, or the server shuts down.
    Closed,
    /// The server closed it.
    Refused,
    /// The bytes are not valid in the protocol.
    Broken(String),
    /// The peer stopped in the middle of a frame, or did not accept its reply.
    TimedOut(&'static str),
    Failed(io::Error),
}

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

pub(crate) fn failed(error: io::Error) -> End {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected => End::Closed,
        ErrorKind::InvalidData => End::Broken(error.to_string()),
        _ => End::Failed(error),
    }
}
