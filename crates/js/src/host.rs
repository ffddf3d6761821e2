//! State of a context for the converters: the symbols and the factory of the prelude, and the original documents of the
//! running call.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use nagi_bson::{Doc, Value, ValueBuf};
use rquickjs::{Ctx, Function, Persistent, Symbol};

use crate::pace::Pace;

/// The results of the prelude, valid for one use of the context.
pub(crate) struct Host<'js> {
    /// The symbol property that has the kind of a BSON value.
    pub(crate) kind: rquickjs::Value<'js>,
    /// The symbol property that has its content.
    pub(crate) content: rquickjs::Value<'js>,
    /// The symbol property that has the number of a converted document in [`Originals`].
    pub(crate) origin: rquickjs::Value<'js>,
    /// The factory `make(kind, a, b)`.
    pub(crate) make: Function<'js>,
}

/// A [`Host`] saved between two uses of the context.
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

/// The documents that were converted for the running call, so that an unchanged number from an int32 field becomes an
/// int32 again. Each converted object has the number of its document as a property. Numbers of earlier calls are
/// invalid.
#[derive(Default)]
pub(crate) struct Originals {
    first: i32,
    bytes: Vec<u8>,
    docs: Vec<(usize, usize)>,
}

impl Originals {
    /// Forgets all documents; later documents get new numbers.
    pub(crate) fn clear(&mut self) {
        self.first = self.first.wrapping_add(self.docs.len() as i32) & i32::MAX;
        self.docs.clear();
        self.bytes.clear();
    }

    /// Copies an argument and returns the start of the copy.
    pub(crate) fn hold(&mut self, root: Doc<'_>) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(root.as_bytes());
        at
    }

    /// Assigns a number to a document at `at` of the copied bytes.
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

/// The pairs that the running call has emitted.
#[derive(Default)]
pub(crate) struct Emitted {
    pub(crate) pairs: Vec<(ValueBuf, ValueBuf)>,
    pub(crate) bytes: usize,
    /// True while a `map` function runs; only these may emit.
    pub(crate) open: bool,
}

/// State shared by an engine and its native functions.
pub(crate) struct Shared {
    pub(crate) host: RefCell<Option<SavedHost>>,
    pub(crate) originals: RefCell<Originals>,
    pub(crate) emitted: RefCell<Emitted>,
    pub(crate) pace: Rc<Pace>,
    /// The number of values converted to BSON.
    pub(crate) steps: Cell<u32>,
}

/// Returns the original int32 if `number` still equals it.
pub(crate) fn was_int(original: Value<'_>, number: f64) -> Option<i32> {
    match original {
        Value::Int32(n) if f64::from(n) == number && (n != 0 || number.is_sign_positive()) => {
            Some(n)
        }
        _ => None,
    }
}
