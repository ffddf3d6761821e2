//! What the executions of one kind of query have in common: counts, sums, extremes.

use nagi_bson::{Decimal128, DocWriter, Value};

use crate::settings::query_settings::ShapeHash;

/// One execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The time of all batches, and of the first one.
    pub(crate) micros: u64,
    pub(crate) first_micros: u64,
    /// The time without waits for tickets and locks.
    pub(crate) working_micros: u64,
    pub(crate) returned: u64,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    pub(crate) has_sort_stage: bool,
    pub(crate) used_disk: bool,
    pub(crate) from_multi_planner: bool,
    pub(crate) from_plan_cache: bool,
}

impl Observed {
    /// Adds a later batch.
    pub(super) fn add(&mut self, batch: &Observed) {
        self.micros += batch.micros;
        self.working_micros += batch.working_micros;
        self.returned += batch.returned;
        self.keys_examined += batch.keys_examined;
        self.docs_examined += batch.docs_examined;
        self.has_sort_stage |= batch.has_sort_stage;
        self.used_disk |= batch.used_disk;
        self.from_multi_planner |= batch.from_multi_planner;
        self.from_plan_cache |= batch.from_plan_cache;
    }
}

/// Sum, extremes and sum of squares of a number.
#[derive(Debug, Clone, Copy)]
struct Figure {
    sum: u64,
    max: u64,
    min: u64,
    squares: u128,
}

impl Figure {
    const NONE: Figure = Figure { sum: 0, max: 0, min: u64::MAX, squares: 0 };

    fn add(&mut self, n: u64) {
        self.sum = self.sum.saturating_add(n);
        self.max = self.max.max(n);
        self.min = self.min.min(n);
        self.squares = self.squares.saturating_add(u128::from(n).pow(2));
    }

    fn write(&self, name: &str, out: &mut DocWriter<'_>) {
        let long = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let squares = Decimal128::parse(&self.squares.to_string());
        out.doc(name, |out| {
            out.put("sum", long(self.sum));
            out.put("max", long(self.max));
            out.put("min", long(self.min));
            let squares = squares.unwrap_or(Decimal128::from_i64(i64::MAX));
            out.put("sumOfSquares", Value::Decimal128(squares));
        });
    }
}

/// How many executions had a property, and how many had not.
#[derive(Debug, Clone, Copy, Default)]
struct Flag {
    yes: u64,
    no: u64,
}

impl Flag {
    fn add(&mut self, holds: bool) {
        *(if holds { &mut self.yes } else { &mut self.no }) += 1;
    }

    fn write(self, name: &str, out: &mut DocWriter<'_>) {
        out.doc(name, |out| {
            out.put("true", self.yes as i64);
            out.put("false", self.no as i64);
        });
    }
}

/// The statistics of one key.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) shape_hash: ShapeHash,
    /// The place in the order of uses.
    pub(super) used: u64,
    count: u64,
    last_micros: u64,
    total: Figure,
    first: Figure,
    working_ms: Figure,
    returned: Figure,
    keys: Figure,
    docs: Figure,
    sorted: Flag,
    used_disk: Flag,
    multi_planned: Flag,
    cached_plan: Flag,
    first_seen_ms: i64,
    latest_seen_ms: i64,
}

impl Entry {
    pub(super) fn new(shape_hash: ShapeHash, observed: &Observed, now_ms: i64) -> Entry {
        let mut entry = Entry {
            shape_hash,
            used: 0,
            count: 0,
            last_micros: 0,
            total: Figure::NONE,
            first: Figure::NONE,
            working_ms: Figure::NONE,
            returned: Figure::NONE,
            keys: Figure::NONE,
            docs: Figure::NONE,
            sorted: Flag::default(),
            used_disk: Flag::default(),
            multi_planned: Flag::default(),
            cached_plan: Flag::default(),
            first_seen_ms: now_ms,
            latest_seen_ms: now_ms,
        };
        entry.add(observed, now_ms);
        entry
    }

    /// Adds an execution.
    pub(super) fn add(&mut self, one: &Observed, now_ms: i64) {
        self.count += 1;
        self.last_micros = one.micros;
        self.latest_seen_ms = now_ms;
        self.total.add(one.micros);
        self.first.add(one.first_micros);
        self.working_ms.add(one.working_micros / 1000);
        self.returned.add(one.returned);
        self.keys.add(one.keys_examined);
        self.docs.add(one.docs_examined);
        self.sorted.add(one.has_sort_stage);
        self.used_disk.add(one.used_disk);
        self.multi_planned.add(one.from_multi_planner);
        self.cached_plan.add(one.from_plan_cache);
    }

    #[cfg(test)]
    pub(super) fn executions(&self) -> u64 {
        self.count
    }

    /// Writes `metrics`.
    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        out.put("lastExecutionMicros", i64::try_from(self.last_micros).unwrap_or(i64::MAX));
        out.put("execCount", self.count as i64);
        self.total.write("totalExecMicros", out);
        self.first.write("firstResponseExecMicros", out);
        self.returned.write("docsReturned", out);
        self.keys.write("keysExamined", out);
        self.docs.write("docsExamined", out);
        self.working_ms.write("workingTimeMillis", out);
        self.sorted.write("hasSortStage", out);
        self.used_disk.write("usedDisk", out);
        self.multi_planned.write("fromMultiPlanner", out);
        self.cached_plan.write("fromPlanCache", out);
        out.put("firstSeenTimestamp", Value::DateTime(self.first_seen_ms));
        out.put("latestSeenTimestamp", Value::DateTime(self.latest_seen_ms));
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, json};

    use super::*;

    #[test]
    fn executions_are_summed() {
        let one =
            |micros, has_sort_stage| Observed { micros, has_sort_stage, ..Observed::default() };
        let mut entry = Entry::new(ShapeHash::of_bytes(b""), &one(u64::MAX, true), 5);
        entry.add(&one(3, false), 7);
        let doc = DocBuf::build(|out| entry.write(out));
        let text = json::to_relaxed(doc.as_doc());
        for part in [
            r#""lastExecutionMicros":3,"execCount":2,"#,
            r#""max":9223372036854775807,"min":3,"sumOfSquares":{"$numberDecimal":"3.402823669209384634"#,
            r#""hasSortStage":{"true":1,"false":1}"#,
            r#""usedDisk":{"true":0,"false":2}"#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
