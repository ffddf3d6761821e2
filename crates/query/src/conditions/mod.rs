//! Conditions that are derived from others: under other names of paths, and on the buckets of a time series.

pub(crate) mod buckets;

use nagi_lang::{
    filter::{Filter, Pred},
    path::FieldPath,
};

/// The condition with the names that `source` gives; none if a path has no name, or if the condition may read other
/// paths.
pub(crate) fn renamed(
    filter: &Filter,
    source: &mut dyn FnMut(&str, &Pred) -> Option<String>,
) -> Option<Filter> {
    let mut all = |parts: &[Filter]| -> Option<Vec<Filter>> {
        parts.iter().map(|part| renamed(part, source)).collect()
    };
    Some(match filter {
        Filter::AlwaysTrue | Filter::AlwaysFalse => filter.clone(),
        Filter::And(parts) => Filter::And(all(parts)?),
        Filter::Or(parts) => Filter::Or(all(parts)?),
        Filter::Nor(parts) => Filter::Nor(all(parts)?),
        Filter::Not(inner) => Filter::Not(Box::new(renamed(inner, source)?)),
        Filter::Field { path, pred } => {
            let name = source(path.as_str(), pred)?;
            Filter::Field { path: FieldPath::new(&name), pred: pred.clone() }
        }
        _ => return None,
    })
}
