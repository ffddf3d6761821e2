//! Replaces a scan over several points by several sorted scans. `{a: {$in: [1, 2]}}` sorted by `b` over an index of
//! `a` and `b` becomes the merge of two scans, each in order, instead of a blocking sort.

use std::sync::Arc;

use nagi_lang::sort::SortSpec;
use nagi_store::Index;

use super::order;
use crate::access::{IndexAccess, Intervals};

/// Limit of scans that one plan may be split into; MongoDB's `internalQueryMaxScansToExplode`.
const SCANS_MAX: usize = 200;

/// The scans whose merge yields `sort`; none if the leading fields are not points, if there are too many points, or
/// if the fields after them are in another order.
pub(super) fn explode(
    index: &Arc<Index>,
    bounds: &[Intervals],
    sort: &SortSpec,
) -> Option<Vec<Arc<IndexAccess>>> {
    if index.is_multikey() {
        return None;
    }
    let fields = bounds.iter().zip(index.spec.key.iter());
    let prefix =
        fields.take_while(|(values, part)| values.is_points() && part.holds_value()).count();
    let count = bounds[..prefix].iter().try_fold(1_usize, |count, values| {
        count.checked_mul(values.0.len()).filter(|count| *count <= SCANS_MAX)
    })?;
    if count < 2 {
        return None;
    }
    let mut points = vec![bounds.to_vec()];
    for field in 0..prefix {
        points = points
            .into_iter()
            .flat_map(|bounds| {
                let values = bounds[field].0.clone();
                values.into_iter().map(move |value| {
                    let mut bounds = bounds.clone();
                    bounds[field] = Intervals(vec![value]);
                    bounds
                })
            })
            .collect();
    }
    // The order does not depend on the values of the points.
    let forward = order::direction_for(index, &points[0], sort)?;
    let scan = |bounds| {
        Arc::new(IndexAccess {
            index: index.clone(),
            bounds,
            forward,
            dedup: false,
            distinct: None,
            filter: None,
            range: None,
        })
    };
    Some(points.into_iter().map(scan).collect())
}
