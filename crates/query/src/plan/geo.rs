//! Geometry indexes: the cells that a region needs, and the plan for the nearest documents.

use std::sync::Arc;

use nagi_error::{Code, Result, bail};
use nagi_lang::{
    expr::MetaSet,
    filter::{Filter, Pred},
    geo::{GeoNear, GeoTest, Measure, Near, Region, Zone},
    path::FieldPath,
};
use nagi_store::{Collection, Geometry, Index};

use super::{
    access::{self, assign_beside},
    bounds::Bounds,
    hint::Chosen,
    node::Node,
    usable,
};
use crate::access::geo::{intervals, of_disc, of_zone};
use crate::access::{GeoNearAccess, GeoNearSpec, Shown};

/// The bounds of a region in a geometry index; none if the index does not serve.
pub(super) fn bounds(index: &Index, pred: &Pred) -> Option<Bounds> {
    let Pred::Geo(test) = pred else { return None };
    let ranges = match index.spec.geometry()? {
        geometry @ Geometry::Sphere { .. } => of_zone(geometry, &zone(test)?),
        Geometry::Plane(grid) => match test.region() {
            Region::Flat(flat) => {
                let (low, high) = flat.bounds();
                grid.ranges(low, high)
            }
            Region::Disc(disc) => of_disc(grid, &disc.center, disc.radius),
            Region::Shape(_) => return None,
        },
    };
    Some(Bounds::inexact(intervals(&ranges)))
}

fn zone(test: &GeoTest) -> Option<Zone> {
    match test.region() {
        Region::Flat(_) => None,
        Region::Disc(disc) => Some(Zone::Disc(disc.clone())),
        Region::Shape(shape) => Some(Zone::Shape(shape.clone())),
    }
}

/// Returns true if an index measures on the surface that a condition requires.
fn serves(index: &Index, near: &Near) -> bool {
    match index.spec.geometry() {
        Some(Geometry::Plane(_)) => near.measure != Measure::Metres,
        Some(Geometry::Sphere { .. }) => near.measure != Measure::Plane,
        None => false,
    }
}

/// The plan of a nearness condition, with the rest of the filter, and with the fields and metadata that show the
/// distance.
///
/// # Errors
/// 291 if there is no index for it.
pub(super) fn near(
    collection: &Arc<Collection>,
    filter: &Arc<Filter>,
    (path, near): (&FieldPath, &GeoNear),
    chosen: Option<&Chosen>,
    (shown, metas): (Option<&Arc<Shown>>, MetaSet),
) -> Result<Node> {
    let whole = Filter::And(vec![
        (**filter).clone().without_near(),
        Filter::Field { path: path.clone(), pred: Pred::Near(near.clone()) },
    ])
    .normalize();
    let items = access::items(access::conjuncts(&whole));
    let hinted = |index: &Arc<Index>| match chosen {
        None => true,
        Some(Chosen::Index(only)) => Arc::ptr_eq(only, index),
        Some(Chosen::Natural(_)) => false,
    };
    let best = usable::usable(collection, &items, &whole, None)
        .0
        .into_iter()
        .filter(|index| serves(index, near) && hinted(index))
        .filter_map(|index| {
            let key = &index.spec.key;
            let field =
                key.iter().position(|part| part.is_geometry() && *part.path == *path.as_str())?;
            let found = assign_beside(&index, &items, Some(field))?;
            Some((index, field, found))
        })
        .max_by_key(|(index, _, found)| {
            (found.bound_fields, matches!(index.spec.geometry(), Some(Geometry::Sphere { .. })))
        });
    let Some((index, field, found)) = best else {
        bail!(
            Code::NO_QUERY_EXECUTION_PLANS,
            "error processing query: ns={} planner returned error :: caused by :: unable to find \
             index for $geoNear query",
            collection.namespace
        );
    };
    let rest = (**filter).clone().without_near();
    Ok(Node::GeoNear(Arc::new(GeoNearAccess {
        collection: collection.clone(),
        index: index.clone(),
        field,
        bounds: found.bounds,
        path: path.clone(),
        near: near.clone(),
        filter: (!matches!(rest, Filter::AlwaysTrue)).then(|| Arc::new(rest)),
        shown: shown.cloned(),
        metas,
    })))
}

/// The path of a `$geoNear` stage: the one it names, else that of the only geometry index.
///
/// # Errors
/// 27 if there is none or more than one.
pub(super) fn indexed_path(collection: &Collection, spec: &GeoNearSpec) -> Result<FieldPath> {
    if let Some(key) = &spec.key {
        return Ok(key.clone());
    }
    for (kind, plane) in [("2d", true), ("2dsphere", false)] {
        let mut found = collection.ready_indexes().filter(|index| {
            let geometry = index.spec.geometry();
            let is_plane = matches!(geometry, Some(Geometry::Plane(_)));
            geometry.is_some() && is_plane == plane && !index.spec.hidden
        });
        let Some(index) = found.next() else { continue };
        let mut paths = index.spec.key.iter().filter(|part| part.is_geometry());
        let first = paths.next().map_or("", |part| &*part.path);
        if found.next().is_some() || paths.next().is_some() {
            bail!(
                Code::INDEX_NOT_FOUND,
                "There is more than one {kind} index on {}; unsure which to use for $geoNear",
                collection.namespace
            );
        }
        return Ok(FieldPath::new(first));
    }
    bail!(Code::INDEX_NOT_FOUND, "$geoNear requires a 2d or 2dsphere index, but none were found");
}
