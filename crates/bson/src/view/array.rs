//! A borrowed array: a document whose names are ignored.

use crate::{Elements, Value};

/// An array. Equality is equality of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Array<'a>(&'a [u8]);

impl<'a> Array<'a> {
    /// The empty array.
    pub const EMPTY: Array<'static> = Array(&[5, 0, 0, 0, 0]);

    /// The offset of the first element.
    pub const FIRST_OFFSET: usize = 4;

    /// Takes bytes that have already been validated.
    pub fn trusted(bytes: &'a [u8]) -> Array<'a> {
        debug_assert!(bytes.len() < 5 || crate::view::raw::int32(bytes, 0) as usize == bytes.len());
        if bytes.len() < 5 { Array::EMPTY } else { Array(bytes) }
    }

    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    pub const fn is_empty(&self) -> bool {
        self.0.len() <= 5
    }

    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + Clone + use<'a> {
        self.elements().map(|e| e.value())
    }

    /// The elements with their stored names ("0", "1", ... in arrays that a driver wrote).
    pub fn elements(&self) -> Elements<'a> {
        Elements::new(self.0)
    }

    /// The elements from an offset on, which [`Elements::offset`] returned for the same bytes.
    pub fn elements_from(&self, offset: usize) -> Elements<'a> {
        Elements::from_offset(self.0, offset)
    }

    /// The value at `index`, or `Missing`. The cost is linear in `index`.
    pub fn get(&self, index: usize) -> Value<'a> {
        self.elements().nth(index).map_or(Value::Missing, |e| e.value())
    }

    /// The number of elements. The cost is linear.
    pub fn count(&self) -> usize {
        self.elements().count()
    }
}
