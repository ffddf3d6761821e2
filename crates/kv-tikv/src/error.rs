//! What errors of the client mean here: which of them are conflicts, which go away when a request is repeated.

use nagi_kv::Error;

use crate::calls::Count;

/// The meaning of an error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// Repeating the request may help; the reason is counted.
    Passing(Reason),
    /// The store has no space.
    Full,
    /// The request is too large for the store.
    TooLarge,
    /// Another transaction was first: certain, so nothing of this one was committed.
    Conflict,
    /// Anything else.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Reason {
    Connection,
    Region,
    Lock,
    Busy,
    Timeout,
}

impl Reason {
    pub(crate) fn count(self) -> Count {
        match self {
            Reason::Connection => Count::RetryConnection,
            Reason::Region => Count::RetryRegion,
            Reason::Lock => Count::RetryLock,
            Reason::Busy => Count::RetryBusy,
            Reason::Timeout => Count::RetryTimeout,
        }
    }
}

/// What a store says of a commit whose locks are not there any more.
const LOCK_GONE: &str = "lock not found";

/// What the client's error means.
pub(crate) fn kind(error: &tikv_client::Error) -> Kind {
    use tikv_client::Error as E;
    match error {
        // One of several keys decides: a conflict of any key is one of the transaction.
        E::ExtractedErrors(errors) | E::MultipleKeyErrors(errors) => {
            errors.iter().map(kind).max().unwrap_or(Kind::Other)
        }
        E::UndeterminedError(inner) | E::PessimisticLockError { inner, .. } => kind(inner),
        E::KeyError(key) => {
            let lost = key.conflict.is_some()
                || !key.retryable.is_empty()
                || key.commit_ts_expired.is_some()
                || key.already_exist.is_some();
            match () {
                () if lost => Kind::Conflict,
                () if key.locked.is_some() => Kind::Passing(Reason::Lock),
                () => Kind::Other,
            }
        }
        E::RegionError(region) if region.disk_full.is_some() => Kind::Full,
        E::RegionError(region) if region.raft_entry_too_large.is_some() => Kind::TooLarge,
        E::RegionError(region) if region.server_is_busy.is_some() => Kind::Passing(Reason::Busy),
        E::RegionError(_)
        | E::LeaderNotFound { .. }
        | E::RegionForKeyNotFound { .. }
        | E::RegionForRangeNotFound { .. }
        | E::RegionNotFoundInResponse { .. }
        | E::NoCurrentRegions
        | E::EntryNotFoundInRegionCache => Kind::Passing(Reason::Region),
        E::ResolveLockError(_) => Kind::Passing(Reason::Lock),
        // The client has made a text of it: another commit was first, and has rolled back what had waited for too long.
        E::StringError(text) if text.contains(LOCK_GONE) => Kind::Passing(Reason::Lock),
        // An internal error of the client is mostly a placement driver without a leader.
        E::Grpc(_)
        | E::GrpcAPI(_)
        | E::Channel(_)
        | E::Canceled(_)
        | E::Io(_)
        | E::InternalError { .. } => Kind::Passing(Reason::Connection),
        _ => Kind::Other,
    }
}

/// The engine's error for one of the client that is not repeated any more. Says what was tried, for the log.
pub(crate) fn failure(what: &str, error: &tikv_client::Error) -> Error {
    match kind(error) {
        Kind::Conflict => Error::Conflict,
        Kind::Full => Error::Full,
        Kind::TooLarge => Error::MemoryFull,
        Kind::Passing(_) => {
            Error::Unreachable(format!("{what} on TiKV failed: {}", shortened(error)))
        }
        Kind::Other => Error::other(format!("{what} on TiKV failed: {}", shortened(error))),
    }
}

/// The text of an error, without the keys and values that the client's texts contain: they are the users' data.
pub(crate) fn shortened(error: &tikv_client::Error) -> String {
    use tikv_client::Error as E;
    const CHARS_MAX: usize = 300;
    let text = match error {
        E::ExtractedErrors(errors) | E::MultipleKeyErrors(errors) => {
            return errors.first().map_or_else(|| "no cause".into(), shortened);
        }
        E::UndeterminedError(inner) | E::PessimisticLockError { inner, .. } => {
            return shortened(inner);
        }
        E::KeyError(_) => "a key was refused".into(),
        E::ResolveLockError(locks) => format!("{} keys are locked by other commits", locks.len()),
        E::RegionError(_) => "a region refused the request".into(),
        // What went wrong, such as the check of a certificate, is the cause of a "transport error".
        E::Grpc(error) => with_causes(error),
        E::RegionForKeyNotFound { .. } | E::RegionForRangeNotFound { .. } => {
            "no region has the keys".into()
        }
        // It begins with a place in the client's source, and may end with a list of the placement drivers.
        E::InternalError { message } => {
            let text = message.split_once("]: ").map_or(message.as_str(), |(_, text)| text);
            match text.split_once(" [Member") {
                Some((text, _)) => format!("{text} the placement drivers"),
                None => text.into(),
            }
        }
        other => other.to_string(),
    };
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The texts of an error and of its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = causes.take(8).map(ToString::to_string).collect();
    // Some repeat the text of their cause.
    texts.dedup();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tikv_client::Error as E;

    #[test]
    fn the_gravest_of_several_errors_decides() {
        let internal = || E::InternalError { message: "no leader".into() };
        assert_eq!(kind(&internal()), Kind::Passing(Reason::Connection));
        assert_eq!(kind(&E::ResolveLockError(vec![])), Kind::Passing(Reason::Lock));
        let gone = "Multiple key errors: [KeyError(KeyError { retryable: \"retryable: lock not found\" })]";
        let gone = E::ExtractedErrors(vec![E::StringError(gone.into())]);
        assert_eq!(kind(&gone), Kind::Passing(Reason::Lock));
        let both = E::ExtractedErrors(vec![internal(), E::Unimplemented]);
        assert_eq!(kind(&both), Kind::Other);
        assert!(Kind::Conflict > Kind::Passing(Reason::Timeout) && Kind::Conflict > Kind::Full);
    }

    /// A request that may be repeated later is not a defect.
    #[test]
    fn errors_that_pass_are_told_apart() {
        let unreachable = failure("a get", &E::InternalError { message: "no leader".into() });
        assert!(
            matches!(&unreachable, Error::Unreachable(text) if text.starts_with("a get on TiKV failed: "))
        );
        assert!(matches!(failure("a get", &E::Unimplemented), Error::Io(_)));
    }

    #[test]
    fn texts_have_no_keys() {
        let inner = E::RegionForKeyNotFound { key: b"secret".to_vec() };
        let error = E::ExtractedErrors(vec![E::UndeterminedError(Box::new(inner))]);
        assert_eq!(shortened(&error), "no region has the keys");
    }

    #[test]
    fn texts_have_no_sources() {
        let message =
            "[/home/x/client/src/pd/cluster.rs:332]: failed to connect to [Member { name: \"a\" }]"
                .into();
        assert_eq!(
            shortened(&E::InternalError { message }),
            "failed to connect to the placement drivers"
        );
    }

    #[test]
    fn long_texts_are_shortened() {
        let error = E::StringError("\u{e9}".repeat(1000));
        assert_eq!(shortened(&error).chars().count(), 303);
        assert!(matches!(failure("a get", &error), Error::Io(_)));
    }
}
