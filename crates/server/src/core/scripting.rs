//! Runs the JavaScript functions of a request: selects the engines and supplies the interrupt check and the stored
//! functions.

use std::sync::Arc;

use nagi_bson::{Doc, Value, ValueBuf};
use nagi_error::{Code, Result, err};
use nagi_js::{Engines, Interrupt};
use nagi_lang::script::{Emit, Function, Scripts};
use nagi_store::Namespace;

use crate::core::command::Watch;

/// The maximum number of engines that run at once: each uses the thread of a request and several megabytes.
pub(crate) const ENGINES_MAX: usize = 32;

impl Watch<'_> {
    fn engines(&self) -> Result<&Arc<Engines>> {
        let engines = self.server.and_then(|server| server.engines.as_ref());
        engines.ok_or_else(|| err!(Code::ILLEGAL_OPERATION, "JavaScript is switched off"))
    }

    /// The interrupt check of an engine; it is made once for each engine.
    fn interruption(&self) -> Interrupt {
        let (op, deadline) = (Arc::clone(self.op), self.deadline);
        Arc::new(move || crate::core::command::check(&op, deadline))
    }

    /// Passes the functions stored in `system.js` of the statement's database to `each`, as of a new snapshot.
    fn stored(&self, each: &mut dyn FnMut(Doc<'_>) -> Result<()>) -> Result<()> {
        let Some(server) = self.server else { return Ok(()) };
        let namespace = self.op.current_namespace();
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
