//! Tidy tests: project rules that rustc and clippy cannot check.
//!
//!   manifests    which crate may use which; requirements of a new dependency
//!   sources      sizes, headers, banned words, unsafe, files outside the module tree
//!   logs         an id identifies one message
//!   tree         the content of the repository: no large binaries, documents present
//!   registries   row <-> file <-> golden case
//!   coverage     docs/coverage.md agrees with the tables
//!   doors        the calls that change data are made in few places
mod alloc;
mod coverage;
mod doors;
mod layers;
mod logs;
mod manifests;
mod names;
mod registries;
mod sources;
mod tree;
