//! Full-time diagnostic data capture: the format of MongoDB's files `diagnostic.data/metrics.*`.
//!
//! A server records a sample of its statistics each second. Samples are alike, so a *chunk* has the first one as a
//! document and of each further one only the differences of its numbers, column by column. A week of an idle server
//! is some megabytes.
//!
//! ```text
//!   sample 1      {a: 1, b: {c: 7}, s: "x"}      reference, with everything that is not a number
//!   sample 2      {a: 1, b: {c: 9}, s: "x"}  ->  columns a: 0 0   b.c: 2 0
//!   sample 3      {a: 1, b: {c: 9}, s: "x"}
//!   chunk         {_id: Date, type: 1, data: length | zlib(reference | columns | samples | varints, zeroes as runs)}
//! ```
//!
//! A sample with other numbers, by name, order or type, begins a new chunk. A text is that of the first sample: it may
//! differ in later ones, as in MongoDB.
//!
//! Invariants
//! - [`decode`] refuses what is malformed and never takes more memory than [`CHUNK_BYTES_MAX`] and
//!   [`VALUES_MAX`] allow: files may come from another machine.
//! - No clock, no files: `nagi-server` records, and rotates files.
//!
//! The format is public by its readers, such as the Go module `github.com/mongodb/ftdc`.

mod chunk;
mod decode;
mod metrics;
mod varint;

pub use chunk::{Added, Chunk, metadata_record};
pub use decode::{DecodeError, Decoded, decode};

/// Most differences that a chunk keeps in memory: 16 MiB.
const CHANGES_MAX: usize = 1 << 20;

/// Largest uncompressed chunk that is read.
pub const CHUNK_BYTES_MAX: usize = 64 << 20;

/// Most numbers of a chunk: columns times samples.
pub const VALUES_MAX: usize = 16 << 20;
