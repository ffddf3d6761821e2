//! `$near`, `$nearSphere` and their older forms: a centre, and the minimal and maximal distance from it.
//!
//! ```text
//!   {$near: [x, y], $maxDistance: d}                               plane, distances in its units
//!   {$nearSphere: [lng, lat], $maxDistance: r}                     sphere, radians
//!   {$near: {$geometry: {type: "Point", ...}, $maxDistance: m}}    sphere, metres
//!   {$near: {type: "Point", ...}, $maxDistance: m}                 the same
//! ```

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, number, text};
use nagi_error::{Code, Result, bail};

use super::{
    flat,
    parse::{self, Parse},
    query::{GeoTest, fault},
    sphere::{self, EARTH_RADIUS_M, Point},
};

/// A parsed `$near` condition; clones share it.
#[derive(Debug, Clone)]
pub struct GeoNear(Arc<Near>);

/// The centre, the measure and the limits of the distances.
#[derive(Debug, Clone)]
pub struct Near {
    pub x: f64,
    pub y: f64,
    pub measure: Measure,
    /// The limits of the distance in the unit of the measure, both inclusive.
    pub min: f64,
    pub max: f64,
    source: DocBuf,
}

/// The surface and the unit of the distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Plane,
    Radians,
    Metres,
}

impl std::ops::Deref for GeoNear {
    type Target = Near;

    fn deref(&self) -> &Near {
        &self.0
    }
}

impl GeoNear {
    /// Creates a condition from its parts, for `$geoNear`. `source` is the document that explain outputs.
    pub fn new(center: (f64, f64), measure: Measure, range: (f64, f64), source: DocBuf) -> GeoNear {
        GeoNear(Arc::new(Near {
            x: center.0,
            y: center.1,
            measure,
            min: range.0,
            max: range.1,
            source,
        }))
    }

    /// Returns true if the first operator of a field is `$near` or one of its variants.
    pub fn is_near(doc: Doc<'_>) -> bool {
        doc.first().is_some_and(|first| {
            matches!(first.name(), "$near" | "$nearSphere" | "$geoNear")
                && matches!(first.value(), Value::Doc(_) | Value::Array(_))
        })
    }

    /// Parses the operators of a field whose first operator is `$near` or one of its variants.
    ///
    /// # Errors
    /// 2 for the point and for the distances inside of an object with `$geometry`, 16893-16896 for the distances that
    /// are siblings of the operator, 34413 for other siblings.
    pub fn parse(doc: Doc<'_>) -> Result<GeoNear> {
        let Some(first) = doc.first() else {
            bail!(Code::BAD_VALUE, "empty geo near query object");
        };
        let operand = first.value();
        let (point, third) = match query_point(operand) {
            Ok(point) => (Some(point), None),
            Err(_) => point_with_distance(operand).unzip(),
        };
        if point.is_none() && operand.as_doc().is_none_or(|doc| doc.get("$geometry").is_missing()) {
            bail!(
                Code::BAD_VALUE,
                "invalid point provided to geo near query: {}",
                text::value_text(operand)
            );
        }
        let range = siblings(doc, third)?;
        match (point, operand) {
            (Some(point), _) => beside(doc, point, range, first.name() == "$nearSphere"),
            (None, Value::Doc(inner)) => of_geometry(doc, inner),
            (None, _) => bail!(Code::BAD_VALUE, "geo near query argument is not an object"),
        }
    }

    pub fn source(&self) -> Doc<'_> {
        self.0.source.as_doc()
    }
}

impl Near {
    pub fn center(&self) -> Point {
        sphere::point_at(self.x, self.y)
    }

    /// A test that each geometry within the limit passes, and a few others by rounding; none on the plane, and if that
    /// is no limit.
    pub fn around(&self) -> Option<GeoTest> {
        // For rounding.
        const SLACK: f64 = 1e-9;
        let radius = match self.measure {
            Measure::Plane => return None,
            Measure::Metres => self.max / EARTH_RADIUS_M,
            Measure::Radians => self.max,
        };
        let radius = radius * (1.0 + SLACK) + SLACK;
        (radius < std::f64::consts::PI).then(|| GeoTest::near((self.x, self.y), radius))
    }

    pub fn is_spherical(&self) -> bool {
        self.measure != Measure::Plane
    }

    /// Converts an angle to the unit of the measure.
    pub fn of_radians(&self, angle: f64) -> f64 {
        match self.measure {
            Measure::Metres => angle * EARTH_RADIUS_M,
            // Converted through metres, as in the recorded answers; this affects the last digit.
            _ => angle * EARTH_RADIUS_M / EARTH_RADIUS_M,
        }
    }

    /// The distance of a stored geometry; none if the value is not a geometry on this surface.
    pub fn distance(&self, value: Value<'_>) -> Option<f64> {
        let stored = parse::stored(value).ok()?;
        match self.measure {
            Measure::Plane => Some(flat::distance((self.x, self.y), stored.in_plane()?)),
            _ => Some(self.of_radians(stored.on_sphere()?.distance(&self.center()))),
        }
    }

    /// Returns true if the distance is within the limits.
    pub fn accepts(&self, distance: f64) -> bool {
        (self.min..=self.max).contains(&distance)
    }
}

/// Parses a distance; `codes` are the errors for "not a number" and "negative".
fn limit(name: &str, value: Value<'_>, codes: (i32, i32)) -> Result<f64> {
    if !value.is_number() {
        bail!(Code::Location(codes.0), "{name} must be a number");
    }
    match number::as_f64(value) {
        Some(limit) if limit >= 0.0 => Ok(limit),
        _ => bail!(Code::Location(codes.1), "{name} must be non-negative"),
    }
}

/// Parses the distances that are siblings of the operator. `third` is the distance in `[x, y, maxDistance]`.
fn siblings(doc: Doc<'_>, third: Option<f64>) -> Result<(f64, f64)> {
    let (mut min, mut max) = (0.0, third.unwrap_or(f64::MAX));
    if max.is_nan() || max < 0.0 {
        bail!(Code::Location(18522), "max distance must be non-negative");
    }
    for element in doc.iter().skip(1) {
        match element.name() {
            "$minDistance" => min = limit("$minDistance", element.value(), (16893, 16894))?,
            "$maxDistance" => max = limit("$maxDistance", element.value(), (16895, 16896))?,
            "$uniqueDocs" => {}
            other => {
                bail!(Code::Location(34413), "invalid argument in geo near query: {other}")
            }
        }
    }
    Ok((min, max))
}

/// Builds the condition for `{$near: point, $maxDistance: d}`. For a GeoJSON point the distances are metres.
fn beside(doc: Doc<'_>, at: QueryPoint, range: (f64, f64), spherical: bool) -> Result<GeoNear> {
    if spherical && !sphere::is_lng_lat(at.x, at.y) {
        bail!(Code::BAD_VALUE, "Legacy point is out of bounds for spherical query");
    }
    let measure = match (at.geo_json, spherical) {
        (true, _) => Measure::Metres,
        (false, true) => Measure::Radians,
        (false, false) => Measure::Plane,
    };
    Ok(GeoNear::new((at.x, at.y), measure, range, doc.to_buf()))
}

/// Parses `{$near: {$geometry: point, $maxDistance: d}}`.
fn of_geometry(doc: Doc<'_>, operand: Doc<'_>) -> Result<GeoNear> {
    if let Some(extra) = doc.iter().nth(1) {
        bail!(
            Code::BAD_VALUE,
            "geo near accepts just one argument when querying for a GeoJSON point. Extra field \
             found: {}: {}",
            extra.name(),
            text::value_text(extra.value())
        );
    }
    let mut center = None;
    let (mut min, mut max) = (0.0, f64::MAX);
    for element in operand {
        match element.name() {
            "$geometry" => center = geometry(element.value())?.or(center),
            name @ "$minDistance" => min = inner_limit(name, element.value())?,
            name @ "$maxDistance" => max = inner_limit(name, element.value())?,
            other => bail!(Code::BAD_VALUE, "invalid argument in geo near query: {other}"),
        }
    }
    let Some(center) = center else {
        bail!(Code::BAD_VALUE, "$geometry is required for geo near query");
    };
    Ok(GeoNear::new(center, Measure::Metres, (min, max), doc.to_buf()))
}

/// Parses a distance inside of an object with `$geometry`.
fn inner_limit(name: &str, value: Value<'_>) -> Result<f64> {
    if !value.is_number() {
        bail!(Code::BAD_VALUE, "{name} must be a number");
    }
    match number::as_f64(value) {
        Some(limit) if limit >= 0.0 && limit.is_finite() => Ok(limit),
        _ => bail!(Code::BAD_VALUE, "{name} must be non-negative"),
    }
}

/// Parses the point of `$geometry`; none if it is neither a document nor an array.
fn geometry(value: Value<'_>) -> Result<Option<(f64, f64)>> {
    if !matches!(value, Value::Doc(_) | Value::Array(_)) {
        return Ok(None);
    }
    let point = query_point(value).or_else(|reason| {
        fault(Err(format!(
            "invalid point in geo near query $geometry argument: {}  {reason}",
            text::value_text(value)
        )))
    })?;
    if !point.geo_json {
        bail!(Code::BAD_VALUE, "$near requires geojson point, given {}", text::value_text(value));
    }
    Ok(Some((point.x, point.y)))
}

/// A point in a query.
struct QueryPoint {
    x: f64,
    y: f64,
    geo_json: bool,
}

/// Parses a legacy pair of exactly two numbers, or a GeoJSON point.
fn query_point(value: Value<'_>) -> Parse<QueryPoint> {
    let Some(doc) = value.as_doc().filter(|doc| !parse::is_legacy(Value::Doc(*doc))) else {
        let (x, y) = parse::pair(value, false)?;
        return Ok(QueryPoint { x, y, geo_json: false });
    };
    let (x, y) = parse::lng_lat(doc.get("coordinates"))?;
    if doc.get("type").as_str() != Some("Point") {
        return Err("not a Point".to_owned());
    }
    parse::geo_json(doc)?;
    Ok(QueryPoint { x, y, geo_json: true })
}

/// Parses `[x, y, maxDistance]`, also as fields of a document.
fn point_with_distance(value: Value<'_>) -> Option<(QueryPoint, f64)> {
    let numbers = parse::numbers(value)?;
    let &[x, y, distance] = &*numbers else { return None };
    Some((QueryPoint { x, y, geo_json: false }, distance))
}
