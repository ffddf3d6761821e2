//! Queryable Encryption: collections whose clients encrypt fields, and query them by tags.
//!
//! ```text
//!   information   the argument `encryptionInformation` of a command
//!   state         reads the state collection ESC: how many tags of a value are in use
//!   convert       writes: insert payloads become stored values with tags, and documents in the state collections
//!   filter        queries: find payloads in filters become conditions on tags; `expression`, `pipeline`: elsewhere
//!   compact       replaces documents of the state collections by anchors
//! ```
//!
//! The formats are described in `nagi_lang::encrypted`. The server never has a key. What a query or write reveals are
//! the tokens in its payloads; they are not stored, except encrypted by the client in the state collection ECOC.
//!
//! # Invariants
//! - The positions of a value, from the last anchor's on, are complete: each write adds the next one, in the
//!   transaction of the document. Two writers of the same position have a write conflict, and one of them retries.
//! - The compaction deletes positions only after the anchor that replaces them was committed.
//! - `__safeContent__` has exactly the tags in the stored values of its document.

mod compact;
mod condition;
mod convert;
mod expression;
mod filter;
mod information;
mod pipeline;
mod state;
mod tags;

pub use compact::{Compacted, Compaction, FieldTokens, RunTransaction, compact};
pub use information::{Encryption, EncryptionOptions};
pub(crate) use tags::has_secrets;
pub use tags::{Rewritten, Searched};

/// The limit of the memory of tags in a query: the default of `internalQueryFLERewriteMemoryLimit`.
const TAGS_BYTES_MAX: usize = 14 << 20;
