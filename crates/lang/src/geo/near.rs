//! `$near`, `$nearSphere` and their older forms: a centre, and how near and far.
//!
//!   {$near: [x, y], $maxDistance: d}              plane, distances in its units
//!   {$nearSphere: [lng, lat], $maxDistance: r}    sphere, radians
//!   {$near: {$geometry: {type: "Point", ...}, $maxDistance: m}}    sphere, metres

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, number, text};
use nagi_error::{Code, Result, bail};

use super::{
    flat,
    parse::{self, Parse},
    query::fault,
    sphere::{self, EARTH_RADIUS_M, Point},
};

/// A parsed condition of nearness; a clone shares it.
#[derive(Debug, Clone)]
pub struct GeoNear(Arc<Near>);

/// Where distances are measured from and in what.
#[derive(Debug, Clone)]
pub struct Near {
    pub x: f64,
    pub y: f64,
    pub measure: Measure,
    /// In the unit of the measure; both ends included.
    pub min: f64,
    pub max: f64,
    source: DocBuf,
}

/// The surface and its unit.
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
    /// A condition from its parts, for `$geoNear`. `source` is what explain shows.
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

    /// Whether a document of operators is one: `$near` and its like come first.
    pub fn is_near(doc: Doc<'_>) -> bool {
        doc.first().is_some_and(|first| {
            matches!(first.name(), "$near" | "$nearSphere" | "$geoNear")
                && matches!(first.value(), Value::Doc(_) | Value::Array(_))
        })
    }

    /// Parses the operators of a field of which the first is one of nearness.
    ///
    /// # Errors
    /// 2 for the point, 16893-16900 for the distances.
    pub fn parse(doc: Doc<'_>) -> Result<GeoNear> {
        let first = doc.first().map_or(Value::Missing, |first| first.value());
        match first {
            Value::Doc(inner) if !inner.first().is_some_and(|f| f.value().is_number()) => {
                parse_geo_json(doc, inner)
            }
            pair => parse_legacy(doc, pair),
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

    pub fn is_spherical(&self) -> bool {
        self.measure != Measure::Plane
    }

    /// An angle in the unit of the measure.
    pub fn of_radians(&self, angle: f64) -> f64 {
        match self.measure {
            Measure::Metres => angle * EARTH_RADIUS_M,
            // Through metres, as the recorded answers: the last digit shows it.
            _ => angle * EARTH_RADIUS_M / EARTH_RADIUS_M,
        }
    }

    /// How far away what a document holds is; none if it is no geometry of this surface.
    pub fn distance(&self, value: Value<'_>) -> Option<f64> {
        let stored = parse::stored(value).ok()?;
        match self.measure {
            Measure::Plane => Some(flat::distance((self.x, self.y), stored.in_plane()?)),
            _ => Some(self.of_radians(stored.on_sphere()?.distance(&self.center()))),
        }
    }

    /// Whether a distance is asked for.
    pub fn accepts(&self, distance: f64) -> bool {
        (self.min..=self.max).contains(&distance)
    }
}

/// One of the two distances; the codes are for "not a number" and "negative".
fn limit(name: &str, value: Value<'_>, codes: (i32, i32)) -> Result<f64> {
    if !value.is_number() {
        bail!(Code::Location(codes.0), "{name} must be a number");
    }
    match number::as_f64(value) {
        Some(limit) if limit >= 0.0 => Ok(limit),
        _ => bail!(Code::Location(codes.1), "{name} must be non-negative"),
    }
}

fn parse_legacy(doc: Doc<'_>, operand: Value<'_>) -> Result<GeoNear> {
    let name = doc.first().map_or("", |first| first.name());
    let spherical = name == "$nearSphere";
    let (x, y) = legacy_point(operand).or_else(|reason| {
        fault(Err(format!("invalid point provided to geo near query: {reason}")))
    })?;
    let (mut min, mut max) = (0.0, f64::MAX);
    // [x, y, maxDistance]
    if let Value::Array(array) = operand
        && let third @ (Value::Int32(_) | Value::Int64(_) | Value::Double(_)) = array.get(2)
    {
        max = limit("$maxDistance", third, (16895, 16896))?;
    }
    for element in doc.iter().skip(1) {
        match element.name() {
            "$minDistance" => min = limit("$minDistance", element.value(), (16893, 16894))?,
            "$maxDistance" => max = limit("$maxDistance", element.value(), (16895, 16896))?,
            "$uniqueDocs" => {}
            other => bail!(Code::BAD_VALUE, "invalid argument in geo near query: {other}"),
        }
    }
    if spherical && !sphere::is_lng_lat(x, y) {
        bail!(Code::BAD_VALUE, "Legacy point is out of bounds for spherical query");
    }
    let measure = if spherical { Measure::Radians } else { Measure::Plane };
    Ok(GeoNear::new((x, y), measure, (min, max), doc.to_buf()))
}

fn legacy_point(operand: Value<'_>) -> Parse<(f64, f64)> {
    parse::pair(operand, true)
}

fn parse_geo_json(doc: Doc<'_>, operand: Doc<'_>) -> Result<GeoNear> {
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
            "$geometry" => center = Some(geometry(element.value())?),
            "$minDistance" => min = limit("$minDistance", element.value(), (16897, 16898))?,
            "$maxDistance" => max = limit("$maxDistance", element.value(), (16899, 16900))?,
            other => bail!(Code::BAD_VALUE, "invalid argument in geo near query: {other}"),
        }
    }
    let Some(center) = center else {
        bail!(Code::BAD_VALUE, "$geometry is required for geo near query");
    };
    Ok(GeoNear::new(center, Measure::Metres, (min, max), doc.to_buf()))
}

fn geometry(value: Value<'_>) -> Result<(f64, f64)> {
    let Value::Doc(doc) = value else {
        bail!(
            Code::BAD_VALUE,
            "geo near query $geometry argument must be an object, got {}",
            value.kind().name()
        );
    };
    let parsed = parse::pair(doc.get("coordinates"), true).and_then(|(x, y)| match () {
        () if doc.get("type").as_str() != Some("Point") => Err("not a Point".to_owned()),
        () if !sphere::is_lng_lat(x, y) => {
            Err(format!("longitude/latitude is out of bounds, lng: {x} lat: {y}"))
        }
        () => Ok((x, y)),
    });
    parsed.or_else(|reason| {
        fault(Err(format!(
            "invalid point in geo near query $geometry argument: {}  {reason}",
            text::doc_text(doc)
        )))
    })
}
