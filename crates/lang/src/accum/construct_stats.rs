//! `$_internalConstructStats`: the statistics of a field for MongoDB's cost-based planner. The command `analyze` uses
//! it in an internal pipeline; a pipeline of a client that contains it is rejected (decision 036).

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

use super::Parsed;
use crate::expr::ParseCx;

const FIELDS: &[&str] = &["val", "sampleRate", "numberBuckets"];

pub(super) fn parse(name: &'static str, value: Value<'_>, _: &mut ParseCx<'_>) -> Result<Parsed> {
    let Value::Doc(doc) = value else {
        bail!(Code::Location(7261401), "expected {name} in the analyze pipeline to an object");
    };
    if let Some(unknown) = doc.iter().find(|element| !FIELDS.contains(&element.name())) {
        let field = unknown.name();
        bail!(Code::IDL_UNKNOWN_FIELD, "BSON field '{name}.{field}' is an unknown field.");
    }
    if let Some(field) = FIELDS.iter().find(|field| doc.get(field).is_missing()) {
        bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '{name}.{field}' is missing but a required field"
        );
    }
    // MongoDB's message contains this unbalanced quote.
    let bare = name.trim_start_matches('$');
    bail!(Code::Location(5491300), "{bare}' is not allowed in user requests")
}
