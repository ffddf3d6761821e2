//! Figures of a plan on the whole collection, from its counters on a sample.
//!
//! A stage that has read its input to the end would read more of a larger collection, and a stage that a limit has
//! stopped would not. So each stage has a growth of its own, at most `f`, the collection's documents for each one of
//! the sample:
//!
//! ```text
//!   f = 100                       growth    the sample       the collection
//!   LIMIT 10
//!     FETCH                       1         10 documents     10 documents       stopped by the limit
//!       IXSCAN                    1         10 keys          10 keys
//!
//!   LIMIT 10
//!     SORT 10                     1                                             10 of 7 matches: 10 at most
//!       COLLSCAN                  100       10,000           1,000,000          a sort reads all of its input
//!
//!   LIMIT 10
//!     COLLSCAN                    10 / 7    10,000           14,286             7 matches: about so many records
//!                                                                               until the tenth
//! ```
//!
//! The input is `executionStats` as explain writes it, so that estimates are based on the figures that users see.

use nagi_bson::{Doc, DocWriter, Value, number};

/// Figures of a run on the whole collection.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    pub returned: f64,
    pub keys_examined: f64,
    pub docs_examined: f64,
    /// It sorts in memory.
    pub sorts: bool,
    /// Documents or keys that go into such sorts.
    pub sorted: f64,
}

/// Stages whose own results are not those of the plan below them.
const COUNTING: &[&str] = &["COUNT", "UPDATE", "DELETE", "EXPRESS_UPDATE", "EXPRESS_DELETE"];

impl Estimate {
    /// `stats` is `executionStats` of a run on the sample, `factor` the collection's documents for each one of it.
    pub(super) fn of(stats: Doc<'_>, factor: f64) -> Estimate {
        let mut estimate = Estimate::default();
        let Some(mut top) = stats.get("executionStages").as_doc() else { return estimate };
        let growth = estimate.walk(top, factor, factor);
        while COUNTING.contains(&name(top)) {
            let Some(below) = top.get("inputStage").as_doc() else { break };
            top = below;
        }
        estimate.returned = figure(top, "nReturned") * growth;
        estimate
    }

    /// Keys and documents examined.
    pub fn examined(&self) -> f64 {
        self.keys_examined + self.docs_examined
    }

    /// How many times as much the plan `other` examines.
    pub fn gain_over(&self, other: &Estimate) -> f64 {
        let ratio = other.examined().max(1.0) / self.examined().max(1.0);
        (ratio * 100.0).round() / 100.0
    }

    /// Writes its figures, rounded.
    pub fn write(&self, out: &mut DocWriter<'_>) {
        out.put("nReturned", self.returned.round() as i64);
        out.put("totalKeysExamined", self.keys_examined.round() as i64);
        out.put("totalDocsExamined", self.docs_examined.round() as i64);
        out.put("sortsInMemory", self.sorts);
    }

    /// Adds the figures of a stage and those below it. `cap` is the growth that the stages above permit. Returns the
    /// growth of the stage's results.
    fn walk(&mut self, stage: Doc<'_>, cap: f64, factor: f64) -> f64 {
        let rows = figure(stage, "nReturned");
        let limit = number::as_f64(stage.get("limitAmount"));
        let until = limit.map_or(factor, |limit| match rows {
            // Nothing is known of when the limit would be reached.
            rows if rows < 1.0 => factor,
            rows => (limit / rows).clamp(1.0, factor),
        });
        let is_sort = name(stage) == "SORT";
        self.sorts |= is_sort;
        let below = if is_sort { factor } else { cap.min(until) };
        let mut of_inputs: Option<f64> = None;
        for input in inputs(stage) {
            let growth = self.walk(input, below, factor);
            if is_sort {
                self.sorted += figure(input, "nReturned") * growth;
            }
            of_inputs = Some(of_inputs.map_or(growth, |most| most.max(growth)));
        }
        let is_at_end = figure(stage, "isEOF") > 0.0;
        let growth = of_inputs.unwrap_or(if is_at_end { cap } else { 1.0 });
        self.keys_examined += figure(stage, "keysExamined") * growth;
        self.docs_examined += figure(stage, "docsExamined") * growth;
        growth.min(until)
    }
}

fn name<'d>(stage: Doc<'d>) -> &'d str {
    stage.get("stage").as_str().unwrap_or("")
}

fn figure(stage: Doc<'_>, name: &str) -> f64 {
    number::as_f64(stage.get(name)).unwrap_or(0.0)
}

/// The stages below one.
pub(super) fn inputs<'d>(stage: Doc<'d>) -> Vec<Doc<'d>> {
    let one = stage.get("inputStage").as_doc();
    let many = match stage.get("inputStages") {
        Value::Array(stages) => stages.iter().filter_map(|stage| stage.as_doc()).collect(),
        _ => Vec::new(),
    };
    one.into_iter().chain(many).collect()
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    #[track_caller]
    fn check(stages: &str, keys: f64, docs: f64, returned: f64) {
        let text = format!("{{executionStages: {stages}}}");
        let stats = json::parse(&text).unwrap();
        let got = Estimate::of(stats.as_doc(), 100.0);
        let figures = (got.keys_examined.round(), got.docs_examined.round(), got.returned.round());
        assert_eq!(figures, (keys, docs, returned), "{stages}");
    }

    #[test]
    fn what_a_limit_stops_does_not_grow() {
        let scan = "{stage: 'COLLSCAN', nReturned: 7, docsExamined: 10000, isEOF: 1}";
        check(scan, 0.0, 1_000_000.0, 700.0);
        let stopped = "{stage: 'COLLSCAN', nReturned: 10, docsExamined: 60, isEOF: 0}";
        check(
            &format!("{{stage: 'LIMIT', limitAmount: 10, nReturned: 10, inputStage: {stopped}}}"),
            0.0,
            60.0,
            10.0,
        );
        check(
            &format!("{{stage: 'LIMIT', limitAmount: 10, nReturned: 7, inputStage: {scan}}}"),
            0.0,
            14_286.0,
            10.0,
        );
        let none = "{stage: 'COLLSCAN', nReturned: 0, docsExamined: 10000, isEOF: 1}";
        check(
            &format!("{{stage: 'LIMIT', limitAmount: 10, nReturned: 0, inputStage: {none}}}"),
            0.0,
            1_000_000.0,
            0.0,
        );
    }

    #[test]
    fn a_sort_reads_all_of_its_input() {
        let scan = "{stage: 'COLLSCAN', nReturned: 500, docsExamined: 10000, isEOF: 1}";
        let sort = format!(
            "{{stage: 'SORT', limitAmount: 10, nReturned: 10, isEOF: 1, inputStage: {scan}}}"
        );
        check(&sort, 0.0, 1_000_000.0, 10.0);
        let stats = json::parse(&format!("{{executionStages: {sort}}}")).unwrap();
        assert_eq!(Estimate::of(stats.as_doc(), 100.0).sorted, 50_000.0);
        // The documents are fetched after the sort of their keys.
        let keys = "{stage: 'IXSCAN', nReturned: 500, keysExamined: 501, isEOF: 1}";
        let sort = format!("{{stage: 'SORT', limitAmount: 10, nReturned: 10, inputStage: {keys}}}");
        let fetch =
            format!("{{stage: 'FETCH', nReturned: 10, docsExamined: 10, inputStage: {sort}}}");
        check(&fetch, 50_100.0, 10.0, 10.0);
    }

    #[test]
    fn stages_above_the_plan() {
        let scan = "{stage: 'IXSCAN', nReturned: 3, keysExamined: 4, isEOF: 1}";
        let fetch =
            format!("{{stage: 'FETCH', nReturned: 3, docsExamined: 3, inputStage: {scan}}}");
        check(
            &format!("{{stage: 'DELETE', nReturned: 0, nWouldDelete: 3, inputStage: {fetch}}}"),
            400.0,
            300.0,
            300.0,
        );
        check(
            "{stage: 'EXPRESS_IXSCAN', keysExamined: 1, docsExamined: 1, nReturned: 1}",
            1.0,
            1.0,
            1.0,
        );
        let or = format!("{{stage: 'OR', nReturned: 6, inputStages: [{scan}, {scan}]}}");
        check(&or, 800.0, 0.0, 600.0);
    }
}
