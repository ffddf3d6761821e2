//! `explain`.
use super::aggregate::Args;
use crate::command::prelude::*;
pub(super) fn explain_aggregate(
    _: &mut Context<'_>,
    _: &Request<'_>,
    _: &Args<'_>,
    _: &mut DocWriter<'_>,
) -> Result<()> {
    bail!(Code::NOT_IMPLEMENTED, "explain is not there yet")
}
