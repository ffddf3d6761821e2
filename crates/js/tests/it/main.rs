//! Scripts and their results: conversion in both directions, the prelude, errors, limits.

mod calls;
mod limits;
mod types;

use std::sync::Arc;

use nagi_bson::{DocBuf, Value, ValueBuf};
use nagi_budget::Budget;
use nagi_error::Result;
use nagi_js::{Engines, Interrupt, nothing_stored};
use nagi_lang::script::Function;

/// Runs each call as a separate request.
struct Bench {
    engines: Arc<Engines>,
    interrupt: Interrupt,
}

impl Bench {
    fn new(heap_bytes: usize) -> Bench {
        Bench::within(&Budget::new(1 << 30), heap_bytes)
    }

    fn within(budget: &Arc<Budget>, heap_bytes: usize) -> Bench {
        let engines = Engines::new(budget.clone(), 2, heap_bytes);
        Bench { engines, interrupt: Arc::new(|| Ok(())) }
    }

    fn call(&self, text: &str, args: &[Value<'_>]) -> Result<ValueBuf> {
        let interrupt = || self.interrupt.clone();
        let function = Function::new(text);
        let result = self.engines.call(1, &interrupt, &function, Value::Missing, args);
        nagi_js::release();
        result
    }

    fn test(&self, text: &str, doc: &DocBuf) -> Result<bool> {
        let interrupt = || self.interrupt.clone();
        let function = Function::new(text);
        let result = self.engines.test(1, &interrupt, &nothing_stored, &function, doc.as_doc());
        nagi_js::release();
        result
    }
}

/// Parses a document from extended JSON.
fn doc(json: &str) -> DocBuf {
    nagi_bson::json::parse(json).expect("valid")
}

/// The result of a function as extended JSON, or the code and the message of the error.
fn shown(result: Result<ValueBuf>) -> String {
    match result {
        Ok(value) => value.value().to_string(),
        Err(error) => format!("{} {}", error.code().0, error.message()),
    }
}

fn eval(text: &str, args: &[Value<'_>]) -> String {
    shown(Bench::new(64 << 20).call(text, args))
}
