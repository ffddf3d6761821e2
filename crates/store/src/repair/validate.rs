//! The full check of a collection: records against index keys against counters, documents against the validator,
//! buckets of a time series against their measurements.
//!
//! Runs on one snapshot. First every record is read: each of its keys must be in its index. Then the entries of
//! every index are counted: if there are as many entries as the records have keys, no entry is superfluous. So all
//! records are read once, and each index once by key and once by scan. Indexes that are being built are skipped;
//! indexes dropped during the validation are ignored.

use std::sync::Arc;

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_kv::Space;

use crate::{
    Collection, Index, RecordId, RecordKey, Snapshot, Store,
    engine_error::engine,
    index::keygen::KeySink,
    record,
    store::{change_log::LogReader, txn::fill_sink},
};

/// Upper limit of listed errors.
const ERROR_COUNT_MAX: usize = 100;
/// Upper limit of log messages of each kind.
const LOGGED_MAX: i64 = 20;
/// Records or keys between interrupt checks: a record may have many keys, each costing a `get`.
const ASK_EACH: i64 = 32;

/// How far a validation is: it scans the records, then the entries of all indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidateStep {
    /// The name of the scan.
    pub name: &'static str,
    /// Records, or entries.
    pub done: i64,
    /// At least `done`. For entries, the number of keys that the records have.
    pub total: i64,
}

/// Is told how far a validation is; an error ends it.
type Watch<'w> = &'w dyn Fn(ValidateStep) -> Result<()>;

/// One scan as it goes on.
#[derive(Clone, Copy)]
struct Scan<'w> {
    step: ValidateStep,
    watch: Watch<'w>,
}

impl<'w> Scan<'w> {
    fn new(name: &'static str, total: i64, watch: Watch<'w>) -> Scan<'w> {
        Scan { step: ValidateStep { name, done: 0, total: total.max(0) }, watch }
    }

    /// One record or entry more.
    fn step(&mut self) -> Result<()> {
        self.step.done += 1;
        self.step.total = self.step.total.max(self.step.done);
        if self.step.done % ASK_EACH == 0 { self.ask() } else { Ok(()) }
    }

    fn ask(&self) -> Result<()> {
        (self.watch)(self.step)
    }
}

/// Reads the change log, as far as it is not trimmed meanwhile.
fn check_log(
    shown: &Collection,
    snapshot: &Snapshot,
    scan: &mut Scan<'_>,
    report: &mut ValidateReport,
) -> Result<()> {
    let mut log = LogReader::open(snapshot.reader().read, true, &shown.state)?;
    while log.skip()? {
        report.record_count += 1;
        report.data_bytes += log.entry_bytes();
        scan.step()?;
    }
    Ok(())
}

/// The result of `validate`.
#[derive(Clone, Debug, Default)]
pub struct ValidateReport {
    pub record_count: i64,
    pub data_bytes: i64,
    /// Name and number of keys of each index.
    pub index_keys: Vec<(Box<str>, i64)>,
    /// Number of records that are not valid BSON.
    pub invalid_count: i64,
    /// The amount by which the counters are too high.
    pub count_off: i64,
    pub bytes_off: i64,
    /// Names of the indexes that are inconsistent with the records.
    pub wrong_indexes: Vec<Box<str>>,
    /// Documents with a duplicate field name in one object; counted only on request.
    pub non_compliant_count: i64,
    /// Documents that do not match the validator of the collection, or have plain values in encrypted fields.
    pub invalid_by_schema: i64,
    /// Buckets of a time series that are not as they should be, and those of them for which queries fail or may return
    /// something else than their measurements.
    pub faulty_buckets: i64,
    pub wrong_buckets: i64,
    /// Records stored under another `_id` than their own.
    pub misplaced_count: i64,
    /// Index and record of each missing key.
    pub missing_entries: Vec<(Box<str>, RecordId)>,
    /// Records that are not valid BSON.
    pub corrupt_records: Vec<RecordId>,
    /// Error texts; empty if the collection is valid.
    pub errors: Vec<String>,
}

impl ValidateReport {
    fn wrong_index(&mut self, name: &str, text: String) {
        if !self.wrong_indexes.iter().any(|wrong| &**wrong == name) {
            self.wrong_indexes.push(name.into());
        }
        self.error(text);
    }

    fn missing_entry(&mut self, name: &str, id: RecordKey<'_>) {
        if self.missing_entries.len() < ERROR_COUNT_MAX {
            self.missing_entries.push((name.into(), id.to_id()));
        }
    }

    fn corrupt(&mut self, id: RecordKey<'_>) {
        if self.corrupt_records.len() < ERROR_COUNT_MAX {
            self.corrupt_records.push(id.to_id());
        }
    }

    fn error(&mut self, text: String) {
        if self.errors.len() < ERROR_COUNT_MAX {
            self.errors.push(text);
        }
    }
}

impl Store {
    /// Reads everything and compares records, index keys and counters. Does not block other operations.
    pub fn validate(&self, collection: &Collection) -> Result<ValidateReport> {
        self.validate_with(collection, false, &|_| Ok(()))
    }

    /// Like [`Store::validate`]. `conformance`: also counts duplicate field names. `watch` is called regularly; an
    /// error from it ends the validation.
    pub fn validate_with(
        &self,
        collection: &Collection,
        conformance: bool,
        watch: &dyn Fn(ValidateStep) -> Result<()>,
    ) -> Result<ValidateReport> {
        let mut indexes: Vec<_> = collection.ready_indexes().collect();
        loop {
            let report = self.validate_indexes(collection, &indexes, conformance, watch)?;
            if report.errors.is_empty() {
                return Ok(report);
            }
            let Some(current) = self.newest(collection) else {
                bail!(Code::QUERY_PLAN_KILLED, "collection dropped. UUID {}", collection.uuid);
            };
            // Parts of an index that was dropped during the validation may be gone: this is not an error.
            let count = indexes.len();
            indexes.retain(|index| current.indexes.iter().any(|i| i.ident == index.ident));
            if indexes.len() == count {
                return Ok(report);
            }
        }
    }

    fn validate_indexes(
        &self,
        collection: &Collection,
        indexes: &[&Arc<Index>],
        conformance: bool,
        watch: &dyn Fn(ValidateStep) -> Result<()>,
    ) -> Result<ValidateReport> {
        let snapshot = self.snapshot()?;
        let mut report = ValidateReport::default();
        let mut expected: Vec<_> = indexes.iter().map(|index| (&***index, 0i64)).collect();
        let mut scan = Scan::new("Validate: scanning records", collection.count(), watch);
        match collection.is_change_log() {
            true => check_log(collection, &snapshot, &mut scan, &mut report)?,
            false => {
                let how = (conformance, scan);
                self.check_records(collection, &snapshot, how, &mut expected, &mut report)?;
            }
        }
        let own = expected.iter().filter(|(index, _)| !index.is_of_records());
        let total = own.map(|(_, keys)| keys).sum();
        let mut scan = Scan::new("Validate: scanning index entries", total, watch);
        for (index, expected) in expected {
            if index.is_of_records() {
                // Each record is its own entry and has been checked.
                report.index_keys.push((index.name().into(), report.record_count));
                continue;
            }
            let mut cursor = snapshot.reader().index_cursor(index, true, &[], &[])?;
            let mut count = 0;
            while cursor.advance()? {
                count += 1;
                scan.step()?;
            }
            if count != expected {
                report.wrong_index(
                    index.name(),
                    format!(
                        "index '{}' has {count} entries, the records have {expected} keys",
                        index.name()
                    ),
                );
            }
            report.index_keys.push((index.name().into(), count));
        }
        let mut buf = Vec::new();
        let stored =
            snapshot.reader().read.get(Space::Counters, &collection.ident.bytes(), &mut buf);
        let stored = stored.map_err(engine)?.unwrap_or(&[]).as_chunks().0;
        let counter = |at: usize| stored.get(at).map_or(0, |bytes| i64::from_le_bytes(*bytes));
        let (count, bytes) = (counter(0), counter(1));
        if (count, bytes) != (report.record_count, report.data_bytes) {
            report.count_off = count - report.record_count;
            report.bytes_off = bytes - report.data_bytes;
            report.error(format!(
                "the counters state {count} records of {bytes} bytes, the collection has {} \
                 records of {} bytes",
                report.record_count, report.data_bytes
            ));
        }
        Ok(report)
    }

    fn check_records(
        &self,
        collection: &Collection,
        snapshot: &Snapshot,
        (conformance, mut scan): (bool, Scan<'_>),
        expected: &mut [(&Index, i64)],
        report: &mut ValidateReport,
    ) -> Result<()> {
        let ident = collection.ident;
        let cursor = snapshot.reader().read.cursor(collection.space, &ident.bytes(), &ident.end());
        let mut cursor = cursor.map_err(engine)?;
        let mut found = cursor.seek(&ident.bytes()).map_err(engine)?;
        let (mut sink, mut spare) = (KeySink::default(), Vec::new());
        while found {
            let id = collection.layout.of_stored(cursor.key());
            report.record_count += 1;
            scan.step()?;
            let bytes = record::decode_bytes(cursor.value(), &mut spare);
            report.data_bytes += bytes.as_ref().map_or(0, |bytes| bytes.len() as i64);
            let doc = bytes.and_then(|bytes| Ok(Doc::parse(bytes)?));
            if let Err(error) = &doc {
                report.invalid_count += 1;
                report.corrupt(id);
                report.error(format!("record {id} is not valid BSON: {error}"));
            }
            if let Ok(doc) = doc {
                check_content(collection, (id, doc), &scan, report)?;
                if conformance && has_name_twice(doc) {
                    report.non_compliant_count += 1;
                }
                for (index, expected) in expected.iter_mut() {
                    check_keys(index, snapshot, id, doc, &mut sink, report)?;
                    *expected += sink.len() as i64;
                }
            }
            found = cursor.next().map_err(engine)?;
        }
        Ok(())
    }
}

/// Checks a document against the validator, and a bucket against what it says of itself.
fn check_content(
    collection: &Collection,
    (id, doc): (RecordKey<'_>, Doc<'_>),
    scan: &Scan<'_>,
    report: &mut ValidateReport,
) -> Result<()> {
    let namespace = collection.namespace.as_str();
    if !collection.is_valid_now(doc) {
        report.invalid_by_schema += 1;
        if report.invalid_by_schema <= LOGGED_MAX {
            log::warn!(target: "STORAGE", id = 5_363_500, namespace = namespace, record:% = id;
                "Document is not compliant with the collection's schema");
        }
    }
    let Some(options) = &collection.options.timeseries else { return Ok(()) };
    let collated = collection.options.collation.is_some();
    let mut measurements = 0;
    let pass = &mut || {
        measurements += 1;
        if measurements % ASK_EACH == 0 { scan.ask() } else { Ok(()) }
    };
    let Some(fault) = nagi_timeseries::bucket::check(doc, options, collated, pass)? else {
        return Ok(());
    };
    report.faulty_buckets += 1;
    report.wrong_buckets += i64::from(fault.is_error);
    if report.faulty_buckets <= LOGGED_MAX {
        log::warn!(target: "STORAGE", id = 6_698_300, namespace = namespace, record:% = id,
            reason = fault.text.as_str();
            "Document is not compliant with time-series specifications");
    }
    Ok(())
}

/// Returns true if an object of the document, at any depth, has a duplicate field name.
fn has_name_twice(doc: Doc<'_>) -> bool {
    let mut names: Vec<&str> = doc.iter().map(|element| element.name()).collect();
    names.sort_unstable();
    let inner = |value: Value<'_>| match value {
        Value::Doc(doc) => has_name_twice(doc),
        Value::Array(items) => items.iter().any(|item| item.as_doc().is_some_and(has_name_twice)),
        _ => false,
    };
    !names.is_sorted_by(|a, b| a < b) || doc.iter().any(|element| inner(element.value()))
}

fn check_keys(
    index: &Index,
    snapshot: &Snapshot,
    id: RecordKey<'_>,
    doc: Doc<'_>,
    sink: &mut KeySink,
    report: &mut ValidateReport,
) -> Result<()> {
    fill_sink(index, doc, sink)?;
    if index.is_of_records() {
        if !sink.iter().all(|(key, _)| id == RecordKey::Key(key)) {
            report.misplaced_count += 1;
            let name = index.name();
            let text = format!(
                "index '{name}': record {id} is stored under the _id of another \
                                document"
            );
            report.wrong_index(name, text);
        }
        return Ok(());
    }
    let mut buf = Vec::new();
    let mut value = Vec::new();
    for (key, bits) in sink.iter() {
        let mut full = [&index.ident.bytes(), key].concat();
        value.clear();
        match index.keyed_alone {
            true => id.append_head(&mut value),
            false => id.append_tail(&mut full),
        }
        value.extend_from_slice(bits);
        match snapshot.reader().read.get(Space::Index, &full, &mut buf).map_err(engine)? {
            Some(entry) if *entry == value => {}
            Some(_) => report.wrong_index(
                index.name(),
                format!(
                    "index '{}': the entry of record {id} has another record or type",
                    index.name()
                ),
            ),
            None => {
                report.missing_entry(index.name(), id);
                report.wrong_index(
                    index.name(),
                    format!("index '{}': record {id} has no entry", index.name()),
                );
            }
        }
    }
    Ok(())
}
