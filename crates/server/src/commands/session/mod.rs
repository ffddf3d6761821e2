//! Commands on logical sessions and their transactions.

mod commit_transaction;
mod common;
mod end_sessions;
mod kill_sessions;
mod refresh_sessions;
mod start_session;

pub(super) use commit_transaction::{ABORT_TRANSACTION, COMMIT_TRANSACTION};
pub(super) use end_sessions::END_SESSIONS;
pub(super) use kill_sessions::{
    KILL_ALL_SESSIONS, KILL_ALL_SESSIONS_BY_PATTERN, KILL_SESSIONS, answer as end_told_sessions,
};
pub(super) use refresh_sessions::REFRESH_SESSIONS;
pub(super) use start_session::START_SESSION;
