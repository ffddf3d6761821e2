//! OpenTelemetry: sends traces and metrics to a collector by OTLP over HTTP, in protobuf.
//!
//! ```text
//!   Server::take_spans --> traces  \                         /v1/traces
//!                                   > protobuf --> send --> collector
//!   console's figures ---> metrics /                         /v1/metrics
//! ```
//!
//! Everything happens on one thread ([`Exporter`]). A collector that does not answer is logged once; the next attempts
//! are further and further apart, and what could not be sent is counted and forgotten.
//!
//! Invariants
//! - A request never waits for the collector.
//! - Memory is bounded: the server's queue of spans, and one message.
//! - Values of documents and queries are never sent.

mod exporter;
mod metrics;
mod options;
mod protobuf;
mod resource;
mod send;
mod traces;

pub use exporter::Exporter;
pub use options::{OtlpOptions, parse_headers};
