//! From a frame to its reply: framing and compression ([`handle`]), legacy opcodes ([`legacy`]), commands
//! ([`dispatch`], with its parts [`begin`], [`write_concern`], [`errors`] and [`accounting`]). Applications that
//! contain the database call commands without frames ([`direct`]).

mod accounting;
mod begin;
pub(crate) mod direct;
pub(crate) mod dispatch;
mod errors;
pub(crate) mod handle;
pub(crate) mod legacy;
pub(crate) mod legacy_names;
mod used_operators;
mod write_concern;
