//! Commands of replica sets, as a standalone answers them.

mod repl_set_get_status;

pub(super) use repl_set_get_status::REPL_SET_GET_STATUS;
