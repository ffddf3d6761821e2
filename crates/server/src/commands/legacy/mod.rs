//! Commands for drivers that write with OP_INSERT, OP_UPDATE and OP_DELETE.

mod get_last_error;
mod reset_error;

pub(super) use get_last_error::{GET_LAST_ERROR, GET_PREV_ERROR};
pub(super) use reset_error::RESET_ERROR;
