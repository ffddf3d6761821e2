//! Hypothetical indexes: what a command would do with indexes that do not exist.
//!
//! ```text
//!   collection -- sample.rs --> at most 10,000 documents --> nagi_store::Trial (memory, of its own)
//!   command  -- explain on the trial without the indexes --> counters --+
//!   command  -- explain on the trial with the indexes -----> counters --+-- estimate.rs --> figures for the collection
//! ```
//!
//! The commands are planned and run by the ordinary planner and explain, on a copy of some documents in memory. So any
//! index can be tried that could be built, the planner decides for or against it by its usual trial, and the figures
//! of both plans are measured on the same documents. The server's catalog and plan caches are not touched.
//!
//! What is surprising: figures of a sample are extrapolated stage by stage, because a scan that reads everything grows
//! with the collection and one that a limit stops does not (`estimate.rs`). A value that few documents have is perhaps
//! not in the sample; the estimate is then 0.
//!
//! Read more: docs/decisions/087, docs/advice.md.

mod estimate;
mod sample;
mod summary;

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, bail, err};
use nagi_store::{Collection, Namespace, Store, Trial};

pub use estimate::Estimate;
pub use sample::{Sample, SampleLimits, sample_documents};

use crate::{
    explain::{Explained, Verbosity, explain},
    source::Env,
};

/// Limit of the indexes that one command tries.
pub const INDEXES_MAX: usize = 8;
/// Limit of the copy's documents and keys, with the overhead of each entry. The request is charged for them as for all
/// other memory that its thread allocates.
const TRIAL_BYTES_MAX: usize = 128 << 20;

/// Indexes on trial, with a sample of their collection.
pub struct Hypothesis {
    trial: Trial,
    sample: Sample,
    /// The indexes that cannot be built, with the texts of the errors.
    refused: Vec<(String, String)>,
    /// The bytes that the collection's present indexes have, divided by those that the sample predicts for them.
    bytes_ratio: f64,
}

/// A plan on the sample.
pub struct Side {
    /// Its leaves, as the log of slow operations shows them.
    pub summary: String,
    /// The names of the indexes that it uses.
    pub used: Vec<String>,
    /// For the whole collection.
    pub estimate: Estimate,
    query_planner: DocBuf,
}

/// An index on trial.
pub struct TrialIndex {
    pub name: String,
    pub key: DocBuf,
    pub is_multikey: bool,
    /// Its expected size in the collection.
    pub expected_bytes: u64,
}

fn existing(store: &Store, namespace: &Namespace) -> Result<Arc<Collection>> {
    let found = store.collection(namespace);
    found.ok_or_else(|| err!(Code::NAMESPACE_NOT_FOUND, "collection {namespace} does not exist"))
}

impl Hypothesis {
    /// Copies a sample of the collection and its indexes into memory, and builds `specs` there. Costs the reads of
    /// at most 10,000 documents and a few seconds at most; `clock_ms` is any monotonic clock.
    ///
    /// # Errors
    /// 2 for no index or too many; 26 if there is no such collection; 115 or 166 for a kind of collection that has
    /// no plain documents; those of `createIndexes`; 146 if no document can be copied; those of the interrupt.
    pub fn new(
        store: &Arc<Store>,
        namespace: &Namespace,
        specs: &[Doc<'_>],
        env: &Env<'_>,
        clock_ms: &dyn Fn() -> i64,
    ) -> Result<Hypothesis> {
        if specs.is_empty() || specs.len() > INDEXES_MAX {
            bail!(
                Code::BAD_VALUE,
                "hypotheticalIndexes must have from 1 to {INDEXES_MAX} indexes, not {}",
                specs.len()
            );
        }
        let collection = existing(store, namespace)?;
        Hypothesis::on(store, &collection, (specs, false), env, clock_ms)
    }

    /// Like [`Hypothesis::new`], with those of `specs` that can be built: see [`Hypothesis::refused`].
    ///
    /// # Errors
    /// Those of [`Hypothesis::new`] that concern no single index.
    pub fn of_buildable(
        store: &Arc<Store>,
        namespace: &Namespace,
        specs: &[Doc<'_>],
        env: &Env<'_>,
        clock_ms: &dyn Fn() -> i64,
    ) -> Result<Hypothesis> {
        let collection = existing(store, namespace)?;
        let mut refused = Vec::new();
        let mut buildable = Vec::new();
        for spec in specs {
            match Trial::check(&collection, *spec) {
                Ok(()) => buildable.push(*spec),
                Err(error) => {
                    let name = spec.get("name").as_str().unwrap_or("").to_owned();
                    refused.push((name, error.message().to_owned()));
                }
            }
        }
        let mut made = Hypothesis::on(store, &collection, (&buildable, true), env, clock_ms)?;
        made.refused.append(&mut refused);
        Ok(made)
    }

    fn on(
        store: &Arc<Store>,
        collection: &Arc<Collection>,
        (specs, may_refuse): (&[Doc<'_>], bool),
        env: &Env<'_>,
        clock_ms: &dyn Fn() -> i64,
    ) -> Result<Hypothesis> {
        refuse(collection)?;
        let mut trial = Trial::new(collection, specs, TRIAL_BYTES_MAX)?;
        let sample = sample::copy((store, collection), (&mut trial, may_refuse), env, clock_ms)?;
        let bytes_ratio = bytes_ratio(store, collection, &trial, sample.factor())?;
        let own = |(name, error): &(Box<str>, String)| (name.to_string(), error.clone());
        let refused = trial.refused().iter().map(own).collect();
        Ok(Hypothesis { trial, sample, refused, bytes_ratio })
    }

    /// The indexes that cannot be built, with the texts of the errors: a document of the sample cannot be indexed, or
    /// the specification is wrong.
    pub fn refused(&self) -> &[(String, String)] {
        &self.refused
    }

    /// The documents that were copied.
    pub fn sample(&self) -> &Sample {
        &self.sample
    }

    /// The indexes on trial, in the order of their specifications.
    pub fn indexes(&self) -> Result<Vec<TrialIndex>> {
        let collection = self.trial.collection();
        let bytes = self.trial.index_bytes()?;
        let one = |name: &str| {
            let index = collection.index(name)?;
            let (_, sampled) = bytes.iter().find(|(own, _)| **own == *name)?;
            Some(TrialIndex {
                name: name.to_owned(),
                key: index.spec.key_pattern.clone(),
                is_multikey: index.is_multikey(),
                expected_bytes: (*sampled as f64 * self.sample.factor() * self.bytes_ratio) as u64,
            })
        };
        Ok(self.trial.names().iter().filter_map(|name| one(name)).collect())
    }

    /// Explains a command on the sample with those of the indexes for which `is_shown` returns true.
    ///
    /// # Errors
    /// Those of explaining and of running it; 20 if it reads the collection by no plan.
    pub fn side(
        &self,
        explained: &Explained<'_>,
        is_shown: &dyn Fn(&str) -> bool,
        env: &Env<'_>,
        clock_ms: &dyn Fn() -> i64,
    ) -> Result<Side> {
        self.trial.show(is_shown)?;
        let mut outcome = Ok(());
        let shown = DocBuf::build(|out| {
            let store = self.trial.store();
            outcome = explain(store, explained, Verbosity::ExecutionStats, env, clock_ms, out);
        });
        outcome?;
        let Some((planner, stats)) = summary::parts(shown.as_doc()) else {
            bail!(
                Code::ILLEGAL_OPERATION,
                "the command does not read the collection by a plan, so no index can be tried for it"
            );
        };
        if matches!(stats.get("executionSuccess"), Value::Bool(false)) {
            let code = nagi_bson::number::truncate_to_i64(stats.get("errorCode")).unwrap_or(0);
            let code = Code(i32::try_from(code).unwrap_or(Code::INTERNAL_ERROR.0));
            bail!(code, "{}", stats.get("errorMessage").as_str().unwrap_or("the command failed"));
        }
        let plan = planner.get("winningPlan").as_doc().unwrap_or(Doc::EMPTY);
        Ok(Side {
            summary: summary::of(plan),
            used: summary::indexes(plan),
            estimate: Estimate::of(stats, self.sample.factor()),
            query_planner: planner.to_buf(),
        })
    }
}

/// Explains a command as if the indexes `specs` existed: `explainVersion` and `queryPlanner` as in MongoDB's explain,
/// then `hypothetical` with both plans. With a higher verbosity than `queryPlanner` it has estimates, too.
///
/// # Errors
/// Those of [`Hypothesis::new`] and [`Hypothesis::side`].
pub fn explain_hypothetical(
    store: &Arc<Store>,
    explained: &Explained<'_>,
    specs: &[Doc<'_>],
    verbosity: Verbosity,
    (env, clock_ms): (&Env<'_>, &dyn Fn() -> i64),
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let hypothesis = Hypothesis::new(store, explained.namespace(), specs, env, clock_ms)?;
    // An error does not end the trial: a search of text has no plan without its index, nor has a hint at one that does
    // not exist.
    let present = hypothesis.side(explained, &|_| false, env, clock_ms);
    let with = hypothesis.side(explained, &|_| true, env, clock_ms)?;
    let indexes = hypothesis.indexes()?;
    let is_measured = verbosity > Verbosity::QueryPlanner;
    out.put("explainVersion", "1");
    out.put("queryPlanner", &with.query_planner);
    out.doc("hypothetical", |out| {
        out.array("indexes", |out| {
            for index in &indexes {
                out.doc(|out| {
                    index.write(out);
                    out.put("used", with.used.contains(&index.name));
                });
            }
        });
        hypothesis.sample.write(out);
        out.doc("present", |out| match &present {
            Ok(present) => present.write(true, is_measured, out),
            Err(error) => {
                out.put("code", error.code().0);
                out.put("errmsg", error.message());
            }
        });
        out.doc("withIndexes", |out| with.write(false, is_measured, out));
        if let (true, Ok(present)) = (is_measured, &present) {
            out.put("examinedRatio", with.estimate.gain_over(&present.estimate));
        }
    });
    Ok(())
}

impl TrialIndex {
    /// Writes its name, key, whether it is multikey and its size.
    pub fn write(&self, out: &mut DocWriter<'_>) {
        out.put("name", self.name.as_str());
        out.put("key", &self.key);
        out.put("isMultiKey", self.is_multikey);
        out.put("expectedSizeBytes", i64::try_from(self.expected_bytes).unwrap_or(i64::MAX));
    }
}

impl Side {
    fn write(&self, has_plan: bool, is_measured: bool, out: &mut DocWriter<'_>) {
        out.put("planSummary", self.summary.as_str());
        if has_plan {
            out.put("winningPlan", self.query_planner.get("winningPlan"));
        }
        if is_measured {
            out.doc("estimate", |out| self.estimate.write(out));
        }
    }
}

/// Refuses collections whose documents are not what a plan over them returns, and those that have no indexes of users.
fn refuse(collection: &Collection) -> Result<()> {
    let namespace = &collection.namespace;
    if collection.shows_series() || collection.options.timeseries.is_some() {
        bail!(
            Code::COMMAND_NOT_SUPPORTED,
            "hypothetical indexes cannot be tried on time series, and {namespace} is one"
        );
    }
    if let Some(view) = &collection.options.view {
        bail!(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "{namespace} is a view: hypothetical indexes are tried on the collection that it shows, {}",
            view.on
        );
    }
    if collection.options.encrypted_fields.is_some() {
        bail!(
            Code::COMMAND_NOT_SUPPORTED,
            "hypothetical indexes cannot be tried on {namespace}, which has encrypted fields"
        );
    }
    if namespace.is_system() && namespace.collection() != "system.js" || collection.is_change_log()
    {
        bail!(Code::INVALID_NAMESPACE, "cannot write to '{namespace}'");
    }
    Ok(())
}

/// How the engine's sizes of indexes compare with those that the sample predicts: tables are compressed, and by how
/// much is known only from the indexes that are there. 1 if there is none to compare.
fn bytes_ratio(store: &Store, collection: &Collection, trial: &Trial, factor: f64) -> Result<f64> {
    let there = store.stats(collection)?.index_bytes;
    let sampled = trial.index_bytes()?;
    let (mut own, mut predicted) = (0.0, 0.0);
    for (name, bytes) in &there {
        if let Some((_, sampled)) = sampled.iter().find(|(sampled, _)| sampled == name) {
            own += *bytes as f64;
            predicted += *sampled as f64 * factor;
        }
    }
    Ok(if own > 0.0 && predicted > 0.0 { own / predicted } else { 1.0 })
}
