//! Wraps the script engine of a `mapReduce`: it counts the calls for the reply, and defines the global
//! variables of `scope` before the first call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use nagi_bson::{Array, Doc, Value, ValueBuf};
use nagi_error::Result;
use nagi_lang::script::{Emit, Function, Scripts};
use nagi_query::Interrupt;

use crate::core::command::Watch;

/// A script engine that counts its calls.
#[derive(Debug)]
pub(super) struct Counting<'w> {
    watch: &'w Watch<'w>,
    /// An empty function whose scope holds the global variables.
    scope: Arc<Function>,
    /// True if the engine has the global variables.
    is_prepared: AtomicBool,
    input: AtomicU64,
    emit: AtomicU64,
    reduce: AtomicU64,
}

impl<'w> Counting<'w> {
    pub(super) fn new(watch: &'w Watch<'w>, scope: Doc<'_>) -> Counting<'w> {
        Counting {
            watch,
            scope: Function::with_scope("function() {}", scope),
            is_prepared: AtomicBool::new(scope.is_empty()),
            input: AtomicU64::new(0),
            emit: AtomicU64::new(0),
            reduce: AtomicU64::new(0),
        }
    }

    /// The counts of the reply: documents mapped, calls of `emit`, calls of the reduce function.
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.input, &self.emit, &self.reduce].map(|count| count.load(Relaxed))
    }

    /// Defines the global variables in the engine, once.
    fn prepare(&self) -> Result<()> {
        if !self.is_prepared.swap(true, Relaxed) {
            self.watch.call(&self.scope, Value::Missing, &[])?;
        }
        Ok(())
    }
}

impl Interrupt for Counting<'_> {
    fn check(&self) -> Result<()> {
        self.watch.check()
    }

    fn planned(&self, summary: &dyn Fn(&mut String)) {
        self.watch.planned(summary);
    }

    fn examined(&self, keys: u64, docs: u64) {
        self.watch.examined(keys, docs);
    }

    fn yielded(&self, conflict: bool) {
        self.watch.yielded(conflict);
    }

    fn between_groups(&self) -> Result<()> {
        self.watch.between_groups()
    }

    fn wants_stages(&self) -> bool {
        self.watch.wants_stages()
    }

    fn records_ahead_max(&self) -> usize {
        self.watch.records_ahead_max()
    }

    fn scripts(&self) -> Option<&dyn Scripts> {
        self.watch.scripts().map(|_| self as &dyn Scripts)
    }
}

impl Scripts for Counting<'_> {
    fn call(
        &self,
        function: &Arc<Function>,
        this: Value<'_>,
        args: &[Value<'_>],
    ) -> Result<ValueBuf> {
        self.prepare()?;
        self.watch.call(function, this, args)
    }

    fn reduce(
        &self,
        function: &Arc<Function>,
        key: Value<'_>,
        values: Array<'_>,
    ) -> Result<ValueBuf> {
        self.prepare()?;
        let reduced = self.watch.reduce(function, key, values)?;
        self.reduce.fetch_add(1, Relaxed);
        Ok(reduced)
    }

    fn test(&self, function: &Arc<Function>, doc: Doc<'_>) -> Result<bool> {
        self.prepare()?;
        self.watch.test(function, doc)
    }

    fn map(&self, function: &Arc<Function>, doc: Doc<'_>, emit: Emit<'_>) -> Result<()> {
        self.prepare()?;
        self.input.fetch_add(1, Relaxed);
        self.watch.map(function, doc, &mut |key, value| {
            self.emit.fetch_add(1, Relaxed);
            emit(key, value)
        })
    }
}
