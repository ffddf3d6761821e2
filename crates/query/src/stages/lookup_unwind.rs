//! `$lookup` combined with the `$unwind` of its array: joined documents are passed on one by one.
//!
//! The rule `rewrite/unwind_joined.rs` creates it. No array is built, so the size limit of one document's joined
//! documents does not apply.

use std::sync::Arc;

use nagi_bson::{Array, ValueBuf};
use nagi_lang::expr::Vars;

use super::{Touch, lookup::Lookup, lookup_run::Running, prelude::*, unwind::Unwind};
use crate::source::{SourceStats, document, metadata, serialize, sum_stats};

/// See the module's header.
pub(super) struct LookupUnwind {
    lookup: Arc<Lookup>,
    by: Arc<Unwind>,
}

impl LookupUnwind {
    pub(super) fn boxed(lookup: &Arc<Lookup>, by: &Arc<Unwind>) -> Arc<dyn Stage> {
        Arc::new(LookupUnwind { lookup: Arc::clone(lookup), by: Arc::clone(by) })
    }
}

impl Stage for LookupUnwind {
    fn touches(&self, out: &mut Vec<Touch>) {
        self.lookup.inner.touches(out);
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Unwound {
            joined: Running::new(input, &self.lookup),
            by: Arc::clone(&self.by),
            held: Vec::new(),
            lets: Vec::new(),
            rest: Rest::None,
            index: 0,
            out: Vec::new(),
            scratch: Vec::new(),
        })
    }

    fn changes(&self) -> Option<Vec<String>> {
        Some(self.by.changes())
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc("$lookup", |out| {
            for element in self.lookup.text.as_doc() {
                out.put(element.name(), element.value());
            }
            out.doc("unwinding", |out| {
                out.put("preserveNullAndEmptyArrays", self.by.preserve);
                self.by.show_options(out);
            });
        });
    }
}

/// The source of the next joined document of the current input document.
enum Rest {
    None,
    /// Position in the batch's array.
    Array(usize),
    Source(Box<dyn Source>),
}

struct Unwound {
    joined: Running,
    by: Arc<Unwind>,
    /// The current input document with its metadata, and the values of the variables for it.
    held: Vec<u8>,
    lets: Vec<ValueBuf>,
    rest: Rest,
    index: i64,
    out: Vec<u8>,
    scratch: Vec<u8>,
}

/// Calls `run` with the variables of the current input document in scope.
fn within<T>(
    lets: &[ValueBuf],
    cx: &mut Cx<'_>,
    run: impl FnOnce(&mut Cx<'_>) -> Result<T>,
) -> Result<T> {
    let values: Vec<Value<'_>> =
        cx.vars.lets.iter().copied().chain(lets.iter().map(ValueBuf::value)).collect();
    let vars = Vars { lets: &values, ..cx.vars.clone() };
    run(&mut Cx { store: cx.store, reader: cx.reader, vars: &vars, env: cx.env })
}

impl Unwound {
    /// Passes on the next joined document of the current input document. Returns false if there is none.
    fn next_joined(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        let index = Value::Int64(self.index);
        let out = (&mut self.out, &mut self.scratch);
        let doc = document(&self.held);
        let found = match &mut self.rest {
            Rest::None => false,
            Rest::Array(at) => {
                let mut rest = Array::trusted(&self.joined.found).elements_from(*at);
                let element = rest.next();
                *at = rest.offset();
                if let Some(element) = &element {
                    self.by.write(doc, Some(element.value()), index, out);
                }
                element.is_some()
            }
            Rest::Source(source) => {
                let more = within(&self.lets, cx, |cx| source.advance(cx))?;
                match more {
                    true => self.by.write(doc, Some(Value::Doc(source.doc())), index, out),
                    false => sum_stats(&mut **source, &mut self.joined.examined),
                }
                more
            }
        };
        self.index += 1;
        if !found {
            self.rest = Rest::None;
        }
        Ok(found)
    }

    /// Moves to the next input document. Returns false at the end.
    fn next_document(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.joined.next(cx)? {
            return Ok(false);
        }
        self.index = 0;
        self.held.clear();
        match &self.joined.batch {
            Some(batch) => batch.serialize(&mut self.held),
            None => serialize(&*self.joined.input, &mut self.held),
        }
        self.rest = match self.joined.find_joined(cx)? {
            true => Rest::Array(Array::FIRST_OFFSET),
            false => {
                self.lets = self.joined.let_values(cx)?;
                let joined = &mut self.joined;
                Rest::Source(within(&self.lets, cx, |cx| joined.open_found(cx))?)
            }
        };
        Ok(true)
    }
}

impl Source for Unwound {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        loop {
            cx.tick()?;
            if self.next_joined(cx)? {
                return Ok(true);
            }
            if !self.next_document(cx)? {
                return Ok(false);
            }
            if self.next_joined(cx)? {
                return Ok(true);
            }
            if self.by.preserve {
                let out = (&mut self.out, &mut self.scratch);
                self.by.write(document(&self.held), Some(Value::Missing), Value::Null, out);
                return Ok(true);
            }
        }
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn meta(&self) -> Doc<'_> {
        metadata(&self.held)
    }

    fn save(&mut self) {
        self.joined.save();
        if let Rest::Source(source) = &mut self.rest {
            source.save();
        }
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.joined.restore(cx)?;
        match &mut self.rest {
            Rest::Source(source) => within(&self.lets, cx, |cx| source.restore(cx)),
            _ => Ok(()),
        }
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.joined.input)
    }

    fn stats(&self) -> SourceStats {
        self.joined.stats()
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        self.joined.show_run(out);
    }
}
