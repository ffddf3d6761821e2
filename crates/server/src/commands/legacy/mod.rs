//! Commands of the drivers that still wrote with OP_INSERT.

mod get_last_error;
mod reset_error;

pub(super) use get_last_error::{GET_LAST_ERROR, GET_PREV_ERROR};
pub(super) use reset_error::RESET_ERROR;
