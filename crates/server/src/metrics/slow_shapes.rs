//! Slow operations by shape, for the advisor (`nagiAdvise`) and the web console.
//!
//! The log has a line for each slow operation, but its lines are cut for `getLog`, and only the newest are kept in
//! memory. Here each shape has one row with sums and its slowest example, since the start of the server.
//! `observe::slow` adds the same operations that it logs, so `slowms`, the sample rate and filters apply to both.
//!
//! Operations without a planned query, such as inserts and commands on a database, have rows by their names. The
//! console shows them, and they take no place of a shape that the advisor could help. Of them, it sees those that have
//! a query: one by `_id` needs no plan, but the pipeline behind it may read another collection.
//!
//! Memory is bounded: [`SHAPES_MAX`] and [`OTHERS_MAX`] rows with an example of at most [`EXAMPLE_BYTES_MAX`] bytes
//! each. A new shape takes the row of the shape with the least total time, if it has taken longer itself. Clients
//! choose names, and a command may be slow before its name is refused: operations on namespaces that cannot exist have
//! no row.

use std::collections::HashMap;

use nagi_bson::{Doc, DocBuf};
use nagi_store::Namespace;
use parking_lot::Mutex;

/// Limit of the shapes.
const SHAPES_MAX: usize = 256;
/// Limit of the rows of operations without a planned query.
const OTHERS_MAX: usize = 64;
/// No command has a longer name.
const NAME_BYTES_MAX: usize = 64;
/// A longer command is not kept as an example.
const EXAMPLE_BYTES_MAX: usize = 8 << 10;
/// Limit of the different plans of a shape that are listed.
const PLANS_MAX: usize = 4;
/// Limit of a plan's text.
const PLAN_BYTES_MAX: usize = 256;
/// Limit of the different applications of a shape that are listed, and of their names' length.
const APPS_MAX: usize = 4;
const APP_BYTES_MAX: usize = 128;
/// Limit of a shape's text.
const TEXT_BYTES_MAX: usize = 600;

/// A slow operation that has finished.
pub(crate) struct Seen<'a> {
    pub(crate) ns: &'a str,
    /// The name of the command, or the kind of the statement.
    pub(crate) name: &'a str,
    /// The hash of filter, sort and projection without values; 0 if no query was planned.
    pub(crate) shape: u32,
    /// The hash of the names of a pipeline's stages, which `shape` does not have; 0 without a pipeline.
    pub(crate) stages: u32,
    /// Returns the shape as text. Called for the first operation of a shape.
    pub(crate) text: &'a dyn Fn() -> String,
    /// The name that the client's application gave itself.
    pub(crate) app: &'a str,
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
    pub(crate) stages: u32,
    /// The query with `?` instead of values; empty for commands without one.
    pub(crate) text: String,
    pub(crate) count: u64,
    pub(crate) total_micros: u64,
    pub(crate) slowest_micros: u64,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    pub(crate) returned: u64,
    pub(crate) sorts: bool,
    pub(crate) plans: Vec<String>,
    pub(crate) apps: Vec<String>,
    /// The slowest command; `None` if all were too long.
    pub(crate) example: Option<DocBuf>,
    /// Milliseconds since 1970.
    pub(crate) last_ms: i64,
}

/// All of them.
pub(crate) struct SlowShapes {
    planned: Mutex<Rows>,
    others: Mutex<Rows>,
}

impl Default for SlowShapes {
    fn default() -> SlowShapes {
        let rows = |rows_max| Mutex::new(Rows { rows_max, by_shape: HashMap::new(), left_out: 0 });
        SlowShapes { planned: rows(SHAPES_MAX), others: rows(OTHERS_MAX) }
    }
}

/// Namespace, operation, shape and stages.
type Key = (String, String, u32, u32);

struct Rows {
    rows_max: usize,
    by_shape: HashMap<Key, SlowShape>,
    /// Operations of shapes that have no row, or have lost it.
    left_out: u64,
}

impl SlowShapes {
    /// Adds an operation. Costs a lookup, and a copy of the command if it is the slowest of its shape.
    pub(crate) fn note(&self, seen: &Seen<'_>) {
        let rows = if seen.shape == 0 { &self.others } else { &self.planned };
        let mut rows = rows.lock();
        if seen.ns.len() > Namespace::BYTES_MAX || seen.name.len() > NAME_BYTES_MAX {
            rows.left_out += 1;
            return;
        }
        let key = (seen.ns.to_owned(), seen.name.to_owned(), seen.shape, seen.stages);
        if !rows.by_shape.contains_key(&key) && !rows.admits(seen.micros) {
            rows.left_out += 1;
            return;
        }
        rows.by_shape.entry(key).or_default().add(seen);
    }

    /// The shapes of planned queries, those with the greatest total time first, and the number of such operations that
    /// are in none of them.
    pub(crate) fn list(&self) -> (Vec<SlowShape>, u64) {
        let rows = self.planned.lock();
        let (mut list, left_out) = (rows.copied(), rows.left_out);
        drop(rows);
        sort(&mut list);
        (list, left_out)
    }

    /// The same with operations that have a query, which was not planned.
    pub(crate) fn queries(&self) -> (Vec<SlowShape>, u64) {
        let (mut list, left_out) = self.list();
        let others = self.others.lock();
        list.extend(others.by_shape.values().filter(|row| !row.text.is_empty()).cloned());
        drop(others);
        sort(&mut list);
        (list, left_out)
    }

    /// The same with all operations without a planned query.
    pub(crate) fn all(&self) -> (Vec<SlowShape>, u64) {
        let (mut list, mut left_out) = self.list();
        let others = self.others.lock();
        list.extend(others.copied());
        left_out += others.left_out;
        drop(others);
        sort(&mut list);
        (list, left_out)
    }

    /// One of [`SlowShapes::all`].
    pub(crate) fn find(
        &self,
        ns: &str,
        name: &str,
        (shape, stages): (u32, u32),
    ) -> Option<SlowShape> {
        let rows = if shape == 0 { &self.others } else { &self.planned };
        rows.lock().by_shape.get(&(ns.to_owned(), name.to_owned(), shape, stages)).cloned()
    }
}

fn sort(list: &mut [SlowShape]) {
    list.sort_by(|a, b| {
        let key = |row: &SlowShape| (row.ns.clone(), row.name.clone(), row.shape, row.stages);
        b.total_micros.cmp(&a.total_micros).then_with(|| key(a).cmp(&key(b)))
    });
}

impl Rows {
    fn copied(&self) -> Vec<SlowShape> {
        self.by_shape.values().cloned().collect()
    }

    /// Removes the cheapest shape if there is no place for a new one. False if all others have taken longer.
    fn admits(&mut self, micros: u64) -> bool {
        if self.by_shape.len() < self.rows_max {
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
            (self.ns, self.name) = (seen.ns.to_owned(), seen.name.to_owned());
            (self.shape, self.stages) = (seen.shape, seen.stages);
            self.text = cut(&(seen.text)(), TEXT_BYTES_MAX).to_owned();
        }
        self.count += 1;
        self.total_micros += seen.micros;
        self.keys_examined += seen.keys_examined;
        self.docs_examined += seen.docs_examined;
        self.returned += seen.returned;
        self.sorts |= seen.sorts;
        self.last_ms = self.last_ms.max(seen.at_ms);
        note(&mut self.plans, PLANS_MAX, cut(seen.plan, PLAN_BYTES_MAX));
        note(&mut self.apps, APPS_MAX, cut(seen.app, APP_BYTES_MAX));
        let is_slower = self.example.is_none() || seen.micros > self.slowest_micros;
        if is_slower && seen.command.len() <= EXAMPLE_BYTES_MAX {
            self.example = Some(seen.command.to_buf());
        }
        self.slowest_micros = self.slowest_micros.max(seen.micros);
    }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Adds a text to a short list, if it is not there.
fn note(list: &mut Vec<String>, count_max: usize, text: &str) {
    if !text.is_empty() && list.len() < count_max && list.iter().all(|known| known != text) {
        list.push(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::{OTHERS_MAX, SHAPES_MAX, Seen, SlowShapes};
    use nagi_store::Namespace;

    fn note(shapes: &SlowShapes, shape: u32, micros: u64, command: &str) {
        let command = json::parse(command).unwrap();
        shapes.note(&Seen {
            ns: "db.c",
            name: "find",
            shape,
            stages: 0,
            text: &|| format!("{{ a{shape}: ? }}"),
            app: "app",
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
        assert_eq!(
            (&*list[1].plans, &*list[1].apps),
            (&["COLLSCAN".into()][..], &["app".into()][..])
        );
        assert_eq!(list[1].text, "{ a1: ? }");
        let found = shapes.find("db.c", "find", (2, 0)).unwrap();
        assert_eq!((found.count, found.text.as_str()), (1, "{ a2: ? }"));
        assert!(shapes.find("db.c", "find", (0, 0)).is_none());
    }

    #[test]
    fn operations_without_a_query_take_no_place_of_a_shape() {
        let shapes = SlowShapes::default();
        note(&shapes, 1, 100, "{find: 'c'}");
        note(&shapes, 0, 900, "{insert: 'c'}");
        note(&shapes, 0, 50, "{insert: 'c'}");
        assert_eq!(shapes.list().0.iter().map(|row| row.shape).collect::<Vec<_>>(), [1]);
        let (all, left_out) = shapes.all();
        let counts: Vec<_> = all.iter().map(|row| (row.shape, row.count)).collect();
        assert_eq!((counts, left_out), (vec![(0, 2), (1, 1)], 0));
        for ns in 0..OTHERS_MAX as u64 + 5 {
            let command = json::parse("{insert: 'c'}").unwrap();
            shapes.note(&Seen {
                ns: &format!("db.c{ns}"),
                name: "insert",
                shape: 0,
                stages: 0,
                text: &String::new,
                app: "",
                command: command.as_doc(),
                micros: 10,
                keys_examined: 0,
                docs_examined: 0,
                returned: 0,
                sorts: false,
                plan: "",
                at_ms: 7,
            });
        }
        let (all, left_out) = shapes.all();
        assert_eq!((all.len(), left_out), (OTHERS_MAX + 1, 6));
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
                stages: 0,
                text: &String::new,
                app: "",
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
        for shape in 1..=SHAPES_MAX as u32 {
            note(&shapes, shape, 1000 + u64::from(shape), "{find: 'c'}");
        }
        note(&shapes, 9001, 500, "{find: 'c'}");
        assert_eq!(shapes.list().1, 1);
        note(&shapes, 9002, 5000, "{find: 'c'}");
        let (list, left_out) = shapes.list();
        assert_eq!((list.len(), left_out, list[0].shape), (SHAPES_MAX, 2, 9002));
        assert!(list.iter().all(|row| row.shape != 1), "the least one is gone");
    }
}
