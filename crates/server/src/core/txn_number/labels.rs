//! Error labels: they tell a driver if it may retry a write or a whole transaction after an error.

use nagi_error::{Code, Error};

use crate::request::Request;

/// Codes after which a driver may send a write again. Sorted.
const RETRIABLE: &[i32] = &[
    6, 7, 89, 91, 134, 189, 262, 358, 402, 406, 407, 412, 453, 462, 9001, 10107, 11600, 11602,
    13435, 13436,
];
/// Codes after which a driver may begin the whole transaction again. Sorted.
const TRANSIENT: &[i32] = &[24, 112, 150, 239, 246, 249, 250, 251, 267, 272, 343, 13388];

/// Codes after which a driver may resume a change stream, beside the retriable ones. Sorted.
const RESUMABLE: &[i32] = &[63, 133, 150, 234, 13388];
/// Codes after which a change stream cannot be resumed. Sorted.
const NOT_RESUMABLE: &[i32] = &[280, 286];

const RESUMABLE_CHANGE_STREAM_ERROR: &str = "ResumableChangeStreamError";
const NON_RESUMABLE_CHANGE_STREAM_ERROR: &str = "NonResumableChangeStreamError";
const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";
const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";
const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";

fn is_in(codes: &[i32], code: Code) -> bool {
    codes.binary_search(&code.0).is_ok()
}

/// Returns the label for an error with this code in the reply to `request`, if there is one.
fn label(request: &Request<'_>, code: Code) -> Option<&'static str> {
    let generic = &request.generic;
    generic.txn_number?;
    let ends = request.command.ends_transaction;
    let in_transaction = generic.autocommit.is_some();
    if in_transaction && (is_in(TRANSIENT, code) || (!ends && is_in(RETRIABLE, code))) {
        return Some(TRANSIENT_TRANSACTION_ERROR);
    }
    let retryable = (!in_transaction && request.command.retryable) || ends;
    (retryable && is_in(RETRIABLE, code)).then_some(RETRYABLE_WRITE_ERROR)
}

/// Adds the label that the error's code and the request call for.
pub(crate) fn add_labels(request: &Request<'_>, error: Error) -> Error {
    match label(request, error.code()) {
        Some(label) if !error.labels().contains(&label) => error.with_label(label),
        _ => error,
    }
}

/// Adds the label that tells if a change stream may be resumed after an error. `streams`: the request opens or reads
/// one.
pub(crate) fn add_stream_labels(streams: bool, error: Error) -> Error {
    let code = error.code();
    let label = if is_in(NOT_RESUMABLE, code) {
        NON_RESUMABLE_CHANGE_STREAM_ERROR
    } else if streams && (is_in(RETRIABLE, code) || is_in(RESUMABLE, code)) {
        RESUMABLE_CHANGE_STREAM_ERROR
    } else {
        return error;
    };
    if error.labels().contains(&label) { error } else { error.with_label(label) }
}

/// As [`add_labels`], for a command that has not begun. The additional label tells the driver that nothing was written.
pub(crate) fn add_labels_unstarted(request: &Request<'_>, error: Error) -> Error {
    let error = add_labels(request, error);
    match error.labels().contains(&RETRYABLE_WRITE_ERROR) {
        true => error.with_label(NO_WRITES_PERFORMED),
        false => error,
    }
}

/// Returns the label of a `writeConcernError` with this code.
pub(crate) fn write_concern_label(request: &Request<'_>, code: Code) -> Option<&'static str> {
    label(request, code).filter(|label| *label == RETRYABLE_WRITE_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted() {
        assert!(
            [RETRIABLE, TRANSIENT, RESUMABLE, NOT_RESUMABLE].iter().all(|codes| codes.is_sorted())
        );
    }
}
