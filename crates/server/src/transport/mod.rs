//! From a frame to its reply: OP_MSG, the legacy opcodes, dispatch.

pub(crate) mod dispatch;
pub(crate) mod handle;
pub(crate) mod legacy;
pub(crate) mod legacy_names;
