//! The operators of filters, projections and pipelines, for counters of their use.
//!
//! It reads requests that were parsed without an error, and costs as much as a look at their structure: values, such as
//! the array of an `$in`, are not read. As in MongoDB, an equality (`{a: 1}`) uses `$eq` and a pattern (`{a: /x/}`)
//! `$regex`.
//!
//! The depth of recursion is bounded by the nesting that BSON validation allows.

use nagi_bson::{Array, Doc, Value};

use crate::stages::{Accumulates, How, stage_spec};

/// Where an operator belongs: the same name may be an expression, an accumulator and a window function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Expressions,
    Match,
    GroupAccumulators,
    WindowAccumulators,
}

/// The names of all operators of a family, sorted.
pub fn family_names(family: Family) -> Vec<&'static str> {
    match family {
        Family::Expressions => nagi_lang::expr::operator_names(),
        Family::Match => nagi_lang::filter::operator_names(),
        Family::GroupAccumulators => nagi_lang::accum::accumulator_names().collect(),
        Family::WindowAccumulators => nagi_lang::window::window_function_names().collect(),
    }
}

/// Called with each operator. Names that no operator has are passed, too: some are those of values (`$oid`).
pub(crate) type Visit<'v> = &'v mut dyn FnMut(Family, &str);

/// Visits the operators of a filter.
pub fn filter_operators(filter: Doc<'_>, visit: Visit<'_>) {
    for element in filter {
        let (name, value) = (element.name(), element.value());
        match value {
            _ if name.starts_with('$') => {
                visit(Family::Match, name);
                match value {
                    Value::Array(parts) if matches!(name, "$and" | "$or" | "$nor") => {
                        parts.iter().filter_map(|part| part.as_doc()).for_each(|part| {
                            filter_operators(part, visit);
                        });
                    }
                    _ if name == "$expr" => expression_operators(value, visit),
                    _ => {}
                }
            }
            Value::Doc(operators) if begins_with_operator(operators) => {
                field_operators(operators, visit);
            }
            Value::Regex(_) => visit(Family::Match, "$regex"),
            _ => visit(Family::Match, "$eq"),
        }
    }
}

/// `{$gt: 1, $not: {...}}`.
fn field_operators(operators: Doc<'_>, visit: Visit<'_>) {
    for element in operators {
        let name = element.name();
        visit(Family::Match, name);
        match (name, element.value()) {
            ("$not", Value::Doc(inner)) => field_operators(inner, visit),
            ("$not", Value::Regex(_)) => visit(Family::Match, "$regex"),
            ("$elemMatch", Value::Doc(inner)) if begins_with_operator(inner) => {
                field_operators(inner, visit);
            }
            ("$elemMatch", Value::Doc(inner)) => filter_operators(inner, visit),
            _ => {}
        }
    }
}

/// A document that begins otherwise is a value, and so is a reference to a document (`$ref`).
fn begins_with_operator(doc: Doc<'_>) -> bool {
    doc.first().is_some_and(|first| first.name().starts_with('$') && first.name() != "$ref")
}

/// Visits the operators of a projection.
pub fn projection_operators(projection: Doc<'_>, visit: Visit<'_>) {
    for element in projection {
        match element.value() {
            Value::Doc(inner) => match inner.first().map(|op| (op.name(), op.value())) {
                Some(("$elemMatch", Value::Doc(filter))) => {
                    visit(Family::Match, "$elemMatch");
                    filter_operators(filter, visit);
                }
                _ => expression_operators(Value::Doc(inner), visit),
            },
            value => expression_operators(value, visit),
        }
    }
}

fn expression_operators(value: Value<'_>, visit: Visit<'_>) {
    match value {
        Value::Doc(doc) => {
            for element in doc {
                if element.name().starts_with('$') {
                    visit(Family::Expressions, element.name());
                    if element.name() == "$literal" {
                        continue;
                    }
                }
                expression_operators(element.value(), visit);
            }
        }
        Value::Array(array) => array.iter().for_each(|value| expression_operators(value, visit)),
        _ => {}
    }
}

/// `{$sum: "$a"}`: the operator itself is of `family`, its operands are expressions.
fn accumulator(value: Value<'_>, family: Family, visit: Visit<'_>) {
    let Value::Doc(doc) = value else { return };
    for element in doc {
        if element.name().starts_with('$') {
            visit(family, element.name());
            expression_operators(element.value(), visit);
        }
    }
}

/// Visits the operators of a pipeline, and of the pipelines in its stages.
pub fn pipeline_operators(pipeline: Array<'_>, visit: Visit<'_>) {
    for stage in pipeline.iter().filter_map(|stage| stage.as_doc()?.first()) {
        let value = stage.value();
        let Some(row) = stage_spec(stage.name()) else { continue };
        match (row.accumulates, value) {
            (Accumulates::Fields, Value::Doc(spec)) => {
                for element in spec {
                    match element.name() {
                        "_id" => expression_operators(element.value(), visit),
                        _ => accumulator(element.value(), Family::GroupAccumulators, visit),
                    }
                }
            }
            (Accumulates::Outputs, Value::Doc(spec)) => {
                with_outputs(spec, Family::GroupAccumulators, visit);
            }
            (Accumulates::Windows, Value::Doc(spec)) => {
                with_outputs(spec, Family::WindowAccumulators, visit);
            }
            _ => part(row.shape, value, visit),
        }
    }
}

/// A stage whose `output` has an accumulator for each field.
fn with_outputs(spec: Doc<'_>, family: Family, visit: Visit<'_>) {
    for element in spec {
        match (element.name(), element.value()) {
            ("output", Value::Doc(outputs)) => {
                outputs.iter().for_each(|output| accumulator(output.value(), family, visit));
            }
            (_, value) => expression_operators(value, visit),
        }
    }
}

/// A part of a stage, as query shapes treat it.
fn part(how: How, value: Value<'_>, visit: Visit<'_>) {
    match (how, value) {
        (How::Filter, Value::Doc(doc)) => filter_operators(doc, visit),
        (How::Projection, Value::Doc(doc)) => projection_operators(doc, visit),
        (How::Pipeline, Value::Array(stages)) => pipeline_operators(stages, visit),
        (How::Pipelines, Value::Doc(all)) => {
            all.iter().for_each(|one| part(How::Pipeline, one.value(), visit));
        }
        (How::Fields(parts), Value::Doc(doc)) => {
            for element in doc {
                let row = parts.iter().find(|(name, _)| *name == element.name());
                part(row.map_or(How::Expression, |(_, how)| *how), element.value(), visit);
            }
        }
        (How::Expression, _) => expression_operators(value, visit),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    fn used(pipeline: &str) -> Vec<String> {
        let doc = json::parse(&format!("{{\"p\": {}}}", pipeline.replace('\'', "\"")));
        let doc = doc.expect("a document");
        let mut found = Vec::new();
        let stages = doc.as_doc().get("p").as_array().expect("an array");
        pipeline_operators(stages, &mut |family, name| found.push(format!("{family:?} {name}")));
        found
    }

    #[test]
    fn operators_belong_to_their_families() {
        assert_eq!(
            used(
                "[{$match: {a: 1, b: {$gt: 1, $not: {$in: [{$sum: 1}]}}, $or: [{c: {$elemMatch: {d: {$lt: 2}}}}, \
                 {$expr: {$eq: ['$a', {$literal: {$add: 1}}]}}]}}]"
            ),
            [
                "Match $eq",
                "Match $gt",
                "Match $not",
                "Match $in",
                "Match $or",
                "Match $elemMatch",
                "Match $lt",
                "Match $expr",
                "Expressions $eq",
                "Expressions $literal"
            ]
        );
        assert_eq!(
            used(
                "[{$group: {_id: {$toLower: '$a'}, n: {$sum: {$add: ['$b', 1]}}}}, {$bucketAuto: {groupBy: '$a', \
                 buckets: 2, output: {m: {$max: '$b'}}}}, {$setWindowFields: {sortBy: {a: 1}, output: {r: {$rank: {}}, \
                 s: {$sum: '$b', window: {documents: [0, 1]}}}}}]"
            ),
            [
                "Expressions $toLower",
                "GroupAccumulators $sum",
                "Expressions $add",
                "GroupAccumulators $max",
                "WindowAccumulators $rank",
                "WindowAccumulators $sum"
            ]
        );
        assert_eq!(
            used(
                "[{$facet: {a: [{$match: {x: {$ne: 1}}}]}}, {$lookup: {from: 'c', as: 'd', pipeline: [{$project: {y: \
                 {$size: '$z'}, w: {$elemMatch: {v: {$gte: 1}}}}}]}}]"
            ),
            ["Match $ne", "Expressions $size", "Match $elemMatch", "Match $gte"]
        );
    }

    #[test]
    fn values_are_compared_by_operators_too() {
        for (filter, operators) in [
            ("{a: 1, b: null, c: {d: 1}, e: {}}", &["$eq", "$eq", "$eq", "$eq"][..]),
            ("{a: {$regularExpression: {pattern: '^a', options: ''}}}", &["$regex"]),
            (
                "{a: {$not: {$regularExpression: {pattern: '^a', options: ''}}}}",
                &["$not", "$regex"],
            ),
            ("{a: {$ref: 'c', $id: 1}}", &["$eq"]),
            ("{$or: [{a: 1}, {a: {$gt: 1}}]}", &["$or", "$eq", "$gt"]),
            ("{a: {$elemMatch: {b: 1}}}", &["$elemMatch", "$eq"]),
            ("{a: {$in: [1, 2]}}", &["$in"]),
        ] {
            let doc = json::parse(filter).expect("a document");
            let mut found = Vec::new();
            filter_operators(doc.as_doc(), &mut |_, name| found.push(name.to_owned()));
            assert_eq!(found, operators, "{filter}");
        }
    }

    #[test]
    fn families_list_their_names() {
        for (family, name) in [
            (Family::Expressions, "$add"),
            (Family::Match, "$elemMatch"),
            (Family::Match, "$and"),
            (Family::GroupAccumulators, "$push"),
            (Family::WindowAccumulators, "$denseRank"),
        ] {
            let names = family_names(family);
            assert!(names.is_sorted(), "{family:?}");
            assert!(names.contains(&name), "{family:?} {name}");
        }
    }
}
