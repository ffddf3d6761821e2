//! Indexes: what they are (spec), which keys a document has in them (kinds), what is known of them.

mod hashed;
pub(crate) mod keygen;
mod spec;

use std::sync::Arc;

pub use spec::{IndexKind, IndexSpec, KeyPart};

use crate::ident::Ident;

/// One index of a collection. Never changes, but for the multikey paths, which only grow.
#[derive(Debug)]
pub struct Index {
    /// Key pattern and options.
    pub spec: IndexSpec,
    /// False while it is being built: writers keep it, plans must not use it.
    pub ready: bool,
    pub(crate) ident: Ident,
    pub(crate) multikey: Arc<Multikey>,
}

/// For each field of the key pattern a bit set of the path components that are arrays in some
/// document: bit 0 is the first component. Bits are only ever set.
#[derive(Debug)]
pub(crate) struct Multikey(pub(crate) Box<[std::sync::atomic::AtomicU64]>);

impl Index {
    /// Whether some document has more than one key, or might have had.
    ///
    /// Ask after the reader was taken: a bit is set before the commit that needs it becomes visible.
    pub fn is_multikey(&self) -> bool {
        (0..self.multikey.0.len()).any(|field| self.multikey_components(field) != 0)
    }

    /// The components of field `field`'s path that are arrays in some document; bit 0 is the first.
    pub fn multikey_components(&self, field: usize) -> u64 {
        self.multikey.0[field].load(std::sync::atomic::Ordering::Acquire)
    }

    /// Name, as in `listIndexes`.
    pub fn name(&self) -> &str {
        &self.spec.name
    }
}
