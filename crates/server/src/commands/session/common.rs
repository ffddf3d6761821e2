//! The lists of sessions that commands take.

use crate::core::command::prelude::*;
use crate::session::{SessionId, parse_lsid};

/// The sessions that a list names; `field` is its name in errors. Who has the privilege `also` may name the sessions of
/// others.
///
/// # Errors
/// 13 for a session of another user, without the privilege.
pub(super) fn named(
    cx: &Context<'_>,
    list: Array<'_>,
    field: &str,
    also: Option<Action>,
) -> Result<Vec<SessionId>> {
    let asking = cx.asking();
    list.iter().map(|value| asking.session(&parse_lsid(value, field)?, also)).collect()
}
