//! The rows, their two sides, and the timing.

use std::hint::black_box;
use std::time::Instant;

use nagi_bson::DocBuf;
use nagi_testkit::count_allocations;

/// Reads the bytes of a document and appends the bytes of an answer to the buffer.
pub(crate) type Side = Box<dyn FnMut(&[u8], &mut Vec<u8>)>;

/// One line of the table.
pub(crate) struct Row {
    pub(crate) name: String,
    /// The target for the time per document in nanoseconds; none if only the comparison counts.
    pub(crate) aim_ns: Option<f64>,
    pub(crate) ours: Side,
    pub(crate) owned: Side,
}

impl Row {
    pub(crate) fn new(name: &str, ours: Side, owned: Side) -> Row {
        Row { name: name.to_owned(), aim_ns: None, ours, owned }
    }

    pub(crate) fn within(mut self, ns: f64) -> Row {
        self.aim_ns = Some(ns);
        self
    }
}

/// The cost of one side per document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) ns: f64,
    pub(crate) allocations: f64,
}

pub(crate) struct Figures {
    pub(crate) ours: Cost,
    pub(crate) owned: Cost,
}

impl Figures {
    /// The speedup of our side over owned documents.
    pub(crate) fn times(&self) -> f64 {
        self.owned.ns / self.ours.ns
    }
}

const ROUNDS: usize = 60;
const ROUND_NS: f64 = 1_000_000.0;

/// Runs both sides of a row alternately.
pub(crate) fn run(row: &mut Row, documents: &[DocBuf]) -> Figures {
    let mut out = Vec::with_capacity(16 << 10);
    let mut expected = Vec::new();
    for doc in documents {
        expected.clear();
        (row.owned)(doc.as_bytes(), &mut expected);
        out.clear();
        (row.ours)(doc.as_bytes(), &mut out);
        assert!(
            same(&out, &expected),
            "{}: {:?} is not {:?}",
            row.name,
            shown(&out),
            shown(&expected)
        );
    }
    let mut ours = Clock::of(&mut row.ours, documents, &mut out);
    let mut owned = Clock::of(&mut row.owned, documents, &mut out);
    for _ in 0..ROUNDS {
        ours.round(&mut row.ours, documents, &mut out);
        owned.round(&mut row.owned, documents, &mut out);
    }
    Figures { ours: ours.cost(), owned: owned.cost() }
}

/// Returns true if both sides wrote the same bytes, or numbers that differ only in the last digit.
fn same(ours: &[u8], owned: &[u8]) -> bool {
    ours == owned || (ours.len() > 4 && shown(ours) == shown(owned))
}

fn shown(bytes: &[u8]) -> String {
    match nagi_bson::Doc::parse(bytes) {
        Ok(doc) => doc.to_string(),
        Err(_) => format!("{bytes:?}"),
    }
}

/// Measures one side and keeps its fastest round.
struct Clock {
    /// The number of passes over all documents per round.
    passes: u32,
    best_ns: f64,
    allocations: f64,
}

impl Clock {
    fn of(side: &mut Side, documents: &[DocBuf], out: &mut Vec<u8>) -> Clock {
        let mut clock = Clock { passes: 1, best_ns: f64::INFINITY, allocations: 0.0 };
        clock.round(side, documents, out);
        clock.round(side, documents, out);
        let pass_ns = clock.best_ns * documents.len() as f64;
        clock.passes = (ROUND_NS / pass_ns).ceil().clamp(1.0, 1e6) as u32;
        let ((), spent) = count_allocations(|| {
            for doc in documents {
                out.clear();
                side(doc.as_bytes(), out);
            }
        });
        clock.allocations = spent.calls as f64 / documents.len() as f64;
        clock
    }

    fn round(&mut self, side: &mut Side, documents: &[DocBuf], out: &mut Vec<u8>) {
        let start = Instant::now();
        for _ in 0..self.passes {
            for doc in documents {
                out.clear();
                side(black_box(doc.as_bytes()), out);
                black_box(&out);
            }
        }
        let calls = f64::from(self.passes) * documents.len() as f64;
        self.best_ns = self.best_ns.min(start.elapsed().as_nanos() as f64 / calls);
    }

    fn cost(&self) -> Cost {
        Cost { ns: self.best_ns, allocations: self.allocations }
    }
}
