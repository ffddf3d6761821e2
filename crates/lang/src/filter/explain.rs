//! Converts a filter back to a document: `parsedQuery` and `filter` in the output of explain.

use nagi_bson::{DocBuf, DocWriter, Type, Value};

use super::{Filter, Pred};
use crate::path::FieldPath;

impl Filter {
    /// The filter in MongoDB's notation. A filter in normal form is output in normal form.
    pub fn to_doc(&self) -> DocBuf {
        DocBuf::build(|out| self.write(out))
    }

    /// Writes the fields of [`Filter::to_doc`].
    pub fn write(&self, out: &mut DocWriter<'_>) {
        match self {
            Filter::AlwaysTrue | Filter::Given(_) => {}
            Filter::AlwaysFalse => out.put("$alwaysFalse", 1),
            Filter::And(parts) if parts.iter().any(|part| matches!(part, Filter::Given(_))) => {
                let shown = parts.iter().filter(|part| !matches!(part, Filter::Given(_)));
                Filter::And(shown.cloned().collect()).normalize().write(out);
            }
            Filter::And(parts) => list(out, "$and", parts),
            Filter::Or(parts) => list(out, "$or", parts),
            Filter::Nor(parts) => list(out, "$nor", parts),
            Filter::Not(inner) => match &**inner {
                Filter::Field { path, .. } => {
                    out.doc(path.as_str(), |out| out.doc("$not", |out| inner.write_operators(out)));
                }
                other => list(out, "$nor", std::slice::from_ref(other)),
            },
            Filter::Field { path, pred } => {
                out.doc(path.as_str(), |out| write_pred(pred, out));
            }
            Filter::Expr(expr) => out.put("$expr", expr.source.value()),
            Filter::Schema(schema) => out.put("$jsonSchema", schema.source()),
            Filter::Text(text) => out.doc("$text", |out| text.write(out)),
            Filter::Where(script) => out.put("$where", script.source.value()),
        }
    }

    /// Writes the operators of conditions that share one path (or have none).
    fn write_operators(&self, out: &mut DocWriter<'_>) {
        match self {
            Filter::Field { pred, .. } => write_pred(pred, out),
            Filter::And(parts) => parts.iter().for_each(|part| part.write_operators(out)),
            Filter::Not(inner) => {
                out.doc("$not", |out| inner.write_operators(out));
            }
            other => other.write(out),
        }
    }
}

fn list(out: &mut DocWriter<'_>, name: &str, parts: &[Filter]) {
    out.array(name, |out| {
        for part in parts {
            out.doc(|out| part.write(out));
        }
    });
}

fn write_pred(pred: &Pred, out: &mut DocWriter<'_>) {
    match pred {
        Pred::Compare { op, value, .. } => out.put(op.name(), value.value()),
        Pred::In(values) => out.array("$in", |out| {
            values.values().iter().for_each(|value| out.push(value.value()));
            for pattern in values.patterns() {
                let bytes = regex_bytes(pattern);
                if let Some(regex) = nagi_bson::Regex::from_bytes(&bytes) {
                    out.push(Value::Regex(regex));
                }
            }
        }),
        Pred::Exists => out.put("$exists", true),
        Pred::Type(types) => out.array("$type", |out| types.iter().for_each(|t| out.push(code(t)))),
        Pred::Regex(pattern) => {
            out.put("$regex", pattern.pattern());
            if !pattern.options().is_empty() {
                out.put("$options", pattern.options());
            }
        }
        Pred::Mod { divisor, remainder } => out.array("$mod", |out| {
            out.push(*divisor);
            out.push(*remainder);
        }),
        Pred::Size(count) => match i32::try_from(*count) {
            Ok(count) => out.put("$size", count),
            Err(_) => out.put("$size", *count),
        },
        Pred::Bits(bits) => out.array(bits.test.name(), |out| {
            bits.positions.iter().for_each(|at| out.push(*at as i32));
        }),
        Pred::Geo(test) => out.extend(test.source()),
        Pred::Near(near) => out.extend(near.source()),
        Pred::ElemMatchObject(inner) => out.doc("$elemMatch", |out| inner.write(out)),
        Pred::ElemMatchValue(inner) => out.doc("$elemMatch", |out| inner.write_operators(out)),
    }
}

fn regex_bytes(pattern: &crate::regex::Pattern) -> Vec<u8> {
    let mut bytes = pattern.pattern().as_bytes().to_vec();
    bytes.push(0);
    bytes.extend_from_slice(pattern.options().as_bytes());
    bytes.push(0);
    bytes
}

/// The number of a type in `$type`.
fn code(kind: Type) -> i32 {
    match kind {
        Type::MinKey => -1,
        kind => i32::from(kind as u8),
    }
}

impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.to_doc().as_doc())
    }
}

impl Filter {
    /// The path, if the filter is a leaf.
    pub fn path(&self) -> Option<&FieldPath> {
        match self {
            Filter::Field { path, .. } => Some(path),
            _ => None,
        }
    }
}
