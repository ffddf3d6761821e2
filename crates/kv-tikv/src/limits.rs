//! The sizes of stored keys and of heads.

/// The longest key of a user, except in indexes. The store refuses keys of more than 8 KiB in its own encoding, which
/// has 9 bytes for 8; those of pieces are encoded twice.
pub(crate) const KEY_BYTES_MAX: usize = 6 << 10;
/// The longest value that is in its head.
pub(crate) const INLINE_BYTES_MAX: usize = 64 << 10;
