//! Slow operations by shape, for the advisor (`nagiAdvise`).
//!
//! The log has a line for each slow operation, but its lines are cut for `getLog`, and only the newest are kept in
//! memory. Here each shape has one row with sums and its slowest example, since the start of the server.
//! `observe::slow` adds the same operations that it logs, so `slowms`, the sample rate and filters apply to both.
//!
//! Memory is bounded: [`SHAPES_MAX`] rows with an example of at most [`EXAMPLE_BYTES_MAX`] bytes each. A new shape
//! takes the row of the shape with the least total time, if it has taken longer itself. Clients choose names, and a
//! command may be slow before its name is refused: operations on namespaces that cannot exist have no row.

use std::collections::HashMap;

use nagi_bson::{Doc, DocBuf};
use nagi_store::Namespace;
use parking_lot::Mutex;

/// Limit of the shapes.
const SHAPES_MAX: usize = 256;
/// No command has a longer name.
const NAME_BYTES_MAX: usize = 64;
/// A longer command is not kept as an example.
const EXAMPLE_BYTES_MAX: usize = 8 << 10;
/// Limit of the different plans of a shape that are listed.
const PLANS_MAX: usize = 4;
/// Limit of a plan's text.
const PLAN_BYTES_MAX: usize = 256;

/// A slow operation that has finished.
pub(crate) struct Seen<'a> {
    pub(crate) ns: &'a str,
    /// The name of the command, or the kind of the statement.
    pub(crate) name: &'a str,
    /// The hash of filter, sort and projection without values.
    pub(crate) shape: u32,
    /// The command or statement.
    pub(crate) command: Doc<'a>,
    pub(crate) micros: u64,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    /// Documents returned or changed.
    pub(crate) returned: u64,
    pub(crate) sorts: bool,
    /// The summary of its plan.
    pub(crate) plan: &'a str,
    /// Milliseconds since 1970.
    pub(crate) at_ms: i64,
}

/// The slow operations of one shape.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlowShape {
    pub(crate) ns: String,
    pub(crate) name: String,
    pub(crate) shape: u32,
    pub(crate) count: u64,
    pub(crate) total_micros: u64,
    pub(crate) slowest_micros: u64,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    pub(crate) returned: u64,
    pub(crate) sorts: bool,
    pub(crate) plans: Vec<String>,
    /// The slowest command; `None` if all were too long.
    pub(crate) example: Option<DocBuf>,
    /// Milliseconds since 1970.
    pub(crate) last_ms: i64,
}

/// All of them.
#[derive(Default)]
pub(crate) struct SlowShapes {
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    by_shape: HashMap<(String, String, u32), SlowShape>,
    /// Operations of shapes that have no row, or have lost it.
    left_out: u64,
}

impl SlowShapes {
    /// Adds an operation. Costs a lookup, and a copy of the command if it is the slowest of its shape.
    pub(crate) fn note(&self, seen: &Seen<'_>) {
        if seen.ns.len() > Namespace::BYTES_MAX || seen.name.len() > NAME_BYTES_MAX {
            self.rows.lock().left_out += 1;
            return;
        }
        let mut rows = self.rows.lock();
        let key = (seen.ns.to_owned(), seen.name.to_owned(), seen.shape);
        if !rows.by_shape.contains_key(&key) && !rows.admits(seen.micros) {
            rows.left_out += 1;
            return;
        }
        rows.by_shape.entry(key).or_default().add(seen);
    }

    /// The shapes with the greatest total time first, and the number of operations that are in none of them.
    pub(crate) fn list(&self) -> (Vec<SlowShape>, u64) {
        let rows = self.rows.lock();
        let mut list: Vec<SlowShape> = rows.by_shape.values().cloned().collect();
        let left_out = rows.left_out;
        drop(rows);
        list.sort_by(|a, b| {
            let key = |row: &SlowShape| (row.ns.clone(), row.name.clone(), row.shape);
            b.total_micros.cmp(&a.total_micros).then_with(|| key(a).cmp(&key(b)))
        });
        (list, left_out)
    }
}

impl Rows {
    /// Removes the cheapest shape if there is no place for a new one. False if all others have taken longer.
    fn admits(&mut self, micros: u64) -> bool {
        if self.by_shape.len() < SHAPES_MAX {
            return true;
        }
        let least = self.by_shape.iter().min_by_key(|(_, row)| row.total_micros);
        let Some((key, row)) = least.filter(|(_, row)| row.total_micros < micros) else {
            return false;
        };
        let (key, count) = (key.clone(), row.count);
        self.left_out += count;
        self.by_shape.remove(&key);
        true
    }
}

impl SlowShape {
    fn add(&mut self, seen: &Seen<'_>) {
        if self.count == 0 {
            (self.ns, self.name, self.shape) =
                (seen.ns.to_owned(), seen.name.to_owned(), seen.shape);
        }
        self.count += 1;
        self.total_micros += seen.micros;
        self.keys_examined += seen.keys_examined;
        self.docs_examined += seen.docs_examined;
        self.returned += seen.returned;
        self.sorts |= seen.sorts;
        self.last_ms = self.last_ms.max(seen.at_ms);
        let plan = &seen.plan[..seen.plan.floor_char_boundary(PLAN_BYTES_MAX)];
        if self.plans.len() < PLANS_MAX && self.plans.iter().all(|known| known != plan) {
            self.plans.push(plan.to_owned());
        }
        let is_slower = self.example.is_none() || seen.micros > self.slowest_micros;
        if is_slower && seen.command.len() <= EXAMPLE_BYTES_MAX {
            self.example = Some(seen.command.to_buf());
        }
        self.slowest_micros = self.slowest_micros.max(seen.micros);
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    fn note(shapes: &SlowShapes, shape: u32, micros: u64, command: &str) {
        let command = json::parse(command).unwrap();
        shapes.note(&Seen {
            ns: "db.c",
            name: "find",
            shape,
            command: command.as_doc(),
            micros,
            keys_examined: 1,
            docs_examined: 10,
            returned: 2,
            sorts: false,
            plan: "COLLSCAN",
            at_ms: 7,
        });
    }

    #[test]
    fn sums_and_the_slowest_example() {
        let shapes = SlowShapes::default();
        note(&shapes, 1, 200, "{find: 'c', filter: {a: 1}}");
        note(&shapes, 1, 300, "{find: 'c', filter: {a: 2}}");
        note(&shapes, 1, 100, "{find: 'c', filter: {a: 3}}");
        note(&shapes, 2, 601, &format!("{{find: 'c', filter: {{b: '{}'}}}}", "x".repeat(9000)));
        let (list, left_out) = shapes.list();
        assert_eq!((list.len(), left_out), (2, 0));
        assert_eq!((list[0].shape, list[0].example.is_none()), (2, true));
        assert_eq!((list[1].count, list[1].total_micros, list[1].docs_examined), (3, 600, 30));
        let example = list[1].example.as_ref().unwrap();
        assert_eq!(json::to_relaxed(example.as_doc()), r#"{"find":"c","filter":{"a":2}}"#);
        assert_eq!(list[1].plans, ["COLLSCAN"]);
    }

    #[test]
    fn names_that_cannot_exist_have_no_row() {
        let shapes = SlowShapes::default();
        let command = json::parse("{find: 'c'}").unwrap();
        let note = |ns: &str, name: &str| {
            shapes.note(&Seen {
                ns,
                name,
                shape: 1,
                command: command.as_doc(),
                micros: 1,
                keys_examined: 0,
                docs_examined: 0,
                returned: 0,
                sorts: false,
                plan: "",
                at_ms: 7,
            });
        };
        note(&format!("db.{}", "x".repeat(Namespace::BYTES_MAX)), "find");
        note("db.c", &"x".repeat(2 << 20));
        assert_eq!((shapes.list().0.len(), shapes.list().1), (0, 2));
        note(&format!("db.{}", "x".repeat(Namespace::BYTES_MAX - 3)), "find");
        assert_eq!(shapes.list().0.len(), 1);
    }

    #[test]
    fn the_number_of_shapes_is_bounded() {
        let shapes = SlowShapes::default();
        for shape in 0..SHAPES_MAX as u32 {
            note(&shapes, shape, 1000 + u64::from(shape), "{find: 'c'}");
        }
        note(&shapes, 9001, 500, "{find: 'c'}");
        assert_eq!(shapes.list().1, 1);
        note(&shapes, 9002, 5000, "{find: 'c'}");
        let (list, left_out) = shapes.list();
        assert_eq!((list.len(), left_out, list[0].shape), (SHAPES_MAX, 2, 9002));
        assert!(list.iter().all(|row| row.shape != 0), "the least one is gone");
    }
}
