//! Tidy: the house rules that neither rustc nor clippy knows, as tests.
//!
//!   manifests    which crate may use which; what a new dependency needs
//!   sources      sizes, headers, banned words, unsafe, files outside the module tree
//!   logs         one id is one message
//!   tree         what lies in the repository: no large binaries, documents present
//!   catalogues   row <-> file <-> golden case
//!   coverage     docs/coverage.md says what the tables say
//!   doors        what changes data is called in few places
mod alloc;
mod catalogues;
mod coverage;
mod doors;
mod layers;
mod logs;
mod manifests;
mod names;
mod sources;
mod tree;
