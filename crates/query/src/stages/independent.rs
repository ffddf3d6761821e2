//! Determines the stages that have the same result for every document of the surrounding stage, so that the result
//! may be kept.

use nagi_bson::{Array, Value};

/// Stages and operators with a different result each time, for the same input.
const RANDOM: &[&str] = &["$sample", "$rand", "$sampleRate"];

/// The number of stages at the beginning of a pipeline that do not depend on the variables `names`.
pub(super) fn independent(stages: Array<'_>, names: &[Box<str>]) -> usize {
    if names.iter().any(|name| &**name == "CURRENT") {
        // With CURRENT as a variable, every path begins with the variable.
        return 0;
    }
    stages.iter().take_while(|stage| !depends(*stage, names)).count()
}

/// Returns true if a variable occurs anywhere in the value. A literal text that looks like a variable counts as
/// one, too.
fn depends(value: Value<'_>, names: &[Box<str>]) -> bool {
    match value {
        Value::String(text) => names.iter().any(|name| {
            let rest = text.strip_prefix("$$").and_then(|text| text.strip_prefix(&**name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }),
        Value::Doc(doc) => doc
            .iter()
            .any(|element| RANDOM.contains(&element.name()) || depends(element.value(), names)),
        Value::Array(items) => items.iter().any(|item| depends(item, names)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::json;

    #[test]
    fn stages_are_kept_up_to_a_variable_or_a_random_value() {
        let names: Vec<Box<str>> = vec!["v".into()];
        let cases = [
            ("[]", 0),
            ("[{$match: {a: 1}}, {$match: {$expr: {$eq: ['$a', '$$v']}}}, {$limit: 1}]", 1),
            ("[{$match: {a: '$v'}}, {$set: {b: '$$vw'}}, {$set: {c: ['$$v.x']}}]", 2),
            ("[{$set: {b: '$$NOW'}}, {$lookup: {from: 'x', let: {w: '$$v'}, pipeline: []}}]", 1),
            ("[{$limit: 5}, {$sample: {size: 1}}]", 1),
            ("[{$match: {$expr: {$lt: [{$rand: {}}, 0.5]}}}]", 0),
            ("[{$match: {$sampleRate: 0.5}}]", 0),
        ];
        for (text, expected) in cases {
            let wrapped = json::parse(&format!("{{p: {text}}}")).unwrap();
            let Value::Array(stages) = wrapped.as_doc().get("p") else { panic!("{text}") };
            assert_eq!(independent(stages, &names), expected, "{text}");
            assert_eq!(independent(stages, &["CURRENT".into()]), 0, "{text}");
        }
    }
}
