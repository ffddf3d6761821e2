//! `queryHash` and `planCacheKey`: eight hexadecimal digits that are equal for queries of one shape
//! (paths and operators, not values) and, for the second, the same access paths.

use nagi_lang::filter::{Filter, Pred};

use crate::plan::Node;

/// The hash of the filter's shape, and of shape and indexes.
pub(super) fn hashes(filter: &Filter, plan: &Node) -> (String, String) {
    let mut shape = String::new();
    describe(filter, &mut shape);
    let mut with_plan = shape.clone();
    plan.summary(&mut with_plan);
    (hash(&shape), hash(&with_plan))
}

/// FNV-1a, 32 bits: stable between runs.
fn hash(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0x811C_9DC5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08X}")
}

fn describe(filter: &Filter, out: &mut String) {
    let list = |name: &str, parts: &[Filter], out: &mut String| {
        out.push_str(name);
        out.push('(');
        parts.iter().for_each(|part| describe(part, out));
        out.push(')');
    };
    match filter {
        Filter::And(all) => list("and", all, out),
        Filter::Or(any) => list("or", any, out),
        Filter::Nor(none) => list("nor", none, out),
        Filter::Not(inner) => list("not", std::slice::from_ref(&**inner), out),
        Filter::Field { path, pred } => {
            out.push_str(path.as_str());
            out.push(':');
            out.push_str(name(pred));
            if let Pred::ElemMatchObject(inner) | Pred::ElemMatchValue(inner) = pred {
                list("", std::slice::from_ref(&**inner), out);
            }
            out.push(';');
        }
        Filter::AlwaysTrue => {}
        Filter::AlwaysFalse => out.push_str("false"),
        Filter::Expr(_) => out.push_str("expr"),
        Filter::Schema(_) => out.push_str("schema"),
        Filter::Where(_) => out.push_str("where"),
    }
}

fn name(pred: &Pred) -> &'static str {
    match pred {
        Pred::Compare { op, .. } => op.name(),
        Pred::In(_) => "$in",
        Pred::Exists => "$exists",
        Pred::Type(_) => "$type",
        Pred::Regex(_) => "$regex",
        Pred::Mod { .. } => "$mod",
        Pred::Size(_) => "$size",
        Pred::Bits(_) => "$bits",
        Pred::Geo(_) => "$geo",
        Pred::Near(_) => "$near",
        Pred::ElemMatchObject(_) | Pred::ElemMatchValue(_) => "$elemMatch",
    }
}
