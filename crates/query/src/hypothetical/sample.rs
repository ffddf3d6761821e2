//! The documents that a hypothetical index is tried on.
//!
//! A small collection is copied whole. Of a larger one records are picked at random, if their numbers are dense enough
//! to draw them; otherwise each record of a scan is taken with the same probability. All is bounded: documents, bytes
//! and time, and the memory of the copy with its keys. At each bound the sample ends with what it has. Picks that end
//! early are still random; a scan that ends early has seen only the beginning, and says so.

use std::sync::Arc;

use nagi_bson::DocBuf;
use nagi_error::{Code, Result, bail};
use nagi_lang::expr::{LetVars, Vars};
use nagi_store::{Collection, Copied, Store, Trial};

use crate::{
    plan::can_pick,
    source::{Cx, Env, Pick, Random, Source},
};

/// What a sample may have, and how long reading it may take.
#[derive(Debug, Clone, Copy)]
pub struct SampleLimits {
    pub documents: u64,
    pub bytes: u64,
    pub millis: i64,
}

/// The limits for trials of indexes.
const TRIAL: SampleLimits = SampleLimits { documents: 10_000, bytes: 16 << 20, millis: 5_000 };

/// What is known of the copied documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub documents: u64,
    /// The documents of the collection.
    pub of: u64,
    pub bytes: u64,
    /// Documents that were chosen but have too many keys to be copied.
    pub left_out: u64,
    pub method: Method,
    /// The time that reading and copying took.
    pub millis: i64,
}

/// How documents were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// All documents.
    All,
    /// Picked at random.
    Random,
    /// Each document with the same probability, in a scan.
    Scan,
    /// The same, but the time ended before the scan: later documents had no chance.
    Beginning,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::All => "all",
            Method::Random => "random",
            Method::Scan => "scan",
            Method::Beginning => "beginning",
        }
    }
}

impl Sample {
    /// The collection's documents for each one of the sample; at least 1.
    pub fn factor(&self) -> f64 {
        match self.documents {
            0 => 1.0,
            documents => (self.of as f64 / documents as f64).max(1.0),
        }
    }

    /// Writes it as the field `sample`.
    pub fn write(&self, out: &mut nagi_bson::DocWriter<'_>) {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        out.doc("sample", |out| {
            out.put("documents", signed(self.documents));
            out.put("ofDocuments", signed(self.of));
            out.put("bytes", signed(self.bytes));
            if self.left_out > 0 {
                out.put("leftOut", signed(self.left_out));
            }
            out.put("method", self.method.name());
            out.put("millis", self.millis);
        });
    }
}

/// Copies a sample of the collection into `trial`, which may refuse indexes if `may_refuse`.
pub(super) fn copy(
    (store, collection): (&Arc<Store>, &Arc<Collection>),
    (trial, may_refuse): (&mut Trial, bool),
    env: &Env<'_>,
    clock_ms: &dyn Fn() -> i64,
) -> Result<Sample> {
    // The keys are first in the transaction, then in the engine.
    let go_on = |bytes: usize| {
        env.interrupt().check()?;
        env.check_memory(2 * bytes)
    };
    let mut take = |doc: DocBuf| trial.insert(doc.as_doc(), may_refuse, &go_on);
    let sample = read(store, collection, (TRIAL, env, clock_ms), &mut take)?;
    if sample.documents == 0 && sample.left_out > 0 {
        bail!(
            Code::EXCEEDED_MEMORY_LIMIT,
            "the documents of {} have too many keys in these indexes to be copied for a trial",
            collection.namespace
        );
    }
    Ok(sample)
}

/// Documents of a collection, chosen as for a trial.
///
/// # Errors
/// Those of reading; 146 without memory.
pub fn sample_documents(
    store: &Arc<Store>,
    collection: &Arc<Collection>,
    limits: SampleLimits,
    (env, clock_ms): (&Env<'_>, &dyn Fn() -> i64),
) -> Result<(Vec<DocBuf>, Sample)> {
    let mut docs = Vec::new();
    let mut take = |doc| {
        docs.push(doc);
        Ok(Copied::Yes)
    };
    let sample = read(store, collection, (limits, env, clock_ms), &mut take)?;
    Ok((docs, sample))
}

/// Passes a sample to `take`.
fn read(
    store: &Arc<Store>,
    collection: &Arc<Collection>,
    (limits, env, clock_ms): (SampleLimits, &Env<'_>, &dyn Fn() -> i64),
    take: &mut dyn FnMut(DocBuf) -> Result<Copied>,
) -> Result<Sample> {
    let started = clock_ms();
    let snapshot = store.snapshot()?;
    let lets = LetVars::default();
    let values = lets.values();
    let vars = Vars::with_system(&values, env.system()).with_pace(env);
    let mut cx = Cx { store, reader: snapshot.reader(), vars: &vars, env };
    let all = u64::try_from(collection.count()).unwrap_or(0);
    let mean = collection.mean_bytes().max(1) as u64;
    let wanted = limits.documents.min(limits.bytes / mean).max(1);
    let is_late = || clock_ms() - started > limits.millis;
    let mut taken = Taken {
        limits,
        is_late: &is_late,
        take,
        documents: 0,
        bytes: 0,
        left_out: 0,
        bytes_left_out: 0,
        is_ended: false,
    };
    let method = if all > wanted.saturating_mul(2) && can_pick(collection, all, &cx)? {
        pick(collection, wanted, &mut taken, &mut cx)?;
        Method::Random
    } else {
        scan(collection, (wanted, all), &mut taken, &mut cx)?
    };
    Ok(Sample {
        documents: taken.documents,
        of: all.max(taken.documents),
        bytes: taken.bytes,
        left_out: taken.left_out,
        method,
        millis: clock_ms() - started,
    })
}

fn pick(
    collection: &Arc<Collection>,
    wanted: u64,
    taken: &mut Taken<'_>,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let mut source = Pick::new(Arc::clone(collection), wanted);
    while !taken.is_full() && source.advance(cx)? {
        taken.add(source.doc().to_buf(), cx)?;
    }
    Ok(())
}

/// Takes each document with the probability `wanted / all`.
fn scan(
    collection: &Collection,
    (wanted, all): (u64, u64),
    taken: &mut Taken<'_>,
    cx: &mut Cx<'_>,
) -> Result<Method> {
    let is_whole = all <= wanted;
    let mut random = Random::new();
    let mut cursor = cx.reader.scan(collection, true)?;
    let mut read = 0_u64;
    while cursor.advance()? {
        cx.tick()?;
        read += 1;
        if taken.is_full() || read.is_multiple_of(64) && (taken.is_late)() {
            return Ok(Method::Beginning);
        }
        if is_whole || random.below(all) < wanted {
            taken.add(cursor.doc().to_buf(), cx)?;
        }
    }
    Ok(if is_whole { Method::All } else { Method::Scan })
}

/// The documents taken so far.
struct Taken<'t> {
    limits: SampleLimits,
    is_late: &'t dyn Fn() -> bool,
    take: &'t mut dyn FnMut(DocBuf) -> Result<Copied>,
    documents: u64,
    bytes: u64,
    left_out: u64,
    bytes_left_out: u64,
    /// The copy is full, or the time is over.
    is_ended: bool,
}

impl Taken<'_> {
    fn add(&mut self, doc: DocBuf, cx: &Cx<'_>) -> Result<()> {
        cx.examined_doc();
        cx.weigh(doc.as_doc().as_bytes())?;
        let bytes = doc.as_doc().len() as u64;
        match (self.take)(doc)? {
            Copied::Yes => {
                self.documents += 1;
                self.bytes += bytes;
            }
            Copied::TooLarge => {
                self.left_out += 1;
                self.bytes_left_out += bytes;
            }
            Copied::Full => self.is_ended = true,
        }
        // A document may have thousands of keys.
        self.is_ended |= (self.is_late)();
        Ok(())
    }

    /// True at twice the limits: a sample whose size is left to chance is a little larger at times, and documents may
    /// be inserted after they were counted.
    fn is_full(&self) -> bool {
        self.is_ended
            || self.documents + self.left_out >= 2 * self.limits.documents
            || self.bytes + self.bytes_left_out >= 2 * self.limits.bytes
    }
}
