//! Searches in geometry indexes: the cells that a region covers, and the rings around a point.

use std::{f64::consts::PI, sync::Arc};

use nagi_bson::Value;
use nagi_lang::{
    expr::MetaSet,
    filter::Filter,
    geo::{self, EARTH_RADIUS_M, GeoNear, Measure, Near, Zone},
    path::FieldPath,
    project::AddFields,
};
use nagi_store::{Collection, Geometry, Grid, Index};

use super::{Interval, Intervals};

/// Allowance for rounding around a disc on the sphere, in radians.
const SLACK: f64 = 1e-9;

/// Limit of the cells that cover a region.
const CELL_COUNT_MAX: usize = 20;
/// The arguments of a `$geoNear` stage.
pub(crate) struct GeoNearSpec {
    pub(crate) near: GeoNear,
    /// The filter that documents must match in addition.
    pub(crate) query: Arc<Filter>,
    /// The indexed path, if the stage names it.
    pub(crate) key: Option<FieldPath>,
    pub(crate) shown: Arc<Shown>,
}

/// The fields into which the stage writes distance and location.
pub(crate) struct Shown(pub(crate) Option<AddFields>);

/// Access to the documents of a collection in the order of distance.
pub(crate) struct GeoNearAccess {
    pub(crate) collection: Arc<Collection>,
    pub(crate) index: Arc<Index>,
    /// The field of the index with the geometry.
    pub(crate) field: usize,
    /// Bounds of the other fields.
    pub(crate) bounds: Vec<Intervals>,
    pub(crate) path: FieldPath,
    pub(crate) near: GeoNear,
    pub(crate) filter: Option<Arc<Filter>>,
    pub(crate) shown: Option<Arc<Shown>>,
    /// Metadata that the documents must carry.
    pub(crate) metas: MetaSet,
}

pub(crate) fn intervals(ranges: &[(i64, i64)]) -> Intervals {
    let interval = |(low, high): &(i64, i64)| {
        Interval::new(Value::Int64(*low), true, Value::Int64(*high), true)
    };
    Intervals::from_any(ranges.iter().filter_map(interval).collect())
}

/// The ranges of the cells that cover a zone, and of the cells that contain it.
pub(crate) fn of_zone(geometry: &Geometry, zone: &Zone) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    for cell in geometry.cells(zone, CELL_COUNT_MAX) {
        let (low, high) = geo::range(cell);
        out.push((low as i64, high as i64));
        out.extend(geo::ancestors(cell).map(|around| (around as i64, around as i64)));
    }
    out
}

/// The squares around a disc on the sphere: its latitudes, and its longitudes unless it contains a pole or crosses
/// the date line.
pub(crate) fn of_disc(grid: &Grid, center: &geo::Point, radius: f64) -> Vec<(i64, i64)> {
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
        match self.index.spec.geometry() {
            Some(Geometry::Plane(_)) => "GEO_NEAR_2D",
            _ => "GEO_NEAR_2DSPHERE",
        }
    }

    /// The first search radius, in the unit of the condition.
    pub(crate) fn first_width(&self) -> f64 {
        match (self.near.measure, self.index.spec.geometry()) {
            (Measure::Plane, Some(Geometry::Plane(grid))) => (grid.max - grid.min) / 65536.0,
            (Measure::Metres, _) => 30.0,
            _ => 30.0 / EARTH_RADIUS_M,
        }
    }

    /// The distance beyond which no document can be.
    pub(crate) fn reach(&self) -> f64 {
        let farthest = match (self.near.measure, self.index.spec.geometry()) {
            (Measure::Plane, Some(Geometry::Plane(grid))) => {
                let far = |at: f64| (at - grid.min).abs().max((grid.max - at).abs());
                far(self.near.x).hypot(far(self.near.y))
            }
            (Measure::Metres, _) => (PI + SLACK) * EARTH_RADIUS_M,
            _ => PI + SLACK,
        };
        farthest.min(self.near.max)
    }

    /// The bounds of the index for documents between two distances.
    pub(crate) fn ring(&self, inner: f64, outer: f64) -> Vec<Intervals> {
        let near: &Near = &self.near;
        let radians = |distance: f64| match near.measure {
            Measure::Metres => distance / EARTH_RADIUS_M,
            _ => distance,
        };
        let ranges = match self.index.spec.geometry() {
            Some(Geometry::Plane(grid)) if near.measure == Measure::Plane => {
                // Slightly more than the square, because distances are rounded.
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
