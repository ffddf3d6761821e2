//! `$fill`: replaces null and missing fields, by an expression or by values of neighbouring documents.
//!
//! It is parsed into `$setWindowFields` with `$locf` and `$linearFill`, and `$addFields` with `$ifNull`.

use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_lang::expr::parse_field_path;

use super::{
    add_fields,
    prelude::*,
    set_window_fields::{self, Parts},
    several::Several,
};

pub(super) static FILL: StageSpec = StageSpec {
    name: "$fill",
    shape: How::Fields(&[("sortBy", How::Sort), ("partitionByFields", How::Same)]),
    parse,
    ..StageSpec::ROW
};

/// The specification as given.
#[derive(Default)]
struct Spec<'s> {
    partition_by: Option<Value<'s>>,
    partition_by_fields: Option<DocBuf>,
    sort_by: Option<Doc<'s>>,
    output: Option<Doc<'s>>,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let spec = read(spec)?;
    let Some(output) = spec.output else {
        bail!(Code::Location(40414), "BSON field '$fill.output' is missing but a required field");
    };
    if output.is_empty() {
        bail!(
            Code::Location(6_050_203),
            "The output field in '$fill' must contain an object with at least one element"
        );
    }
    if spec.partition_by.is_some() && spec.partition_by_fields.is_some() {
        bail!(
            Code::Location(6_050_204),
            "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'"
        );
    }
    let (mut windows, mut values) = (DocBuf::new(), DocBuf::new());
    for element in output {
        match fill_of(element.name(), element.value())? {
            Fill::Window(function) => push(&mut windows, element.name(), function),
            Fill::Value(value) => push(&mut values, element.name(), value),
        }
    }
    let mut stages: Vec<Arc<dyn Stage>> = Vec::new();
    if !windows.as_doc().is_empty() {
        let fields = spec.partition_by_fields.as_ref().map(|fields| Value::Doc(fields.as_doc()));
        let parts = Parts {
            partition_by: spec.partition_by.or(fields),
            sort_by: spec.sort_by,
            output: windows.as_doc(),
        };
        stages = set_window_fields::assemble(&parts, cx)?;
    }
    if !values.as_doc().is_empty() {
        let spec = Value::Doc(values.as_doc());
        stages.push(add_fields::parse("$addFields", spec, cx)?.into());
    }
    Ok(Several::boxed(stages))
}

/// The filling of one field, as the field's value in the stage that does it.
enum Fill {
    Window(ValueBuf),
    Value(ValueBuf),
}

fn push(doc: &mut DocBuf, name: &str, value: ValueBuf) {
    *doc = DocBuf::build(|out| {
        out.extend(doc.as_doc());
        out.put(name, value.value());
    });
}

fn fill_of(field: &str, spec: Value<'_>) -> Result<Fill> {
    parse_field_path(field)?;
    let Value::Doc(spec) = spec else {
        bail!(
            Code::Location(6_050_200),
            "Each fill output specification must be an object with exactly one field"
        );
    };
    let path = format!("${field}");
    let mut fill = None;
    for element in spec {
        let made = match (element.name(), element.value()) {
            ("method", Value::String("locf")) => Fill::Window(operator("$locf", &path)),
            ("method", Value::String("linear")) => Fill::Window(operator("$linearFill", &path)),
            ("method", Value::String(_)) => {
                bail!(Code::Location(6_050_202), "Method must be either locf or linear")
            }
            ("method", other) => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '$fill.output.method' is the wrong type '{}', expected type 'string'",
                other.kind().name()
            ),
            ("value", value) => Fill::Value(if_null(&path, value)),
            (name, _) => bail!(
                Code::Location(40415),
                "BSON field '$fill.output.{name}' is an unknown field."
            ),
        };
        if fill.replace(made).is_some() {
            bail!(
                Code::Location(6_050_201),
                "Each fill output specification must have exactly one of 'method' and 'value'"
            );
        }
    }
    match fill {
        Some(fill) => Ok(fill),
        None => bail!(
            Code::Location(6_050_201),
            "Each fill output specification must have exactly one of 'method' and 'value'"
        ),
    }
}

fn operator(name: &str, path: &str) -> ValueBuf {
    let doc = DocBuf::build(|out| out.put(name, path));
    ValueBuf::new(Value::Doc(doc.as_doc()))
}

fn if_null(path: &str, value: Value<'_>) -> ValueBuf {
    let doc = DocBuf::build(|out| {
        out.array("$ifNull", |out| {
            out.push(path);
            out.push(value);
        });
    });
    ValueBuf::new(Value::Doc(doc.as_doc()))
}

fn read<'s>(spec: Value<'s>) -> Result<Spec<'s>> {
    let Value::Doc(doc) = spec else {
        bail!(
            Code::FAILED_TO_PARSE,
            "The $fill stage specification must be an object, found {}",
            spec.kind().name()
        );
    };
    let mut spec = Spec::default();
    for element in doc {
        let value = element.value();
        match (element.name(), value) {
            ("partitionBy", Value::Doc(_) | Value::String(_)) => spec.partition_by = Some(value),
            ("partitionBy", other) => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '$fill.partitionBy' is the wrong type '{}', expected types '[string, \
                 object']",
                other.kind().name()
            ),
            ("partitionByFields", Value::Array(fields)) => {
                spec.partition_by_fields = Some(fields_key(fields)?);
            }
            ("sortBy", Value::Doc(keys)) => spec.sort_by = Some(keys),
            ("output", Value::Doc(fields)) => spec.output = Some(fields),
            (name @ ("partitionByFields" | "sortBy" | "output"), other) => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '$fill.{name}' is the wrong type '{}', expected type '{}'",
                other.kind().name(),
                if name == "partitionByFields" { "array" } else { "object" }
            ),
            (name, _) => {
                bail!(Code::Location(40415), "BSON field '$fill.{name}' is an unknown field.")
            }
        }
    }
    Ok(spec)
}

/// The key of a partition: an object of the fields. A dotted path is stored under its position.
fn fields_key(fields: nagi_bson::Array<'_>) -> Result<DocBuf> {
    let mut key = DocBuf::new();
    for (at, field) in fields.iter().enumerate() {
        let Value::String(path) = field else {
            bail!(
                Code::TYPE_MISMATCH,
                "BSON field '$fill.partitionByFields.{at}' is the wrong type '{}', expected type \
                 'string'",
                field.kind().name()
            );
        };
        parse_field_path(path)?;
        let name = if path.contains('.') { format!("path{at}") } else { path.to_owned() };
        push(&mut key, &name, ValueBuf::new(Value::String(&format!("${path}"))));
    }
    Ok(key)
}
