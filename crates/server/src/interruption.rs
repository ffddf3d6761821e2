//! The error of a cancelled operation.

use nagi_error::{Code, Error};

/// The error of an operation that was cancelled with `code`.
pub(crate) fn interruption(code: Code) -> Error {
    Error::new(
        code,
        match code {
            Code::CLIENT_DISCONNECT => "operation was interrupted because a client disconnected",
            Code::MAX_TIME_MS_EXPIRED => "operation exceeded time limit",
            Code::INTERRUPTED_AT_SHUTDOWN => "interrupted at shutdown",
            Code::CURSOR_KILLED => "operation was interrupted because the cursor was killed",
            _ => "operation was interrupted",
        },
    )
}
