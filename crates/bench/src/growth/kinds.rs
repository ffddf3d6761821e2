//! The operations: which requests each one sends, and to which kind of region.
//!
//! The numbers of requests are those that `crates/kv-tikv/tests/cluster/store_trips.rs` counts. docs/scale-out.md has
//! them in a table; a test compares this with the page.

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A region of many, each time another one.
    Any,
    /// The regions at the end of the records of a collection: new records have ascending numbers.
    Records,
    /// The region at the end of the index of `_id`, if ids ascend.
    Ids,
    /// The document that an update changes; some are changed often.
    Key,
    /// Fences and parts of counters of all nodes.
    Fences,
    /// Records of sessions.
    Sessions,
    /// The board, seats and collections.
    Catalog,
}

/// A round of requests that are sent at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Round {
    Get(Target),
    Scan(Target),
    /// A hundred records of an index scan: as many requests as there are regions with one of them.
    Records100,
}

/// An operation.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Its row in docs/scale-out.md, without a driver's session: before the first bar.
    pub(super) row: &'static str,
    pub(super) reads: &'static [Round],
    /// A commit writes to these regions, in the order of keys; the first one decides. Empty for reads.
    pub(super) writes: &'static [Target],
}

use Round::{Get, Records100, Scan};
use Target::{Any, Catalog, Fences, Ids, Key, Records, Sessions};

pub(super) static FIND_ID: Kind = Kind {
    name: "find by _id",
    row: "find by `_id`; clustered",
    reads: &[Get(Any), Get(Any)],
    writes: &[],
};
pub(super) static FIND_100: Kind = Kind {
    name: "find of 100 by an index",
    row: "find by an index, 100 documents",
    reads: &[Scan(Any), Records100],
    writes: &[],
};
pub(super) static INSERT_ASCENDING: Kind = Kind {
    name: "insert, ascending ids",
    row: "insert, with 0 or 2 indexes",
    reads: &[Get(Sessions), Get(Ids)],
    writes: &[Sessions, Records, Ids, Fences],
};
pub(super) static INSERT_HASHED: Kind = Kind {
    name: "insert, hashed ids",
    row: "insert, with 0 or 2 indexes",
    reads: &[Get(Sessions), Get(Any)],
    writes: &[Sessions, Records, Any, Fences],
};
pub(super) static UPDATE: Kind = Kind {
    name: "update, zipfian",
    row: "update or delete of a document that is found by its `_id`",
    reads: &[Get(Sessions), Get(Key), Get(Key)],
    writes: &[Sessions, Key, Fences],
};
pub(super) static TRANSACTION: Kind = Kind {
    name: "transaction of two documents",
    row: "transaction with an update of two documents",
    reads: &[Get(Sessions), Get(Any), Get(Any), Get(Any), Get(Any)],
    writes: &[Sessions, Any, Any, Fences],
};
/// What each node does beside: a look at the board, the renewal of its lease, a page of the counters of others.
pub(super) static BOARD: Kind =
    Kind { name: "board", row: "", reads: &[Get(Catalog)], writes: &[] };
pub(super) static RENEWAL: Kind =
    Kind { name: "renewal", row: "", reads: &[Get(Catalog)], writes: &[Catalog] };
pub(super) static COUNTS: Kind =
    Kind { name: "counts", row: "", reads: &[Scan(Fences)], writes: &[] };
/// On the rig: one region, and clients without sessions.
pub(super) static RIG_INSERT: Kind = Kind {
    name: "insert, one region",
    row: "insert, with 0 or 2 indexes",
    reads: &[Get(Fences)],
    writes: &[Fences],
};

/// Kinds and their shares, which add up to 100.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) kinds: &'static [(u64, &'static Kind)],
}

pub(super) static WORKLOADS: &[Workload] = &[
    Workload { name: "point-reads", kinds: &[(100, &FIND_ID)] },
    Workload { name: "inserts-ascending", kinds: &[(100, &INSERT_ASCENDING)] },
    Workload { name: "inserts-hashed", kinds: &[(100, &INSERT_HASHED)] },
    Workload { name: "updates-zipfian", kinds: &[(100, &UPDATE)] },
    Workload { name: "finds-of-100", kinds: &[(100, &FIND_100)] },
    Workload { name: "transactions", kinds: &[(100, &TRANSACTION)] },
    Workload {
        name: "mix",
        kinds: &[
            (60, &FIND_ID),
            (5, &FIND_100),
            (20, &UPDATE),
            (10, &INSERT_HASHED),
            (5, &TRANSACTION),
        ],
    },
];

pub(super) static RIG_READS: Workload = Workload { name: "reads", kinds: &[(100, &FIND_ID)] };
pub(super) static RIG_INSERTS: Workload =
    Workload { name: "inserts", kinds: &[(100, &RIG_INSERT)] };

#[cfg(test)]
mod tests {
    use super::*;

    /// Timestamps, reads and phases of an operation in the table of docs/scale-out.md.
    fn counted(row: &str) -> (usize, usize, usize) {
        let page = include_str!("../../../../docs/scale-out.md");
        let begin = format!("| {row} |");
        let line = page.lines().find(|line| line.starts_with(&begin));
        let line = line.unwrap_or_else(|| panic!("not in docs/scale-out.md: {row}"));
        let number = |cell: &str| {
            let digits: String = cell.trim().chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or(0)
        };
        let cells: Vec<usize> = line[begin.len()..].split('|').map(number).collect();
        (cells[0], cells[1], cells[2])
    }

    #[test]
    fn requests_are_those_of_the_page() {
        let kinds = WORKLOADS.iter().flat_map(|workload| workload.kinds).map(|(_, kind)| *kind);
        for kind in kinds.chain([&RIG_INSERT]) {
            let session = usize::from(kind.reads.contains(&Get(Sessions)));
            let phases = usize::from(!kind.writes.is_empty());
            let own = (1, kind.reads.len() - session, phases);
            assert_eq!(own, counted(kind.row), "{}", kind.name);
        }
        let page = include_str!("../../../../docs/scale-out.md").replace('\n', " ");
        assert!(page.contains("an insert by a driver has two reads, an update three."));
        assert!(page.contains("In a larger one each commit has a timestamp and a phase more"));
    }

    #[test]
    fn shares_add_up() {
        for workload in WORKLOADS {
            assert_eq!(workload.kinds.iter().map(|(share, _)| share).sum::<u64>(), 100);
        }
    }
}
