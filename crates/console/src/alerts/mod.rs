//! Alerts: rules over the figures, and who is told when one begins or ends to hold.
//!
//! ```text
//!   file (a document) --> Alerts { rules, actions }          checked when the server starts
//!                             |
//!   sampler, each second --> Watch ---> log
//!                             |    \--> Teller --> one thread for each action: webhook or command
//!                          history, silences
//! ```
//!
//! Nothing here blocks the sampler: what an action cannot take is dropped, counted and logged.

mod action;
mod built_in;
mod condition;
mod event;
mod family;
mod file;
mod measure;
mod rule;
mod span;
mod teller;
mod watch;

pub(crate) use event::Event as AlertEvent;
pub use file::Alerts;
pub(crate) use teller::Teller;
pub(crate) use watch::{Known, SILENCE_SECS_MAX, Watch};
