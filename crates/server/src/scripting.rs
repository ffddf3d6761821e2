//! Functions in JavaScript for a request: which engines it may use, and what interrupts them.

use std::sync::Arc;

use nagi_bson::{Doc, Value, ValueBuf};
use nagi_error::{Code, Result, err};
use nagi_js::{Engines, Interrupt};
use nagi_lang::script::{Emit, Function, Scripts};

use crate::command::Watch;

/// Engines that may run at once: each has a thread of a request, and megabytes.
pub(crate) const ENGINES_MAX: usize = 32;

impl Watch<'_> {
    fn engines(&self) -> Result<&Arc<Engines>> {
        self.engines.ok_or_else(|| err!(Code::ILLEGAL_OPERATION, "JavaScript is switched off"))
    }

    /// What an engine of this request asks whether it shall go on; made once for each engine.
    fn interruption(&self) -> Interrupt {
        let (op, deadline) = (Arc::clone(self.op), self.deadline);
        Arc::new(move || crate::command::check(&op, deadline))
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
        self.engines()?.test(self.op.id(), &interruption, function, doc)
    }

    fn map(&self, function: &Arc<Function>, doc: Doc<'_>, emit: Emit<'_>) -> Result<()> {
        let interruption = || self.interruption();
        self.engines()?.map(self.op.id(), &interruption, function, doc, emit)
    }
}
