//! Runs functions outside of a server: for tests and tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nagi_bson::{Doc, Value, ValueBuf};
use nagi_budget::Budget;
use nagi_error::Result;
use nagi_lang::script::{Emit, Function, Scripts};

use crate::{Engines, Interrupt, nothing_stored, release};

/// Above the numbers of a server's requests, so that engines are never confused.
static NEXT: AtomicU64 = AtomicU64::new(1 << 63);

/// Calls functions in one engine, on the thread that uses it, until it is dropped.
#[derive(Debug)]
pub struct Session {
    engines: Arc<Engines>,
    number: u64,
}

impl Session {
    /// A session with an engine of 64 MB, without interrupt checks.
    pub fn new() -> Session {
        const BYTES: usize = 64 << 20;
        let engines = Engines::new(Budget::new(16 * BYTES as u64), 1, BYTES);
        Session { engines, number: NEXT.fetch_add(1, Relaxed) }
    }
}

impl Default for Session {
    fn default() -> Session {
        Session::new()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        release();
    }
}

fn never() -> Interrupt {
    Arc::new(|| Ok(()))
}

impl Scripts for Session {
    fn call(
        &self,
        function: &Arc<Function>,
        this: Value<'_>,
        args: &[Value<'_>],
    ) -> Result<ValueBuf> {
        self.engines.call(self.number, &never, function, this, args)
    }

    fn test(&self, function: &Arc<Function>, doc: Doc<'_>) -> Result<bool> {
        self.engines.test(self.number, &never, &nothing_stored, function, doc)
    }

    fn map(&self, function: &Arc<Function>, doc: Doc<'_>, emit: Emit<'_>) -> Result<()> {
        self.engines.map(self.number, &never, &nothing_stored, function, doc, emit)
    }
}
