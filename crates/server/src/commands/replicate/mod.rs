//! Commands of replica sets, as a standalone answers them.

mod repl_set_get_config;
mod repl_set_get_status;
mod repl_set_initiate;

pub(super) use repl_set_get_config::REPL_SET_GET_CONFIG;
pub(super) use repl_set_get_status::REPL_SET_GET_STATUS;
pub(super) use repl_set_initiate::REPL_SET_INITIATE;
