//! The rules that every server has.

use super::measure::{Measure, Sum};
use super::rule::{Bound, Rule, Severity};
use crate::figures::position;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// All rules, without actions.
pub(super) fn rules() -> Vec<Rule> {
    let mut all = disk().to_vec();
    all.extend(memory());
    all.extend(requests());
    all.extend(safety());
    all
}

fn rule(
    name: &str,
    severity: Severity,
    measure: Measure,
    bound: Bound,
    lasts_ms: i64,
    advice: &str,
) -> Rule {
    Rule {
        name: name.to_owned(),
        severity,
        measure,
        bound,
        lasts_ms,
        actions: Vec::new(),
        advice: advice.to_owned(),
        is_built_in: true,
    }
}

fn one(at: usize) -> Sum {
    Sum(vec![at])
}

fn disk() -> [Rule; 3] {
    let free = position("disk.free");
    [
        rule(
            "disk full",
            Severity::Critical,
            Measure::Value(one(position("write.stopped"))),
            Bound::Above(0.0),
            0,
            "Writes are refused. Free space: delete files of others, drop collections, or enlarge the file system.",
        ),
        rule(
            "disk space",
            Severity::Critical,
            Measure::Share { part: one(free), whole: one(position("disk.total")) },
            Bound::Below(0.05),
            MINUTE_MS,
            "Less than 5 % of the file system is free; compactions need room. Free space or enlarge the file system.",
        ),
        rule(
            "disk forecast",
            Severity::Warning,
            Measure::Forecast { of: free, after_ms: 7 * DAY_MS },
            Bound::Below(0.0),
            15 * MINUTE_MS,
            "At the pace of the last hours the file system is full within a week: see the Storage page.",
        ),
    ]
}

fn memory() -> [Rule; 3] {
    let hits = vec![position("cache.hits"), position("records.hits")];
    let all = [&hits[..], &[position("cache.misses"), position("records.misses")]].concat();
    [
        rule(
            "memory bound",
            Severity::Warning,
            Measure::Share {
                part: one(position("memory.resident")),
                whole: one(position("memory.bound")),
            },
            Bound::Above(1.0),
            MINUTE_MS,
            "Resident memory is above its bound: see the Memory page for what uses it.",
        ),
        rule(
            "memory refused",
            Severity::Warning,
            Measure::Growth { of: one(position("memory.refusals")), over_ms: 5 * MINUTE_MS },
            Bound::Above(0.0),
            0,
            "Requests failed because the memory budget was used up: see the pools on the Memory page.",
        ),
        rule(
            "cache hit rate",
            Severity::Info,
            Measure::GrowthShare {
                part: Sum(hits),
                whole: Sum(all),
                over_ms: 15 * MINUTE_MS,
                least: 100_000.0,
            },
            Bound::Below(0.8),
            15 * MINUTE_MS,
            "More than a fifth of the reads goes to files: a larger cache or an index would help.",
        ),
    ]
}

fn requests() -> [Rule; 4] {
    let connections = vec![position("connections.current"), position("connections.available")];
    [
        rule(
            "stall",
            Severity::Warning,
            Measure::Stall { over_ms: MINUTE_MS },
            Bound::Above(1000.0),
            0,
            "Operations took longer than a second: the Overview page lists the stall with its causes.",
        ),
        rule(
            "connections",
            Severity::Warning,
            Measure::Share { part: one(connections[0]), whole: Sum(connections) },
            Bound::Above(0.8),
            MINUTE_MS,
            "Four of five possible connections are open: limit the pools of clients, or raise \
             net.maxIncomingConnections.",
        ),
        rule(
            "unindexed queries",
            Severity::Info,
            Measure::GrowthShare {
                part: one(position("documents.scanned")),
                whole: one(position("documents.returned")),
                over_ms: 10 * MINUTE_MS,
                least: 100.0,
            },
            Bound::Above(1000.0),
            10 * MINUTE_MS,
            "More than 1,000 documents are read for each one that is returned: see the Slow operations page.",
        ),
        rule(
            "processor limit",
            Severity::Warning,
            Measure::Growth { of: one(position("host.throttled")), over_ms: 5 * MINUTE_MS },
            // Of five minutes, a tenth.
            Bound::Above(30e6),
            0,
            "The control group's limit of processors stops the server for a tenth of the time: raise the limit.",
        ),
    ]
}

fn safety() -> [Rule; 3] {
    [
        rule(
            "failed logins",
            Severity::Warning,
            Measure::Growth { of: one(position("logins.failed")), over_ms: 5 * MINUTE_MS },
            Bound::Above(20.0),
            0,
            "Somebody guesses passwords, or a client has an old one: the log names users and addresses.",
        ),
        rule(
            "replication window",
            Severity::Warning,
            Measure::Value(one(position("oplog.window"))),
            Bound::Below(86_400.0),
            15 * MINUTE_MS,
            "The oplog keeps less than a day: change streams that were away longer cannot resume. \
             Enlarge it with replSetResizeOplog.",
        ),
        rule(
            "backup age",
            Severity::Warning,
            Measure::Value(one(position("backup.age"))),
            Bound::Above(2.0 * 86_400.0),
            0,
            "The newest backup by nagi backup is older than two days: look why the next one did not run.",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_units_fit() {
        let all = rules();
        let names: BTreeSet<_> = all.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for rule in &all {
            assert!(!rule.advice.is_empty() && rule.advice.ends_with('.'), "{}", rule.name);
            let counter = matches!(&rule.measure, Measure::Value(sum) if sum.is_counter());
            assert!(!counter, "{} compares a counter since the start", rule.name);
        }
    }

    #[test]
    fn conditions_have_units() {
        let rules = rules();
        for (name, wanted) in [
            ("disk space", "below 5 % for 1m"),
            ("disk forecast", "below 0 bytes for 15m"),
            ("memory bound", "above 100 % for 1m"),
            ("cache hit rate", "below 80 % for 15m"),
            ("stall", "above 1000 ms"),
            ("unindexed queries", "above 1000 for 10m"),
            ("processor limit", "above 30 s"),
            ("replication window", "below 1 d for 15m"),
            ("backup age", "above 2 d"),
        ] {
            let rule = rules.iter().find(|rule| rule.name == name).unwrap();
            assert!(rule.condition().ends_with(wanted), "{name}: {}", rule.condition());
        }
    }
}
