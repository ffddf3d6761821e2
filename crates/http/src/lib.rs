//! The client of the HTTP requests that the server makes itself: keys of identity providers, webhooks of alerts,
//! telemetry.

mod address;
mod client;
mod headers;

pub use address::is_address;
pub use client::{client, small_file};
pub use headers::may_be_set;
