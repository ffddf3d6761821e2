//! BSONColumn (binary subtype 7): the values of one field of many measurements, in MongoDB's format.
//!
//! ```text
//!   column       [ run ... | 0 ]
//!   literal      [ type | 0 | value ]                         a BSON element with an empty name
//!   differences  [ 1 s s s  n n n n | n + 1 words ]           Simple-8b words; sss is the scale of doubles
//!   interleaved  [ 0xF0, 0xF1, 0xF2 | reference document | runs of its leaves ... | 0 ]
//! ```
//!
//! A literal is a value. Differences follow it: each slot of the words is a value that is missing, or that differs from
//! the previous one by the slot's number. Dates, timestamps and ObjectIds store how much the difference itself changed,
//! which is zero for regular intervals. Numbers are signed by zig-zag. Strings and binary data of at most 16 bytes,
//! decimals and code are numbers of 128 bits. Of all other types only repetitions are stored as differences.
//!
//! A column may begin with differences: its first values are missing. Interleaved documents have the fields of the
//! reference document. Each of its leaves is a column of its own; where one of them has no slot left, the next run
//! is its continuation.
//!
//! [`Decoder`] reads columns, [`encode`] writes them. Columns from clients (a restored dump, an insert into a bucket
//! collection) are untrusted: the decoder checks each length and never allocates more than a value at a time.

mod decode;
mod encode;
mod interleave;
mod interleaved;
mod literal;
mod number;
mod stream;

pub use decode::Decoder;
pub use encode::{Encoder, encode};

/// The binary subtype of columns.
pub const SUBTYPE: u8 = 7;

/// The most columns of a bucket, and leaves of the reference documents of all of them: each has a state of some hundred
/// bytes, and takes only a few bytes of the bucket.
pub(crate) const LEAVES_MAX: usize = 200_000;

/// The most leaves that documents of one bucket are written with at a time: a reader may count those that end as well
/// as those that begin.
pub(crate) const WRITTEN_LEAVES_MAX: usize = LEAVES_MAX / 4;

/// The bits of a control byte that say how doubles are scaled, for each index of [`number::SCALES`]; the last one
/// means that their bits are the number. It is also that of all other types.
const SCALE_CONTROL: [u8; 6] = [0x90, 0xA0, 0xB0, 0xC0, 0xD0, 0x80];

/// The index of the scale that is none.
const UNSCALED: usize = 5;

/// The most words behind one control byte.
const WORDS_MAX: usize = 16;

/// Begins interleaved documents, of which arrays are leaves.
const INTERLEAVED_OBJECTS: u8 = 0xF0;

/// Begins interleaved documents whose arrays are interleaved too.
const INTERLEAVED: u8 = 0xF1;

/// Begins interleaved arrays.
const INTERLEAVED_ARRAY: u8 = 0xF2;
