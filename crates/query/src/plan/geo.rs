//! Geometry indexes: which cells a region needs, and the plan of the nearest documents.

use std::{f64::consts::PI, sync::Arc};

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    expr::MetaSet,
    filter::{Filter, Pred},
    geo::{self, EARTH_RADIUS_M, GeoNear, GeoTest, Measure, Near, Region, Zone},
    path::FieldPath,
    project::AddFields,
};
use nagi_store::{Collection, Geometry, Grid, Index};

use super::{
    Interval, Intervals,
    access::{self, assign_beside},
    bounds::Bounds,
    hint::Chosen,
    node::Node,
    usable,
};

/// Cells of a region that is looked up.
const CELL_COUNT_MAX: usize = 20;
/// Room for rounding around a disc on the sphere, radians.
const SLACK: f64 = 1e-9;

/// What a `$geoNear` stage asks for.
pub(crate) struct GeoNearSpec {
    pub(crate) near: GeoNear,
    /// Everything else that must match.
    pub(crate) query: Arc<Filter>,
    /// The indexed path, if it was given.
    pub(crate) key: Option<FieldPath>,
    pub(crate) shown: Arc<Shown>,
}

/// The fields that tell distance and place.
pub(crate) struct Shown(pub(crate) Option<AddFields>);

/// The documents of a collection by distance.
pub(crate) struct GeoNearAccess {
    pub(crate) collection: Arc<Collection>,
    pub(crate) index: Arc<Index>,
    /// The field of the index that is near.
    field: usize,
    /// Bounds of the other fields.
    bounds: Vec<Intervals>,
    pub(crate) path: FieldPath,
    pub(crate) near: GeoNear,
    pub(crate) filter: Option<Arc<Filter>>,
    pub(crate) shown: Option<Arc<Shown>>,
    /// Metadata that the documents carry.
    pub(crate) metas: MetaSet,
}

/// The bounds of a region in a geometry index; none if it is of no use.
pub(super) fn bounds(index: &Index, pred: &Pred) -> Option<Bounds> {
    let Pred::Geo(test) = pred else { return None };
    let ranges = match index.spec.geometry.as_ref()? {
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

fn intervals(ranges: &[(i64, i64)]) -> Intervals {
    let interval = |(low, high): &(i64, i64)| {
        Interval::new(Value::Int64(*low), true, Value::Int64(*high), true)
    };
    Intervals::from_any(ranges.iter().filter_map(interval).collect())
}

/// Everything indexed by a cell within the covering of a zone, or by a cell around it.
fn of_zone(geometry: &Geometry, zone: &Zone) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    for cell in geometry.cells(zone, CELL_COUNT_MAX) {
        let (low, high) = geo::range(cell);
        out.push((low as i64, high as i64));
        out.extend(geo::ancestors(cell).map(|around| (around as i64, around as i64)));
    }
    out
}

/// The squares around a disc on the sphere: its latitudes, and the longitudes it reaches unless it
/// holds a pole or lies across the date line.
fn of_disc(grid: &Grid, center: &geo::Point, radius: f64) -> Vec<(i64, i64)> {
    let radius = radius + SLACK;
    let (lat, lng) = (center.latitude().rad(), center.longitude().rad());
    let (south, north) = (lat - radius, lat + radius);
    let all = (-PI, PI);
    let (west, east) = match (radius.sin() / lat.cos()).asin() {
        _ if south <= -PI / 2.0 || north >= PI / 2.0 => all,
        reach if !reach.is_finite() || lng - reach < -PI || lng + reach > PI => all,
        reach => (lng - reach - SLACK, lng + reach + SLACK),
    };
    let degrees = |at: f64| at.to_degrees();
    grid.ranges((degrees(west), degrees(south)), (degrees(east), degrees(north)))
}

impl GeoNearAccess {
    pub(crate) fn stage_name(&self) -> &'static str {
        match self.index.spec.geometry {
            Some(Geometry::Plane(_)) => "GEO_NEAR_2D",
            _ => "GEO_NEAR_2DSPHERE",
        }
    }

    /// The first distance to search up to, in the unit of the condition.
    pub(crate) fn first_width(&self) -> f64 {
        match (self.near.measure, &self.index.spec.geometry) {
            (Measure::Plane, Some(Geometry::Plane(grid))) => (grid.max - grid.min) / 65536.0,
            (Measure::Metres, _) => 30.0,
            _ => 30.0 / EARTH_RADIUS_M,
        }
    }

    /// The distance beyond which there is nothing.
    pub(crate) fn reach(&self) -> f64 {
        let farthest = match (self.near.measure, &self.index.spec.geometry) {
            (Measure::Plane, Some(Geometry::Plane(grid))) => {
                let far = |at: f64| (at - grid.min).abs().max((grid.max - at).abs());
                far(self.near.x).hypot(far(self.near.y))
            }
            (Measure::Metres, _) => (PI + SLACK) * EARTH_RADIUS_M,
            _ => PI + SLACK,
        };
        farthest.min(self.near.max)
    }

    /// The bounds of the index for what is between two distances.
    pub(crate) fn ring(&self, inner: f64, outer: f64) -> Vec<Intervals> {
        let near: &Near = &self.near;
        let radians = |distance: f64| match near.measure {
            Measure::Metres => distance / EARTH_RADIUS_M,
            _ => distance,
        };
        let ranges = match &self.index.spec.geometry {
            Some(Geometry::Plane(grid)) if near.measure == Measure::Plane => {
                // A little more than the square, for rounding in the distance.
                let outer = outer * (1.0 + 1e-12);
                let (x, y) = (near.x, near.y);
                grid.ranges((x - outer, y - outer), (x + outer, y + outer))
            }
            Some(Geometry::Plane(grid)) => of_disc(grid, &near.center(), radians(outer)),
            Some(geometry) => {
                let (inner, outer) = (radians(inner) - SLACK, radians(outer) + SLACK);
                of_zone(geometry, &Zone::Annulus { center: near.center(), inner, outer })
            }
            None => Vec::new(),
        };
        let mut bounds = self.bounds.clone();
        bounds[self.field] = intervals(&ranges);
        bounds
    }
}

/// Whether an index measures on the surface that a condition asks for.
fn serves(index: &Index, near: &Near) -> bool {
    match index.spec.geometry {
        Some(Geometry::Plane(_)) => near.measure != Measure::Metres,
        Some(Geometry::Sphere { .. }) => near.measure != Measure::Plane,
        None => false,
    }
}

/// The plan of a condition of nearness with what else must match: which fields tell of it, and which
/// metadata.
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
            let field = key.iter().position(|part| part.geo && *part.path == *path.as_str())?;
            let found = assign_beside(&index, &items, Some(field))?;
            Some((index, field, found))
        })
        .max_by_key(|(index, _, found)| {
            (found.bound_fields, matches!(index.spec.geometry, Some(Geometry::Sphere { .. })))
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
            let geometry = &index.spec.geometry;
            let is_plane = matches!(geometry, Some(Geometry::Plane(_)));
            geometry.is_some() && is_plane == plane && !index.spec.hidden
        });
        let Some(index) = found.next() else { continue };
        let mut paths = index.spec.key.iter().filter(|part| part.geo);
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
