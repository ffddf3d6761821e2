//! The client of the HTTP requests that the server makes itself: keys of identity providers, webhooks of alerts,
//! telemetry.

mod client;

pub use client::{client, small_file};
