//! Query shapes in which the names that users have chosen are replaced: databases, collections, fields, variables.
//!
//! ```text
//!   {cmdNs: {db: "test", coll: "c"}, command: "find", filter: {"a.b": {$gt: "?number"}}}
//!   {cmdNs: {db: h(test), coll: h(c)}, command: "find", filter: {"h(a).h(b)": {$gt: "?number"}}}
//! ```
//! What the language defines stays: operators, the parameters of stages and operators, placeholders of values. A name
//! that is not known to be the language's own is replaced, so that a table with a gap here tells too little, not too
//! much.
//!
//! The depth of recursion is bounded by the nesting that BSON validation allows.

use nagi_bson::{Array, ArrayWriter, Doc, DocBuf, DocWriter, Element, Value};

/// Replaces a name.
pub type Replace<'r> = &'r dyn Fn(&str) -> String;

/// Replaces the names in a shape, as [`crate::statistics_shape`] makes it.
pub fn replace_names(shape: Doc<'_>, replace: Replace<'_>) -> DocBuf {
    let names = Names { replace };
    DocBuf::build(|out| {
        for element in shape {
            match (element.name(), element.value()) {
                ("command" | "collation", _) => out.put_element(element),
                ("cmdNs", Value::Doc(ns)) => out.doc("cmdNs", |out| names.namespace(ns, out)),
                (name, value) => names.value(name, value, "", out),
            }
        }
    })
}

/// Replaces the fields of an index that a `hint` names.
pub fn replace_fields(doc: Doc<'_>, replace: Replace<'_>) -> DocBuf {
    let names = Names { replace };
    DocBuf::build(|out| doc.iter().for_each(|element| names.element(element, "", out)))
}

/// Variables of the language.
const SYSTEM_VARIABLES: &[&str] = &[
    "CLUSTER_TIME",
    "CURRENT",
    "DESCEND",
    "IS_MR",
    "JS_SCOPE",
    "KEEP",
    "NOW",
    "PRUNE",
    "REMOVE",
    "ROOT",
    "SEARCH_META",
    "USER_ROLES",
];

/// The names that belong to the language within the value of an operator or a stage, and deeper in it: `*` stands for
/// a name of the user. Operators whose rows declare their arguments are not here.
#[rustfmt::skip]
const PARAMETERS: &[(&str, &[&str])] = &[
    ("$accumulator", &["accumulate", "accumulateArgs", "finalize", "init", "initArgs", "lang", "merge"]),
    ("$bottom", &["output", "sortBy"]),
    ("$bottomN", &["n", "output", "sortBy"]),
    ("$bucket", &["boundaries", "default", "groupBy", "output"]),
    ("$bucketAuto", &["buckets", "granularity", "groupBy", "output"]),
    ("$changeStream", &["allChangesForCluster", "fullDocument", "fullDocumentBeforeChange", "resumeAfter",
        "showExpandedEvents", "startAfter", "startAtOperationTime"]),
    ("$collStats", &["count", "latencyStats", "queryExecStats", "storageStats"]),
    ("$cond", &["else", "if", "then"]),
    ("$densify", &["field", "partitionByFields", "range"]),
    ("$densify.range", &["bounds", "step", "unit"]),
    ("$derivative", &["input", "unit"]),
    ("$expMovingAvg", &["N", "alpha", "input"]),
    ("$fill", &["output", "partitionBy", "partitionByFields", "sortBy"]),
    ("$fill.output.*", &["method", "value"]),
    ("$filter", &["as", "cond", "input", "limit"]),
    ("$firstN", &["input", "n"]),
    ("$function", &["args", "body", "lang"]),
    ("$geoNear", &["distanceField", "distanceMultiplier", "includeLocs", "key", "maxDistance", "minDistance", "near",
        "query", "spherical"]),
    ("$graphLookup", &["as", "connectFromField", "connectToField", "depthField", "from", "maxDepth",
        "restrictSearchWithMatch", "startWith"]),
    ("$group", &["_id"]),
    ("$integral", &["input", "unit"]),
    ("$lastN", &["input", "n"]),
    ("$let", &["in", "vars"]),
    ("$lookup", &["as", "foreignField", "from", "let", "localField", "pipeline"]),
    ("$lookup.from", &["coll", "db"]),
    ("$map", &["as", "in", "input"]),
    ("$maxN", &["input", "n"]),
    ("$median", &["input", "method"]),
    ("$merge", &["into", "let", "on", "whenMatched", "whenNotMatched"]),
    ("$merge.into", &["coll", "db"]),
    ("$minMaxScaler", &["input", "max", "min"]),
    ("$minN", &["input", "n"]),
    ("$out", &["coll", "db", "timeseries"]),
    ("$out.timeseries", &["bucketMaxSpanSeconds", "bucketRoundingSeconds", "granularity", "metaField", "timeField"]),
    ("$percentile", &["input", "method", "p"]),
    ("$reduce", &["in", "initialValue", "input"]),
    ("$replaceRoot", &["newRoot"]),
    ("$sample", &["size"]),
    ("$setWindowFields", &["output", "partitionBy", "sortBy"]),
    ("$setWindowFields.output.*", &["window"]),
    ("$setWindowFields.output.*.window", &["documents", "range", "unit"]),
    ("$shift", &["by", "default", "output"]),
    ("$switch", &["branches", "default"]),
    ("$switch.branches", &["case", "then"]),
    ("$top", &["output", "sortBy"]),
    ("$topN", &["n", "output", "sortBy"]),
    ("$unionWith", &["coll", "pipeline"]),
    ("$unwind", &["includeArrayIndex", "path", "preserveNullAndEmptyArrays"]),
    ("$zip", &["defaults", "inputs", "useLongestLength"]),
];

/// Values at these places are words of the language.
fn is_word(place: &str) -> bool {
    const WORDS: &[&str] = &[
        "$meta",
        "$type",
        "$merge.whenMatched",
        "$merge.whenNotMatched",
        "$changeStream.fullDocument",
        "$changeStream.fullDocumentBeforeChange",
    ];
    WORDS.contains(&place)
}

/// Returns true if `name` at `place` is a parameter.
fn is_parameter(place: &str, name: &str) -> bool {
    let known = PARAMETERS.iter().find(|(other, _)| *other == place);
    known.is_some_and(|(_, names)| names.contains(&name))
        || nagi_lang::expr::argument_names(place).any(|argument| argument == name)
}

struct Names<'r> {
    replace: Replace<'r>,
}

impl Names<'_> {
    fn namespace(&self, ns: Doc<'_>, out: &mut DocWriter<'_>) {
        for element in ns {
            match element.value() {
                // No collection has this name: it stands for `aggregate: 1`.
                Value::String("$cmd.aggregate") => out.put_element(element),
                Value::String(name) => out.put(element.name(), (self.replace)(name).as_str()),
                _ => out.put_element(element),
            }
        }
    }

    fn doc(&self, doc: Doc<'_>, place: &str, out: &mut DocWriter<'_>) {
        doc.iter().for_each(|element| self.element(element, place, out));
    }

    fn element(&self, element: Element<'_>, place: &str, out: &mut DocWriter<'_>) {
        let name = element.name();
        if name.starts_with('$') {
            return self.value(name, element.value(), name, out);
        }
        if is_parameter(place, name) {
            return self.value(name, element.value(), &format!("{place}.{name}"), out);
        }
        // Places that no row continues need not grow.
        let below = format!("{place}.*");
        let goes_on = PARAMETERS.iter().any(|(row, _)| row.starts_with(&below));
        let place = if goes_on { below.as_str() } else { "" };
        self.value(&self.path(name), element.value(), place, out);
    }

    fn value(&self, name: &str, value: Value<'_>, place: &str, out: &mut DocWriter<'_>) {
        match value {
            _ if is_word(place) && !matches!(value, Value::Doc(_)) => match value {
                // A pipeline may stand where a word may.
                Value::Array(stages) if stages.iter().any(|stage| stage.as_doc().is_some()) => {
                    out.array(name, |out| self.array(stages, "", out));
                }
                _ => out.put(name, value),
            },
            Value::Doc(doc) => out.doc(name, |out| self.doc(doc, place, out)),
            Value::Array(array) => out.array(name, |out| self.array(array, place, out)),
            Value::String(text) => out.put(name, self.text(text).as_str()),
            other => out.put(name, other),
        }
    }

    fn array(&self, array: Array<'_>, place: &str, out: &mut ArrayWriter<'_>) {
        for value in array.iter() {
            match value {
                Value::Doc(doc) => out.doc(|out| self.doc(doc, place, out)),
                Value::Array(inner) => out.array(|out| self.array(inner, place, out)),
                Value::String(text) => out.push(self.text(text).as_str()),
                other => out.push(other),
            }
        }
    }

    fn text(&self, text: &str) -> String {
        if text.starts_with('?') || text == "[]" {
            return text.to_owned();
        }
        if let Some(variable) = text.strip_prefix("$$") {
            let (name, rest) = variable.split_once('.').unwrap_or((variable, ""));
            let name = match SYSTEM_VARIABLES.contains(&name) {
                true => name.to_owned(),
                false => (self.replace)(name),
            };
            let dot = if rest.is_empty() { "" } else { "." };
            return format!("$${name}{dot}{}", self.path(rest));
        }
        match text.strip_prefix('$') {
            Some(path) => format!("${}", self.path(path)),
            None => self.path(text),
        }
    }

    /// Replaces each field name of a path.
    fn path(&self, path: &str) -> String {
        if path.is_empty() {
            return String::new();
        }
        let parts: Vec<String> = path.split('.').map(|part| (self.replace)(part)).collect();
        parts.join(".")
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;
    use crate::statistics_shape;

    fn replaced(command: &str) -> String {
        let doc = json::parse(&command.replace('\'', "\"")).expect("a document");
        let shape = statistics_shape("test", doc.as_doc()).expect("a shape");
        let replaced = replace_names(shape.as_doc(), &|name| format!("<{name}>"));
        json::to_relaxed(replaced.as_doc())
    }

    #[test]
    fn names_of_users_are_replaced_and_words_of_the_language_stay() {
        assert_eq!(
            replaced(
                "{find: 'c', filter: {'a.b': {$gt: 1}, $or: [{x: {$type: 'string'}}, \
                 {$expr: {$eq: ['$a', '$$ROOT.b']}}]}, sort: {a: -1}, projection: {s: {$meta: 'textScore'}}, \
                 collation: {locale: 'de'}}"
            ),
            concat!(
                r#"{"cmdNs":{"db":"<test>","coll":"<c>"},"command":"find","filter":{"$and":["#,
                r#"{"<a>.<b>":{"$gt":"?number"}},{"$or":[{"<x>":{"$type":"string"}},"#,
                r#"{"$expr":{"$eq":["$<a>","$$ROOT.<b>"]}}]}]},"projection":{"<s>":{"$meta":"textScore"}},"#,
                r#""sort":{"<a>":-1},"collation":{"locale":"de"}}"#
            )
        );
        let pipeline = replaced(
            "{aggregate: 'c', pipeline: [{$lookup: {from: 'other', as: 'found', let: {v: '$secret'}, \
             pipeline: [{$match: {$expr: {$eq: ['$$v', 5]}}}]}}, {$group: {_id: '$secret', n: {$sum: 1}}}, \
             {$setWindowFields: {partitionBy: '$p', output: {window: {$sum: '$x', \
             window: {documents: ['current', 1]}}}}}, \
             {$project: {d: {$dateAdd: {startDate: '$secret', unit: 'day', amount: 1}}}}, {$count: 'total'}, \
             {$unset: ['gone']}, {$merge: {into: 'target', whenMatched: 'replace'}}]}",
        );
        for word in ["from", "as", "let", "_id", "startDate", "documents", "replace", "into"] {
            assert!(pipeline.contains(&format!("\"{word}\"")), "{word}: {pipeline}");
        }
        let hidden = ["other", "found", "v", "secret", "n", "p", "d", "total", "gone", "target"];
        for name in hidden {
            assert!(pipeline.contains(&format!("<{name}>")), "{name}: {pipeline}");
            for quoted in [format!("\"{name}\""), format!("\"${name}\""), format!("\"$${name}\"")] {
                assert!(!pipeline.contains(&quoted), "{quoted}: {pipeline}");
            }
        }
        // A field of the output may have the name of a parameter.
        assert!(pipeline.contains(r#""<window>":{"$sum":"$<x>","window":"#), "{pipeline}");
        assert!(replaced("{distinct: 'c', key: 'a.b'}").contains(r#""key":"<a>.<b>""#));
        let all = replaced("{aggregate: 1, pipeline: [{$currentOp: {}}]}");
        assert!(all.contains(r#""coll":"$cmd.aggregate""#), "{all}");
    }
}
