//! The web console and `/metrics`: what an operator looks at in a browser, and what a monitoring system reads.
//!
//! ```text
//!   browser --HTTP--> http (guard) -> routes -> sessions -> Server::run_command     as any client would
//!                        |              |
//!                      assets        history <- sampler (each second) -> alerts -> log, webhooks, programs
//!                        |              |
//!                      stream <----- events
//! ```
//!
//! Without sockets only the sampler runs, for the alerts. The HTTP server runs on one thread; requests run on further
//! ones, because commands block: so many for commands, for logins and for everything else, so that commands that take
//! long prevent neither logins nor reading the figures.
//! Everything has a limit: connections, sizes and times of requests, sizes of replies, sessions, samples.
//!
//! Invariants
//! - A client has the rights of its database user; the console has none of its own, except to read `serverStatus`.
//! - No request of a page of another origin is answered (see `guard`).

mod activity;
mod alerts;
mod answer;
mod asked;
mod assets;
mod causes;
mod client;
mod console;
mod event;
mod exported;
mod figures;
mod framing;
mod growth;
mod guard;
mod history;
mod http;
mod latencies;
mod login;
mod login_turn;
mod machine;
mod open_metrics;
mod patience;
mod pauses;
mod places;
mod refusal;
mod routes;
mod sample;
mod sampler;
mod sessions;
mod stalls;
mod state;
mod stream;
mod streams;
mod visitors;
mod watched;

pub use alerts::Alerts;
pub use console::{Console, Setup};
pub use exported::{Figures, Histogram, Measured};
pub use guard::Names;
pub use state::{About, Doctor};
