//! From a frame to its reply: framing and compression ([`handle`]), legacy opcodes ([`legacy`]), commands
//! ([`dispatch`]). Applications that contain the database call commands without frames ([`direct`]).

pub(crate) mod direct;
pub(crate) mod dispatch;
pub(crate) mod handle;
pub(crate) mod legacy;
pub(crate) mod legacy_names;
mod used_operators;
