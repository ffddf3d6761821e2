//! What of a slow command an index can help with: its filter and sort, and how it can be explained again.

use nagi_bson::{Array, Doc, DocBuf, Element, Value};

use super::text::shape;
use crate::beginning::TRUNCATED;
use crate::request::is_generic;

/// Commands whose filter is `filter` or `query`, and which can be explained as they are.
const EXPLAINED: &[&str] = &["find", "count", "distinct", "aggregate"];
/// Limit of the text of a shape.
const TEXT_BYTES_MAX: usize = 400;

/// A command or a statement of one.
#[derive(Clone)]
pub(crate) struct Query {
    pub(crate) filter: DocBuf,
    pub(crate) sort: DocBuf,
    /// The command that `explain` takes.
    pub(crate) command: DocBuf,
    /// The time that its client gave it; 0 for no limit.
    pub(crate) max_time_ms: i64,
    /// The field whose values a `distinct` returns.
    distinct: Option<String>,
}

impl Query {
    /// Reads an example that the metrics keep. `None` if it is of another kind, or was cut.
    pub(crate) fn of(name: &str, collection: &str, example: Doc<'_>) -> Option<Query> {
        if is_cut(example) {
            return None;
        }
        let max_time_ms = nagi_bson::number::truncate_to_i64(example.get("maxTimeMS")).unwrap_or(0);
        if matches!(name, "mapReduce" | "mapreduce") {
            let filter = example.get("query").as_doc().unwrap_or(Doc::EMPTY);
            let command = as_find(collection, example, filter, example.element("limit"));
            let (filter, sort) = (filter.to_buf(), document(example.get("sort")));
            return Some(Query { filter, sort, command, max_time_ms, distinct: None });
        }
        if let Some((filter, is_one)) = changed(name, example) {
            let one = nagi_bson::doc! { "limit": 1 };
            let limit = if is_one { one.as_doc().first() } else { None };
            let command = as_find(collection, example, filter, limit);
            let (filter, sort) = (filter.to_buf(), document(example.get("sort")));
            return Some(Query { filter, sort, command, max_time_ms, distinct: None });
        }
        if !EXPLAINED.contains(&name) {
            return None;
        }
        let command = DocBuf::build(|out| {
            for element in example.iter().filter(|element| !is_generic(element.name())) {
                out.put_element(element);
            }
            if name == "aggregate" && example.element("cursor").is_none() {
                out.put("cursor", Doc::EMPTY);
            }
        });
        let (filter, sort) = match example.get("pipeline") {
            Value::Array(pipeline) if name == "aggregate" => beginning(pipeline),
            _ => {
                let filter = match example.get("filter") {
                    Value::Missing => example.get("query"),
                    filter => filter,
                };
                (document(filter), document(example.get("sort")))
            }
        };
        let distinct = example.get("key").as_str().filter(|_| name == "distinct");
        let distinct = distinct.map(str::to_owned);
        Some(Query { filter, sort, command, max_time_ms, distinct })
    }

    /// The order in which an index would give its results: that of its sort, or that of the values of a `distinct`
    /// without a filter.
    pub(crate) fn order(&self) -> DocBuf {
        match &self.distinct {
            Some(path) if self.filter.as_doc().is_empty() => {
                DocBuf::build(|out| out.put(path.as_str(), 1))
            }
            _ => self.sort.clone(),
        }
    }

    /// True if it runs JavaScript, which only its client should make the server run.
    pub(crate) fn runs_scripts(&self) -> bool {
        runs_scripts(Value::Doc(self.command.as_doc()))
    }

    /// The query with `?` instead of values.
    pub(crate) fn text(&self) -> String {
        let mut text = shape(self.filter.as_doc(), 0);
        if !self.sort.as_doc().is_empty() {
            text.push_str(&format!(" sort {}", nagi_bson::text::doc_text(self.sort.as_doc())));
        }
        if let Some(path) = &self.distinct {
            text.push_str(&format!(" distinct {path}"));
        }
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text
    }
}

/// True if only the beginning of a command is there.
pub(crate) fn is_cut(command: Doc<'_>) -> bool {
    command.iter().any(|element| element.name() == TRUNCATED)
}

/// Operators that run JavaScript.
const SCRIPTS: &[&str] = &["$where", "$function", "$accumulator", "$_internalJsEmit"];

fn runs_scripts(value: Value<'_>) -> bool {
    match value {
        Value::Doc(doc) => {
            doc.iter().any(|e| SCRIPTS.contains(&e.name()) || runs_scripts(e.value()))
        }
        Value::Array(items) => items.iter().any(runs_scripts),
        _ => false,
    }
}

fn document(value: Value<'_>) -> DocBuf {
    value.as_doc().unwrap_or(Doc::EMPTY).to_buf()
}

/// The filter of a command or statement that changes documents, and if it changes only one. A statement of `bulkWrite`
/// has other fields than one of `update` or `delete`.
fn changed<'d>(name: &str, example: Doc<'d>) -> Option<(Doc<'d>, bool)> {
    let multi = example.get("multi").is_truthy();
    match (name, example.get("q"), example.get("filter"), example.get("query")) {
        ("update", Value::Doc(filter), ..) => Some((filter, !multi)),
        ("remove", Value::Doc(filter), ..) => Some((filter, example.get("limit").is_truthy())),
        ("update" | "remove", _, Value::Doc(filter), _) => Some((filter, !multi)),
        ("findAndModify" | "findandmodify", .., Value::Doc(filter)) => Some((filter, true)),
        _ => None,
    }
}

/// The find that has the plan of a statement that changes documents, or reads those that a `mapReduce` reads, without
/// its scripts. Who may read them may explain it.
fn as_find(
    collection: &str,
    statement: Doc<'_>,
    filter: Doc<'_>,
    limit: Option<Element<'_>>,
) -> DocBuf {
    DocBuf::build(|out| {
        out.put("find", collection);
        out.put("filter", filter);
        for name in ["sort", "hint", "collation"] {
            if let Some(given) = statement.element(name) {
                out.put_element(given);
            }
        }
        if let Some(limit) = limit {
            out.put_element(limit);
        }
    })
}

/// Filter and sort at the beginning of a pipeline, which an index can answer.
pub(crate) fn beginning(pipeline: Array<'_>) -> (DocBuf, DocBuf) {
    let mut filters: Vec<Doc<'_>> = Vec::new();
    let mut sort = Doc::EMPTY;
    for stage in pipeline.iter().filter_map(|stage| stage.as_doc()) {
        match (stage.get("$match"), stage.get("$sort")) {
            (Value::Doc(filter), _) => filters.push(filter),
            (_, Value::Doc(given)) => {
                sort = given;
                break;
            }
            _ => break,
        }
    }
    let filter = match filters.as_slice() {
        [] => DocBuf::new(),
        [one] => one.to_buf(),
        many => DocBuf::build(|out| {
            out.array("$and", |out| many.iter().for_each(|filter| out.push(*filter)));
        }),
    };
    (filter, sort.to_buf())
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    fn read(name: &str, example: &str) -> Option<(String, String)> {
        let query = Query::of(name, "c", json::parse(example).unwrap().as_doc())?;
        Some((query.text(), json::to_relaxed(query.command.as_doc())))
    }

    #[track_caller]
    fn check(name: &str, example: &str, text: &str, command: &str) {
        assert_eq!(read(name, example), Some((text.to_owned(), command.to_owned())), "{example}");
    }

    #[test]
    fn commands_and_statements() {
        check(
            "find",
            "{find: 'c', filter: {a: 1, b: {$in: [1, 2]}}, sort: {s: 1}, lsid: {}, $db: 'd'}",
            "{ a: ?, b: { $in: ? } } sort { s: 1 }",
            r#"{"find":"c","filter":{"a":1,"b":{"$in":[1,2]}},"sort":{"s":1}}"#,
        );
        check(
            "aggregate",
            "{aggregate: 'c', pipeline: [{$match: {a: 1}}, {$match: {b: 2}}, {$sort: {c: 1}}]}",
            "{ $and: [ { a: ? }, { b: ? } ] } sort { c: 1 }",
            r#"{"aggregate":"c","pipeline":[{"$match":{"a":1}},{"$match":{"b":2}},{"$sort":{"c":1}}],"cursor":{}}"#,
        );
        check(
            "remove",
            "{q: {a: {$gt: 5}}, limit: 0}",
            "{ a: { $gt: ? } }",
            r#"{"find":"c","filter":{"a":{"$gt":5}}}"#,
        );
        check(
            "findAndModify",
            "{findAndModify: 'c', query: {a: 1}, sort: {b: 1}, update: {$set: {c: 1}}}",
            "{ a: ? } sort { b: 1 }",
            r#"{"find":"c","filter":{"a":1},"sort":{"b":1},"limit":1}"#,
        );
        check(
            "update",
            "{update: 0, filter: {a: 1}, updateMods: {$set: {b: 1}}, multi: true, sort: {c: 1}}",
            "{ a: ? } sort { c: 1 }",
            r#"{"find":"c","filter":{"a":1},"sort":{"c":1}}"#,
        );
        check(
            "remove",
            "{delete: 0, filter: {a: 1}, multi: false}",
            "{ a: ? }",
            r#"{"find":"c","filter":{"a":1},"limit":1}"#,
        );
        check(
            "mapReduce",
            "{mapReduce: 'c', map: 'f', reduce: 'g', query: {a: 1}, sort: {b: 1}, limit: 3, out: {inline: 1}}",
            "{ a: ? } sort { b: 1 }",
            r#"{"find":"c","filter":{"a":1},"sort":{"b":1},"limit":3}"#,
        );
        check(
            "mapReduce",
            "{mapReduce: 'c', map: 'f', reduce: 'g', out: 'd'}",
            "{}",
            r#"{"find":"c","filter":{}}"#,
        );
        check(
            "distinct",
            "{distinct: 'c', key: 'b', query: {}}",
            "{} distinct b",
            r#"{"distinct":"c","key":"b","query":{}}"#,
        );
        check(
            "count",
            "{count: 'c', query: {a: 1}, maxTimeMS: 5}",
            "{ a: ? }",
            r#"{"count":"c","query":{"a":1}}"#,
        );
    }

    #[test]
    fn no_part_of_a_value_is_shown() {
        for (filter, text) in [
            ("{who: {ssn: {secret10: 5}}, a: {$eq: {secret: 1}}}", "{ who: ?, a: { $eq: ? } }"),
            ("{a: {$in: [{secret: 1}]}, b: {$ref: 'c', $id: 1}}", "{ a: { $in: ? }, b: ? }"),
            (
                "{$or: [{a: {$not: {$gt: 1}}}, {l: {$elemMatch: {x: 1, y: {secret: 1}}}}]}",
                "{ $or: [ { a: { $not: { $gt: ? } } }, { l: { $elemMatch: { x: ?, y: ? } } } ] }",
            ),
            (
                "{l: {$elemMatch: {$gt: 1}}, $expr: {$eq: ['$a', {secret: 1}]}}",
                "{ l: { $elemMatch: { $gt: ? } }, $expr: { $eq: [ $a, ? ] } }",
            ),
            (
                "{$expr: {$and: [{$in: ['$a.b', ['secret', 1]]}, {$ne: ['$$v', {$literal: 'secret'}]}]}}",
                "{ $expr: { $and: [ { $in: [ $a.b, ? ] }, { $ne: [ $$v, { $literal: ? } ] } ] } }",
            ),
            (
                "{$expr: {$cond: {if: {$gt: ['$a', 1]}, then: true, else: {secret: '$b'}}}}",
                "{ $expr: { $cond: { if: { $gt: [ $a, ? ] }, then: ?, else: ? } } }",
            ),
            ("{}", "{}"),
        ] {
            let example = json::parse(&format!("{{find: 'c', filter: {filter}}}")).unwrap();
            assert_eq!(Query::of("find", "c", example.as_doc()).unwrap().text(), text);
        }
    }

    #[test]
    fn scripts_and_limits_of_time_are_known() {
        let query = |example: &str| Query::of("find", "c", json::parse(example).unwrap().as_doc());
        let plain = query("{find: 'c', filter: {a: 1}, maxTimeMS: 500}").unwrap();
        assert_eq!((plain.max_time_ms, plain.runs_scripts()), (500, false));
        for filter in [
            "{a: 1, $where: 'true'}",
            "{$or: [{a: 1}, {$where: 'true'}]}",
            "{$expr: {$function: {body: 'f', args: [], lang: 'js'}}}",
        ] {
            let query = query(&format!("{{find: 'c', filter: {filter}}}")).unwrap();
            assert_eq!((query.max_time_ms, query.runs_scripts()), (0, true), "{filter}");
        }
    }

    #[test]
    fn others_are_left_out() {
        assert_eq!(read("insert", "{insert: 'c'}"), None);
        assert_eq!(read("find", "{$truncated: '{find: ...'}"), None);
        assert_eq!(read("update", "{update: 0, multi: true}"), None);
    }
}
