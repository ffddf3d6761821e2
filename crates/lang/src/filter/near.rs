//! The placement rules of `$near`: it may occur once, and only among conditions that must all hold.

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};

use super::{Filter, Pred, parse::Parser};
use crate::geo::GeoNear;
use crate::path::FieldPath;

/// Parses the operators of a field whose first operator is `$near` or one of its variants.
pub(super) fn parse(parser: &Parser<'_, '_>, doc: Doc<'_>) -> Result<Pred> {
    if parser.nested {
        bail!(Code::BAD_VALUE, "geoNear must be top-level expr");
    }
    if !parser.allowed.near {
        bail!(
            Code::Location(5_626_500),
            "$geoNear, $near, and $nearSphere are not allowed in this context, as these operators \
             require sorting geospatial data. If you do not need sort, consider using $geoWithin \
             instead."
        );
    }
    GeoNear::parse(doc).map(Pred::Near)
}

/// Checks that there is at most one `$near`, and none below `$or`, `$nor` or `$not`.
pub(super) fn check(filter: &Filter) -> Result<()> {
    let mut top = 0;
    let mut all = 0;
    count(filter, true, &mut top, &mut all);
    if all > top {
        bail!(Code::BAD_VALUE, "geo $near must be top-level expr");
    }
    if all > 1 {
        bail!(Code::BAD_VALUE, "Too many geoNear expressions");
    }
    Ok(())
}

fn count(filter: &Filter, on_top: bool, top: &mut u32, all: &mut u32) {
    match filter {
        Filter::And(parts) => parts.iter().for_each(|part| count(part, on_top, top, all)),
        // An `$or` with a single branch is equivalent to the branch.
        Filter::Or(parts) if parts.len() == 1 => count(&parts[0], on_top, top, all),
        Filter::Or(parts) | Filter::Nor(parts) => {
            parts.iter().for_each(|part| count(part, false, top, all));
        }
        Filter::Not(inner) => count(inner, false, top, all),
        Filter::Field { pred: Pred::Near(_), .. } => {
            *all += 1;
            *top += u32::from(on_top);
        }
        _ => {}
    }
}

impl Filter {
    /// The `$near` condition and its path, if the filter has one.
    pub fn near(&self) -> Option<(&FieldPath, &GeoNear)> {
        match self {
            Filter::And(parts) => parts.iter().find_map(Filter::near),
            Filter::Or(parts) if parts.len() == 1 => parts[0].near(),
            Filter::Field { path, pred: Pred::Near(near) } => Some((path, near)),
            _ => None,
        }
    }

    /// The filter without its `$near` condition, in normal form.
    #[must_use]
    pub fn without_near(self) -> Filter {
        fn strip(filter: Filter) -> Filter {
            match filter {
                Filter::And(parts) => Filter::And(parts.into_iter().map(strip).collect()),
                Filter::Or(parts) if parts.len() == 1 => {
                    Filter::And(parts.into_iter().map(strip).collect())
                }
                Filter::Field { pred: Pred::Near(_), .. } => Filter::AlwaysTrue,
                other => other,
            }
        }
        strip(self).normalize()
    }
}
