//! What converters need of a context: the symbols of the prelude, its factory, and where the documents
//! of the running call came from.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use nagi_bson::{Doc, Value, ValueBuf};
use rquickjs::{Ctx, Function, Persistent, Symbol};

use crate::pace::Pace;

/// The prelude's results, for one use of the context.
pub(crate) struct Host<'js> {
    /// Under this a value of a BSON type has its kind.
    pub(crate) kind: rquickjs::Value<'js>,
    /// Under this it has its content.
    pub(crate) content: rquickjs::Value<'js>,
    /// Under this a converted document has its number in [`Originals`].
    pub(crate) origin: rquickjs::Value<'js>,
    /// `make(kind, a, b)`.
    pub(crate) make: Function<'js>,
}

/// A [`Host`] between two uses.
#[derive(Clone)]
pub(crate) struct SavedHost {
    pub(crate) kind: Persistent<Symbol<'static>>,
    pub(crate) content: Persistent<Symbol<'static>>,
    pub(crate) origin: Persistent<Symbol<'static>>,
    pub(crate) make: Persistent<Function<'static>>,
}

impl SavedHost {
    pub(crate) fn restore<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Host<'js>> {
        Ok(Host {
            kind: self.kind.clone().restore(ctx)?.into_value(),
            content: self.content.clone().restore(ctx)?.into_value(),
            origin: self.origin.clone().restore(ctx)?.into_value(),
            make: self.make.clone().restore(ctx)?,
        })
    }
}

/// The documents that were converted for the running call, so that a number that came from an int32
/// field goes back as one. A document's number stays in its object; that of an earlier call is not
/// known any more.
#[derive(Default)]
pub(crate) struct Originals {
    first: i32,
    bytes: Vec<u8>,
    docs: Vec<(usize, usize)>,
}

impl Originals {
    /// Forgets all; those that come next get new numbers.
    pub(crate) fn clear(&mut self) {
        self.first = self.first.wrapping_add(self.docs.len() as i32) & i32::MAX;
        self.docs.clear();
        self.bytes.clear();
    }

    /// Copies an argument; gives where it begins.
    pub(crate) fn hold(&mut self, root: Doc<'_>) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(root.as_bytes());
        at
    }

    /// Numbers a document that lies at `at` of what is held.
    pub(crate) fn number(&mut self, at: usize, len: usize) -> i32 {
        self.docs.push((at, len));
        self.first.wrapping_add(self.docs.len() as i32 - 1) & i32::MAX
    }

    /// The document with this number.
    pub(crate) fn get(&self, number: i32) -> Option<Doc<'_>> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let (at, len) = *self.docs.get(at)?;
        Some(Doc::trusted(self.bytes.get(at..at + len)?))
    }
}

/// What `emit` was given in the running call.
#[derive(Default)]
pub(crate) struct Emitted {
    pub(crate) pairs: Vec<(ValueBuf, ValueBuf)>,
    pub(crate) bytes: usize,
    /// Only `map` functions may emit.
    pub(crate) open: bool,
}

/// What an engine's native functions share with it.
pub(crate) struct Shared {
    pub(crate) host: RefCell<Option<SavedHost>>,
    pub(crate) originals: RefCell<Originals>,
    pub(crate) emitted: RefCell<Emitted>,
    pub(crate) pace: Rc<Pace>,
    /// Values converted to BSON.
    pub(crate) steps: Cell<u32>,
}

/// The value of a field without the document's other fields: an int32 that `number` still equals.
pub(crate) fn was_int(original: Value<'_>, number: f64) -> Option<i32> {
    match original {
        Value::Int32(n) if f64::from(n) == number && (n != 0 || number.is_sign_positive()) => {
            Some(n)
        }
        _ => None,
    }
}
