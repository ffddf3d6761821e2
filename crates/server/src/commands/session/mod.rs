//! Logical sessions.

mod end_sessions;
mod refresh_sessions;
mod start_session;

pub(super) use end_sessions::END_SESSIONS;
pub(super) use refresh_sessions::REFRESH_SESSIONS;
pub(super) use start_session::START_SESSION;
