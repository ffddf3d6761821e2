//! Writes by their write concern: `opWriteConcernCounters`.
//!
//! They are counted only on servers that were started with the parameter
//! `reportOpWriteConcernCountersInServerStatus`: a lock is enough.

use std::collections::BTreeMap;

use nagi_bson::DocWriter;
use parking_lot::Mutex;

/// Names of modes that are counted one by one; a client may name any number.
const TAG_COUNT_MAX: usize = 100;

/// Statements of a request that were tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) inserts: u64,
    pub(crate) updates: u64,
    pub(crate) deletes: u64,
}

/// What a write waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nodes<'a> {
    Majority,
    Count(i64),
    /// A mode of the set's configuration.
    Mode(&'a str),
}

/// Counts by the number of members that a write waits for.
#[derive(Default)]
struct ByNodes {
    majority: u64,
    numbers: BTreeMap<i64, u64>,
    tags: BTreeMap<String, u64>,
}

impl ByNodes {
    fn add(&mut self, nodes: Nodes<'_>, count: u64) {
        match nodes {
            Nodes::Majority => self.majority += count,
            // Numbers above 50 were refused.
            Nodes::Count(nodes) => *self.numbers.entry(nodes).or_default() += count,
            // It is to become the name of a field.
            Nodes::Mode(tag) if tag.contains('\0') => {}
            Nodes::Mode(tag) => {
                if let Some(known) = self.tags.get_mut(tag) {
                    *known += count;
                } else if self.tags.len() < TAG_COUNT_MAX {
                    self.tags.insert(tag.to_owned(), count);
                }
            }
        }
    }

    fn write(&self, out: &mut DocWriter<'_>) {
        out.put("wmajority", self.majority as i64);
        out.doc("wnum", |out| {
            for (nodes, count) in &self.numbers {
                out.put(&nodes.to_string(), *count as i64);
            }
        });
        out.doc("wtag", |out| self.tags.iter().for_each(|(tag, n)| out.put(tag, *n as i64)));
    }
}

/// The counts of one kind of statement.
#[derive(Default)]
struct ByConcern {
    given: ByNodes,
    /// Without a write concern: by the default of the server that an administrator has set, or by its own.
    custom: ByNodes,
    implicit: ByNodes,
    none: u64,
}

impl ByConcern {
    fn write(&self, out: &mut DocWriter<'_>) {
        self.given.write(out);
        out.put("none", self.none as i64);
        out.doc("noneInfo", |out| {
            out.doc("CWRC", |out| self.custom.write(out));
            out.doc("implicitDefault", |out| self.implicit.write(out));
        });
    }
}

/// The counters: inserts, updates, deletes.
#[derive(Default)]
pub(crate) struct WriteConcernCounters(Mutex<[ByConcern; 3]>);

impl WriteConcernCounters {
    /// Counts the statements of a request: by the write concern that it gives, or by the default that an administrator
    /// has set, or else by the server's `own`.
    pub(crate) fn count(
        &self,
        tried: Tried,
        given: Option<Nodes<'_>>,
        default: Option<Nodes<'_>>,
        own: Nodes<'_>,
    ) {
        if tried == Tried::default() {
            return;
        }
        let mut counters = self.0.lock();
        let counts = [tried.inserts, tried.updates, tried.deletes];
        for (kind, count) in counters.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
            if let Some(given) = given {
                kind.given.add(given, count);
                continue;
            }
            kind.none += count;
            match default {
                Some(default) => kind.custom.add(default, count),
                None => kind.implicit.add(own, count),
            }
        }
    }

    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        let counters = self.0.lock();
        for (name, kind) in ["insert", "update", "delete"].iter().zip(counters.iter()) {
            out.doc(name, |out| kind.write(out));
        }
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, json};

    use super::*;

    #[test]
    fn writes_are_counted_by_what_they_wait_for() {
        let counters = WriteConcernCounters::default();
        let tried = Tried { inserts: 3, updates: 0, deletes: 1 };
        for given in [Nodes::Majority, Nodes::Count(0), Nodes::Mode("backup"), Nodes::Mode("a\0b")]
        {
            counters.count(tried, Some(given), None, Nodes::Count(1));
        }
        counters.count(tried, None, None, Nodes::Majority);
        counters.count(tried, None, Some(Nodes::Count(1)), Nodes::Majority);
        let doc = DocBuf::build(|out| counters.write(out));
        let text = json::to_relaxed(doc.as_doc());
        assert!(
            text.starts_with(concat!(
                r#"{"insert":{"wmajority":3,"wnum":{"0":3},"wtag":{"backup":3},"none":6,"#,
                r#""noneInfo":{"CWRC":{"wmajority":0,"wnum":{"1":3},"wtag":{}},"#,
                r#""implicitDefault":{"wmajority":3,"wnum":{},"wtag":{}}}},"update":{"wmajority":0,"#
            )),
            "{text}"
        );
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let mut nodes = ByNodes::default();
        for n in 0..1000 {
            nodes.add(Nodes::Mode(&format!("tag{n}")), 1);
        }
        assert_eq!(nodes.tags.len(), TAG_COUNT_MAX);
    }
}
