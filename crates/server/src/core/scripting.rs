//! Functions in JavaScript for a request: which engines it may use, and what interrupts them.

use std::sync::Arc;

use nagi_bson::{Doc, Value, ValueBuf};
use nagi_error::{Code, Result, err};
use nagi_js::{Engines, Interrupt};
use nagi_lang::script::{Emit, Function, Scripts};
use nagi_store::Namespace;

use crate::core::command::Watch;

/// Engines that may run at once: each has a thread of a request, and megabytes.
pub(crate) const ENGINES_MAX: usize = 32;

impl Watch<'_> {
    fn engines(&self) -> Result<&Arc<Engines>> {
        let engines = self.server.and_then(|server| server.engines.as_ref());
        engines.ok_or_else(|| err!(Code::ILLEGAL_OPERATION, "JavaScript is switched off"))
    }

    /// What an engine of this request asks whether it shall continue; made once for each engine.
    fn interruption(&self) -> Interrupt {
        let (op, deadline) = (Arc::clone(self.op), self.deadline);
        Arc::new(move || crate::core::command::check(&op, deadline))
    }

    /// Shows the functions that are stored in the database of the request, the newest of each.
    fn stored(&self, each: &mut dyn FnMut(Doc<'_>) -> Result<()>) -> Result<()> {
        let Some(server) = self.server else { return Ok(()) };
        let namespace = self.op.namespace();
        let db = namespace.split('.').next().unwrap_or_default();
        let Ok(stored) = Namespace::new(db, "system.js") else { return Ok(()) };
        let Some(collection) = server.store.collection(&stored) else { return Ok(()) };
        let snapshot = server.store.snapshot()?;
        let mut cursor = snapshot.reader().scan(&collection, true)?;
        while cursor.advance()? {
            crate::core::command::check(self.op, self.deadline)?;
            each(cursor.doc())?;
        }
        Ok(())
    }
}

impl Scripts for Watch<'_> {
    fn call(
        &self,
        function: &Arc<Function>,
        this: Value<'_>,
        args: &[Value<'_>],
    ) -> Result<ValueBuf> {
        let interruption = || self.interruption();
        self.engines()?.call(self.op.id(), &interruption, function, this, args)
    }

    fn test(&self, function: &Arc<Function>, doc: Doc<'_>) -> Result<bool> {
        let interruption = || self.interruption();
        let stored = |each: &mut dyn FnMut(Doc<'_>) -> Result<()>| self.stored(each);
        self.engines()?.test(self.op.id(), &interruption, &stored, function, doc)
    }

    fn map(&self, function: &Arc<Function>, doc: Doc<'_>, emit: Emit<'_>) -> Result<()> {
        let interruption = || self.interruption();
        let stored = |each: &mut dyn FnMut(Doc<'_>) -> Result<()>| self.stored(each);
        self.engines()?.map(self.op.id(), &interruption, &stored, function, doc, emit)
    }
}
