//! The index that a query needs, by the rule "equality, sort, range": fields that are compared for equality come first,
//! then the order of the result, then fields that are compared by range.
//!
//! ```text
//!   find({city: "Rome", age: {$gt: 30}}).sort({name: 1})
//!     equality city    sort name    range age    -->  {city: 1, name: 1, age: 1}
//!                                                or   {city: 1, age: 1}
//! ```
//!
//! The rule is a guess: an index without the order is better if the range is narrow and no limit ends the scan. Only
//! the data tell, so there may be several ways to answer a query, and the caller tries them.

use nagi_bson::{Doc, Value, number};

/// Limit of the fields of an advised index.
const FIELDS_MAX: usize = 6;
/// Limit of the branches of `$or` that get indexes.
const BRANCHES_MAX: usize = 4;

const EQUAL: &[&str] = &["$eq", "$in", "$all"];
const COMPARED: &[&str] = &["$gt", "$gte", "$lt", "$lte"];
const GEOMETRY: &[&str] = &["$near", "$nearSphere", "$geoWithin", "$geoIntersects"];

/// The key of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// Fields compared for equality: their order among each other is free.
    pub(crate) equal: Vec<String>,
    /// The fields after them, with their directions.
    pub(crate) rest: Vec<(String, i32)>,
}

/// What a query needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// The ways to answer it, the usual best first: each is an index for each branch of the filter, usually one.
    Indexes(Vec<Vec<Key>>),
    /// No index, for this reason.
    None(&'static str),
}

/// The conditions of a filter.
#[derive(Default)]
struct Found<'d> {
    equal: Vec<String>,
    range: Vec<String>,
    /// The branches of each `$or`.
    ors: Vec<Vec<Doc<'d>>>,
    /// The kind of another index that it needs.
    special: Option<&'static str>,
}

/// The indexes for a filter and a sort.
pub(crate) fn needed(filter: Doc<'_>, sort: Doc<'_>) -> Needed {
    let mut found = Found::default();
    found.add_filter(filter, "");
    match found.special {
        Some("text") => return Needed::None("the filter needs a text index"),
        Some(_) => return Needed::None("the filter needs a geometry index (2dsphere)"),
        None => {}
    }
    if found.equal.iter().any(|path| path == "_id") {
        return Needed::None("the filter finds documents by _id");
    }
    let ways = found.ways(sort);
    if !ways.is_empty() {
        return Needed::Indexes(ways);
    }
    Needed::None(match found.ors.as_slice() {
        [] => "it has neither a filter nor a sort that an index could answer",
        ors if ors.iter().all(|branches| branches.len() > BRANCHES_MAX) => {
            "its $or has many branches, and each would need an index"
        }
        _ => "a branch of $or has no field that an index could find",
    })
}

impl Key {
    /// The key without one of its fields: all of these. None for a key of one field.
    pub(crate) fn shorter(&self) -> Vec<Key> {
        let (equal, all) = (self.equal.len(), self.equal.len() + self.rest.len());
        let without = |at: usize| {
            let mut key = self.clone();
            match at.checked_sub(equal) {
                None => drop(key.equal.remove(at)),
                Some(at) => drop(key.rest.remove(at)),
            }
            key
        };
        // The last field is the least important one.
        if all < 2 { Vec::new() } else { (0..all).rev().map(without).collect() }
    }

    /// True if the other key has the same fields at its beginning, in any direction.
    fn begins(&self, other: &Key) -> bool {
        let paths = |key: &Key| key.rest.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
        self.equal == other.equal && paths(other).starts_with(&paths(self))
    }
}

impl<'d> Found<'d> {
    /// See [`Needed::Indexes`].
    fn ways(&self, sort: Doc<'_>) -> Vec<Vec<Key>> {
        let mut ways: Vec<Vec<Key>> = self.key(sort).map(|key| vec![key]).into_iter().collect();
        let mut add = |way: Option<Vec<Key>>| {
            if let Some(way) = way
                && ways.iter().all(|known| {
                    known.len() != way.len() || !way.iter().zip(known).all(|(a, b)| a.begins(b))
                })
            {
                ways.push(way);
            }
        };
        if !self.range.is_empty() {
            add(self.key(Doc::EMPTY).map(|key| vec![key]));
        }
        // Fields beside `$or` may find more than its branches do, alone or together with them.
        let few = |branches: &&Vec<Doc<'_>>| (1..=BRANCHES_MAX).contains(&branches.len());
        for branches in self.ors.iter().filter(few) {
            add(of_branches(branches, &[], sort));
            add(of_branches(branches, &[], Doc::EMPTY));
            if !self.equal.is_empty() {
                add(of_branches(branches, &self.equal, sort));
            }
        }
        ways
    }

    fn add_filter(&mut self, filter: Doc<'d>, prefix: &str) {
        for element in filter {
            match (element.name(), element.value()) {
                ("$and", Value::Array(parts)) => {
                    parts.iter().filter_map(|part| part.as_doc()).for_each(|part| {
                        self.add_filter(part, prefix);
                    });
                }
                ("$or", Value::Array(parts)) if prefix.is_empty() => {
                    self.ors.push(parts.iter().filter_map(|part| part.as_doc()).collect());
                }
                ("$expr", Value::Doc(expression)) if prefix.is_empty() => {
                    self.add_expression(expression);
                }
                ("$text", _) => self.special = Some("text"),
                (name, _) if name.starts_with('$') => {}
                (name, value) => self.add_field(&format!("{prefix}{name}"), value),
            }
        }
    }

    /// Adds the comparisons of paths with constants, which the planner takes from an expression, too.
    fn add_expression(&mut self, expression: Doc<'d>) {
        let Some(operator) = expression.first() else { return };
        let Value::Array(operands) = operator.value() else { return };
        if operator.name() == "$and" {
            let parts = operands.iter().filter_map(|part| part.as_doc());
            return parts.for_each(|part| self.add_expression(part));
        }
        let mut both = operands.iter();
        let (Some(one), Some(other), None) = (both.next(), both.next(), both.next()) else {
            return;
        };
        let path = match (path_of(one), path_of(other)) {
            (Some(path), None) if is_constant(other) => path,
            (None, Some(path)) if is_constant(one) => path,
            _ => return,
        };
        match operator.name() {
            "$eq" => add(&mut self.equal, path),
            name if COMPARED.contains(&name) => add(&mut self.range, path),
            _ => {}
        }
    }

    fn add_field(&mut self, path: &str, value: Value<'d>) {
        let operators = match value {
            Value::Doc(doc) if doc.first().is_some_and(|e| e.name().starts_with('$')) => doc,
            Value::Regex(_) => return add(&mut self.range, path),
            _ => return add(&mut self.equal, path),
        };
        for element in operators {
            match (element.name(), element.value()) {
                (name, _) if EQUAL.contains(&name) => add(&mut self.equal, path),
                ("$regex", _) => add(&mut self.range, path),
                (name, _) if COMPARED.contains(&name) => add(&mut self.range, path),
                (name, _) if GEOMETRY.contains(&name) => self.special = Some("2dsphere"),
                ("$exists", value) if value.is_truthy() => add(&mut self.range, path),
                // Found as null.
                ("$exists", _) => add(&mut self.equal, path),
                ("$not", Value::Doc(inner)) => self.add_negation(path, inner),
                ("$elemMatch", Value::Doc(inner)) => {
                    match inner.first().is_some_and(|e| e.name().starts_with('$')) {
                        true => self.add_field(path, Value::Doc(inner)),
                        false => self.add_filter(inner, &format!("{path}.")),
                    }
                }
                _ => {}
            }
        }
    }

    /// The complement of a range is two ranges, that of an equality nearly everything.
    fn add_negation(&mut self, path: &str, inner: Doc<'d>) {
        for element in inner {
            match element.name() {
                "$exists" if element.value().is_truthy() => add(&mut self.equal, path),
                name if COMPARED.contains(&name) => add(&mut self.range, path),
                _ => {}
            }
        }
    }

    /// The key for its conditions and the sort; none if there is no field for it.
    fn key(&self, sort: Doc<'_>) -> Option<Key> {
        let mut equal: Vec<String> = self.equal.iter().filter(|p| is_path(p)).cloned().collect();
        equal.truncate(FIELDS_MAX);
        let mut rest: Vec<(String, i32)> = Vec::new();
        for element in sort {
            let direction = match number::as_f64(element.value()) {
                Some(1.0) => 1,
                Some(-1.0) => -1,
                _ => break,
            };
            let path = element.name();
            if !is_path(path) {
                break;
            }
            if !equal.iter().any(|own| own == path) {
                add_ordered(&mut rest, path, direction);
            }
        }
        for path in self.range.iter().filter(|path| is_path(path)) {
            if !equal.contains(path) {
                add_ordered(&mut rest, path, 1);
            }
        }
        rest.truncate(FIELDS_MAX - equal.len());
        (!equal.is_empty() || !rest.is_empty()).then_some(Key { equal, rest })
    }
}

/// A key for each branch, with the fields that the filter compares for equality beside `$or`.
fn of_branches(branches: &[Doc<'_>], beside: &[String], sort: Doc<'_>) -> Option<Vec<Key>> {
    let of_branch = |branch: &Doc<'_>| {
        let mut found = Found { equal: beside.to_vec(), ..Found::default() };
        found.add_filter(*branch, "");
        let finds = found.equal.len() > beside.len() || !found.range.is_empty();
        found.key(sort).filter(|_| finds && found.special.is_none())
    };
    branches.iter().map(of_branch).collect()
}

/// The path of `"$a.b"`.
fn path_of(operand: Value<'_>) -> Option<&str> {
    let path = operand.as_str()?.strip_prefix('$')?;
    is_path(path).then_some(path)
}

fn is_constant(operand: Value<'_>) -> bool {
    match operand {
        Value::String(text) => !text.starts_with('$'),
        Value::Doc(doc) => doc.first().is_some_and(|first| first.name() == "$literal"),
        Value::Array(_) => false,
        _ => true,
    }
}

fn add(paths: &mut Vec<String>, path: &str) {
    if !paths.iter().any(|known| known == path) {
        paths.push(path.to_owned());
    }
}

fn add_ordered(paths: &mut Vec<(String, i32)>, path: &str, direction: i32) {
    if !paths.iter().any(|(known, _)| known == path) {
        paths.push((path.to_owned(), direction));
    }
}

fn is_path(path: &str) -> bool {
    path.split('.').all(|part| !part.is_empty() && !part.starts_with('$'))
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    fn text(filter: &str, sort: &str) -> String {
        let (filter, sort) = (json::parse(filter).unwrap(), json::parse(sort).unwrap());
        match needed(filter.as_doc(), sort.as_doc()) {
            Needed::None(why) => why.to_owned(),
            Needed::Indexes(ways) => {
                let one = |key: &Key| {
                    let rest = key.rest.iter().map(|(path, order)| format!("{path}:{order}"));
                    format!("[{}] {}", key.equal.join(","), rest.collect::<Vec<_>>().join(","))
                };
                let way = |keys: &Vec<Key>| keys.iter().map(one).collect::<Vec<_>>().join(" | ");
                ways.iter().map(way).collect::<Vec<_>>().join(" or ")
            }
        }
    }

    #[test]
    fn equality_then_sort_then_range() {
        for (filter, sort, expected) in [
            ("{city: 'Rome', age: {$gt: 30}}", "{name: 1}", "[city] name:1,age:1 or [city] age:1"),
            ("{age: {$gt: 30}, city: {$in: [1, 2]}}", "{}", "[city] age:1"),
            ("{$and: [{a: 1}, {b: {$lt: 2}}]}", "{b: -1}", "[a] b:-1"),
            ("{a: {b: 1}}", "{}", "[a] "),
            ("{a: {$regex: '^x'}}", "{}", "[] a:1"),
            ("{a: {$elemMatch: {b: 1, c: {$gt: 2}}}}", "{}", "[a.b] a.c:1"),
            ("{a: {$elemMatch: {$gt: 2}}}", "{}", "[] a:1"),
            ("{}", "{a: 1, b: -1}", "[] a:1,b:-1"),
            ("{a: 1}", "{a: 1, s: {$meta: 'textScore'}}", "[a] "),
            ("{a: {$exists: true}, b: {$ne: 1}}", "{}", "[] a:1"),
            ("{a: {$exists: false}}", "{}", "[a] "),
            ("{a: {$not: {$exists: true}}}", "{}", "[a] "),
            ("{a: {$not: {$gt: 1}}, b: {$not: {$eq: 1}}}", "{}", "[] a:1"),
            ("{b: {$lt: 5}}", "{a: 1}", "[] a:1,b:1 or [] b:1"),
            ("{b: {$lt: 5}}", "{b: -1, a: 1}", "[] b:-1,a:1"),
            ("{$or: [{a: 1}, {b: 2}]}", "{}", "[a]  | [b] "),
            (
                "{$or: [{a: 1, b: {$gt: 3}}, {c: 1}]}",
                "{d: -1}",
                "[] d:-1 or [a] d:-1,b:1 | [c] d:-1 or [a] b:1 | [c] ",
            ),
            ("{$or: [{a: 1}, {b: {$ne: 1}}]}", "{d: 1}", "[] d:1"),
            (
                "{on: true, $or: [{a: 1}, {b: {$gt: 2}}]}",
                "{}",
                "[on]  or [a]  | [] b:1 or [on,a]  | [on] b:1",
            ),
            ("{a: 1, $or: [{a: 1}, {b: 2}]}", "{}", "[a]  or [a]  | [b] "),
            (
                "{$and: [{$or: [{a: 1}, {b: 1}]}, {$or: [{c: 1}, {d: 1}]}]}",
                "{}",
                "[a]  | [b]  or [c]  | [d] ",
            ),
            (
                "{$and: [{$or: [{a: 1}, {b: {$ne: 1}}]}, {$or: [{c: 1}, {d: 1}]}]}",
                "{}",
                "[c]  | [d] ",
            ),
            ("{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1}", "{h: 1}", "[a,b,c,d,e,f] "),
            ("{a: 1, 'b..c': 1, '': 1, 'd.$x': 1}", "{}", "[a] "),
            ("{b: 1, '2': 1}", "{}", "[b,2] "),
            ("{$expr: {$eq: ['$b', 5]}}", "{}", "[b] "),
            (
                "{$expr: {$and: [{$eq: ['x', '$a.b']}, {$lt: ['$c', {$literal: 3}]}]}}",
                "{}",
                "[a.b] c:1",
            ),
            ("{a: 1, $expr: {$eq: ['$b', '$c']}}", "{}", "[a] "),
            ("{a: 1, $expr: {$or: [{$eq: ['$b', 5]}]}}", "{}", "[a] "),
            ("{a: 1, $expr: {$gt: [{$add: ['$b', 1]}, 5]}}", "{}", "[a] "),
            ("{a: 1, $expr: {$eq: ['$$NOW', 5]}}", "{}", "[a] "),
        ] {
            assert_eq!(text(filter, sort), expected, "{filter} {sort}");
        }
    }

    #[test]
    fn shorter_keys() {
        let key = |equal: &[&str], rest: &[&str]| Key {
            equal: equal.iter().map(|path| (*path).to_owned()).collect(),
            rest: rest.iter().map(|path| ((*path).to_owned(), 1)).collect(),
        };
        assert_eq!(
            key(&["a", "b"], &["c"]).shorter(),
            [key(&["a", "b"], &[]), key(&["a"], &["c"]), key(&["b"], &["c"])]
        );
        assert_eq!(key(&["a"], &[]).shorter(), []);
    }

    #[test]
    fn queries_that_need_none() {
        for (filter, sort, expected) in [
            ("{_id: 1, a: 2}", "{}", "the filter finds documents by _id"),
            ("{$text: {$search: 'x'}}", "{}", "the filter needs a text index"),
            ("{p: {$near: [1, 2]}}", "{}", "the filter needs a geometry index (2dsphere)"),
            ("{}", "{}", "it has neither a filter nor a sort that an index could answer"),
            (
                "{a: {$ne: 1}, $expr: {$gt: ['$a', '$b']}}",
                "{}",
                "it has neither a filter nor a sort",
            ),
            ("{$or: [{a: 1}, {b: {$ne: 1}}]}", "{}", "a branch of $or has no field"),
        ] {
            assert!(text(filter, sort).starts_with(expected), "{filter}: {}", text(filter, sort));
        }
    }
}
