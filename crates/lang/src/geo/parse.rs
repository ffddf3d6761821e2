//! The parser of geometries: GeoJSON, legacy pairs, and the shapes of queries.
//!
//! An error is a text in MongoDB's wording. The caller adds the code, which depends on where the geometry occurs.

use nagi_bson::{Doc, Value, number, text};

use super::{
    chain::Chain,
    flat::Flat,
    polygon::{LoopFault, Polygon, Ring},
    shape::{Disc, Shape, Stored},
    sphere::{self, Point},
};

/// A geometry, or the text of the error.
pub(super) type Parse<T> = std::result::Result<T, String>;

/// The interpretation of polygons in a geometry's coordinate system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Winding {
    /// The inside is the smaller side.
    Smaller,
    /// The inside is the left side of the ring in its written order.
    Strict,
}

/// The region of a query.
#[derive(Debug, Clone)]
pub enum Region {
    Flat(Flat),
    Disc(Disc),
    Shape(Shape),
}

/// The elements of an array or the values of a document.
fn values<'v>(value: Value<'v>) -> Option<Box<dyn Iterator<Item = Value<'v>> + 'v>> {
    match value {
        Value::Array(array) => Some(Box::new(array.iter())),
        Value::Doc(doc) => Some(Box::new(doc.iter().map(|element| element.value()))),
        _ => None,
    }
}

fn elements<'v>(value: Value<'v>, what: &str) -> Parse<impl Iterator<Item = Value<'v>>> {
    match value {
        Value::Array(array) => Ok(array.iter()),
        other => Err(format!("{what}, instead got type {}", other.kind().name())),
    }
}

/// Parses two numbers: `[x, y]` or `{a: x, b: y}`. `more` allows further elements.
pub fn pair(value: Value<'_>, more: bool) -> Parse<(f64, f64)> {
    let Some(mut parts) = values(value) else {
        let kind = value.kind().name();
        return Err(format!("Point must be an array or object, instead got type {kind}"));
    };
    let mut next = || {
        let value = parts.next().unwrap_or(Value::Missing);
        number::as_f64(value).filter(|_| value.is_number()).ok_or_else(|| {
            let kind = value.kind().name();
            format!("Point must only contain numeric elements, instead got type {kind}")
        })
    };
    let (x, y) = (next()?, next()?);
    if !more && parts.next().is_some() {
        return Err("Point must only contain two numeric elements".to_owned());
    }
    if !x.is_finite() || !y.is_finite() {
        return Err("Point coordinates must be finite numbers".to_owned());
    }
    Ok((x, y))
}

/// Returns true if a value in a query is a legacy pair: an array, or a document whose first value is a number.
pub(super) fn is_legacy(value: Value<'_>) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Doc(doc) => doc.first().is_some_and(|first| first.value().is_number()),
        _ => false,
    }
}

/// The first four elements of an array or values of a document, if they are numbers.
pub(super) fn numbers(value: Value<'_>) -> Option<Vec<f64>> {
    let number = |value: Value<'_>| number::as_f64(value).filter(|_| value.is_number());
    values(value)?.take(4).map(number).collect()
}

/// Parses a longitude and a latitude.
pub(super) fn lng_lat(value: Value<'_>) -> Parse<(f64, f64)> {
    let (lng, lat) = pair(value, true)?;
    lng_lat_point(lng, lat).map(|_| (lng, lat))
}

fn lng_lat_point(lng: f64, lat: f64) -> Parse<Point> {
    match sphere::is_lng_lat(lng, lat) {
        true => Ok(sphere::point_at(lng, lat)),
        false => Err(format!("longitude/latitude is out of bounds, lng: {lng} lat: {lat}")),
    }
}

fn point(value: Value<'_>) -> Parse<Point> {
    let (lng, lat) = pair(value, true)?;
    lng_lat_point(lng, lat)
}

fn points(value: Value<'_>) -> Parse<Vec<Point>> {
    elements(value, "GeoJSON coordinates must be an array of coordinates")?.map(point).collect()
}

fn line(value: Value<'_>) -> Parse<Shape> {
    let mut vertices = points(value)?;
    vertices.dedup();
    if vertices.len() < 2 {
        return Err(format!(
            "GeoJSON LineString must have at least 2 vertices: {}",
            text::value_text(value)
        ));
    }
    if let Some(at) = vertices.windows(2).position(|pair| opposite(&pair[0], &pair[1])) {
        return Err(format!(
            "GeoJSON LineString is not valid: Vertices {at} and {} are antipodal: {}",
            at + 1,
            text::value_text(value)
        ));
    }
    Ok(Shape::Line(Chain::open(vertices)))
}

fn opposite(a: &Point, b: &Point) -> bool {
    (a.0 + b.0).norm2() < 1e-28
}

/// Parses one ring of a polygon.
fn ring(value: Value<'_>, winding: Winding) -> Parse<Ring> {
    let mut vertices = points(value)?;
    let shown = || text::value_text(value);
    if vertices.is_empty() {
        return Err(format!("Loop has no vertices: {}", shown()));
    }
    if vertices.first() != vertices.last() {
        return Err(format!("Loop is not closed: {}", shown()));
    }
    vertices.dedup();
    vertices.pop();
    if vertices.len() < 3 {
        return Err(format!("Loop must have at least 3 different vertices: {}", shown()));
    }
    let closing = [vertices[vertices.len() - 1], vertices[0]];
    let pairs = vertices.windows(2).map(|pair| (pair[0], pair[1]));
    if pairs.chain([(closing[0], closing[1])]).any(|(a, b)| opposite(&a, &b)) {
        return Err(format!("Loop is not valid: {} has an edge between antipodes", shown()));
    }
    let ring = match winding {
        Winding::Smaller => Ring::smaller_side(vertices),
        Winding::Strict => Ring::new(vertices),
    };
    match ring.fault() {
        Some(fault) => Err(format!("Loop is not valid: {} {fault}", shown())),
        None => Ok(ring),
    }
}

fn polygon(value: Value<'_>, winding: Winding) -> Parse<Polygon> {
    let mut loops = elements(value, "Polygon coordinates must be an array")?;
    let Some(first) = loops.next() else { return Err("Polygon has no loops.".to_owned()) };
    if winding == Winding::Strict {
        let count = 1 + loops.count();
        if count > 1 {
            return Err(format!(
                "Only one simple loop is allowed in a big polygon. Instead provided {count} \
                 loops: {}",
                text::value_text(value)
            ));
        }
        return Ok(Polygon::new(ring(first, winding)?, Vec::new()));
    }
    let shell = ring(first, winding)?;
    let mut holes: Vec<Ring> = Vec::new();
    for hole in loops {
        let inner = ring(hole, winding)?;
        if !shell.contains_ring(&inner) {
            return Err(format!(
                "Secondary loops not contained by first exterior loop - secondary loops must be \
                 holes: {} first loop: {}",
                text::value_text(hole),
                text::value_text(first)
            ));
        }
        let own = Polygon::new(inner.clone(), Vec::new());
        let meets = |other: &Ring| Polygon::new(other.clone(), Vec::new()).intersects(&own);
        if let Some(other) = holes.iter().position(meets) {
            return Err(format!(
                "Polygon isn't valid: Loop {} crosses loop {} {}",
                holes.len() + 1,
                other + 1,
                text::value_text(value)
            ));
        }
        holes.push(inner);
    }
    let polygon = Polygon::new(shell, holes);
    match polygon.fault() {
        Some(fault @ LoopFault::SharedEdge { .. }) => {
            Err(format!("Polygon isn't valid: {fault} {}", text::value_text(value)))
        }
        Some(fault @ LoopFault::SharedVertices { .. }) => {
            Err(format!("{fault}: {}", text::value_text(value)))
        }
        None => Ok(polygon),
    }
}

/// Parses an array of shapes of the same kind; at least one is required.
fn many<'v>(
    value: Value<'v>,
    kind: &str,
    one: &mut dyn FnMut(Value<'v>) -> Parse<Shape>,
) -> Parse<Shape> {
    let what = format!("{kind} coordinates must be an array");
    let parts = elements(value, &what)?.map(one).collect::<Parse<Vec<Shape>>>()?;
    if parts.is_empty() {
        return Err(format!("{kind} coordinates must have at least 1 element"));
    }
    Ok(Shape::Many(parts))
}

/// Parses the `crs` of a GeoJSON object.
fn winding(doc: Doc<'_>) -> Parse<Winding> {
    let crs = match doc.get("crs") {
        Value::Missing => return Ok(Winding::Smaller),
        Value::Doc(crs) => crs,
        _ => return Err("GeoJSON CRS must be an object".to_owned()),
    };
    if crs.get("type").as_str() != Some("name") {
        return Err("GeoJSON CRS must have field \"type\": \"name\"".to_owned());
    }
    let Value::Doc(properties) = crs.get("properties") else {
        return Err("CRS must have field \"properties\" which is an object".to_owned());
    };
    match properties.get("name") {
        Value::String("urn:ogc:def:crs:OGC:1.3:CRS84" | "EPSG:4326") => Ok(Winding::Smaller),
        Value::String("urn:x-mongodb:crs:strictwinding:EPSG:4326") => Ok(Winding::Strict),
        Value::String(name) => Err(format!("Unknown CRS name: {name}")),
        _ => Err("In CRS, \"properties.name\" must be a string".to_owned()),
    }
}

/// Parses a GeoJSON object other than a GeometryCollection. Strict winding is allowed only for a Polygon.
fn simple(doc: Doc<'_>, kind: &str) -> Parse<Option<(Shape, Winding)>> {
    let coordinates = doc.get("coordinates");
    let winding = winding(doc);
    let plain = || match winding.clone()? {
        Winding::Smaller => Ok(()),
        Winding::Strict => Err("Strict winding order is only supported by polygon".to_owned()),
    };
    let shape = match kind {
        "Point" => point(coordinates).map(Shape::Point),
        "LineString" => line(coordinates),
        "Polygon" => {
            let winding = winding?;
            return Ok(Some((Shape::Polygon(polygon(coordinates, winding)?), winding)));
        }
        "MultiPoint" => many(coordinates, kind, &mut |v| point(v).map(Shape::Point)),
        "MultiLineString" => many(coordinates, kind, &mut line),
        "MultiPolygon" => {
            many(coordinates, kind, &mut |v| polygon(v, Winding::Smaller).map(Shape::Polygon))
        }
        _ => return Ok(None),
    }?;
    plain()?;
    Ok(Some((shape, Winding::Smaller)))
}

/// Parses a GeoJSON object.
pub(super) fn geo_json(doc: Doc<'_>) -> Parse<(Shape, Winding)> {
    let unknown = || format!("unknown GeoJSON type: {}", text::doc_text(doc));
    let Value::String(kind) = doc.get("type") else { return Err(unknown()) };
    if kind != "GeometryCollection" {
        return simple(doc, kind)?.ok_or_else(unknown);
    }
    if winding(doc)? == Winding::Strict {
        return Err("Strict winding order is only supported by polygon".to_owned());
    }
    let mut parts = Vec::new();
    let list = elements(doc.get("geometries"), "GeometryCollection geometries must be an array")?;
    for (at, part) in list.enumerate() {
        let Value::Doc(part) = part else {
            return Err(format!("Element {at} of \"geometries\" is not an object"));
        };
        let shown = || text::doc_text(part);
        let kind = part.get("type").as_str().unwrap_or("");
        if kind == "GeometryCollection" {
            return Err(format!("GeometryCollections cannot be nested: {}", shown()));
        }
        match simple(part, kind)? {
            Some((_, Winding::Strict)) => {
                return Err("Strict winding order is only supported by polygon".to_owned());
            }
            Some((shape, _)) => parts.push(shape),
            None => return Err(format!("Unknown GeoJSON type: {}", shown())),
        }
    }
    if parts.is_empty() {
        return Err("GeometryCollection geometries must have at least 1 element".to_owned());
    }
    Ok((Shape::Many(parts), Winding::Smaller))
}

/// Parses a stored value: a legacy pair (an array, or a document whose first value is a number) or GeoJSON.
pub fn stored(value: Value<'_>) -> Parse<Stored> {
    let doc = match value {
        pair_like if is_legacy(pair_like) => {
            let (x, y) = pair(value, true)?;
            return Ok(Stored::Point { x, y, legacy: true });
        }
        Value::Doc(doc) => doc,
        _ => return Err("geo element must be an array or object".to_owned()),
    };
    if doc.get("type").as_str() == Some("Point") {
        let (x, y) = lng_lat(doc.get("coordinates"))?;
        geo_json(doc)?;
        return Ok(Stored::Point { x, y, legacy: false });
    }
    Ok(match geo_json(doc)? {
        (Shape::Polygon(polygon), Winding::Strict) => Stored::StrictPolygon(polygon),
        (shape, _) => Stored::Shape(shape),
    })
}

/// Parses a shape of a query: `$box`, `$center`, `$centerSphere`, `$polygon`, `$geometry`.
pub(super) fn region(name: &str, value: Value<'_>) -> Parse<Region> {
    let unknown = || format!("unknown geo specifier: {name}: {}", text::value_text(value));
    let Some(mut parts) = values(value) else { return Err(unknown()) };
    Ok(match (name, value) {
        ("$geometry", pair_like) if is_legacy(pair_like) => {
            let (lng, lat) = pair(pair_like, false)?;
            Region::Shape(Shape::Point(lng_lat_point(lng, lat)?))
        }
        ("$geometry", Value::Doc(doc)) => Region::Shape(geo_json(doc)?.0),
        ("$box", _) => {
            let a = pair(parts.next().unwrap_or(Value::Missing), false)?;
            let b = pair(parts.next().unwrap_or(Value::Missing), false)?;
            let (low, high) = ((a.0.min(b.0), a.1.min(b.1)), (a.0.max(b.0), a.1.max(b.1)));
            Region::Flat(Flat::Box { low, high })
        }
        ("$polygon", _) => {
            let corners = parts.map(|v| pair(v, false)).collect::<Parse<Vec<_>>>()?;
            if corners.len() < 3 {
                return Err("Polygon must have at least 3 points".to_owned());
            }
            Region::Flat(Flat::Polygon(corners))
        }
        ("$center" | "$centerSphere", _) => {
            let center = pair(parts.next().unwrap_or(Value::Missing), false)?;
            let radius = parts.next().unwrap_or(Value::Missing);
            let radius = number::as_f64(radius)
                .filter(|r| radius.is_number() && *r >= 0.0)
                .ok_or("radius must be a non-negative number")?;
            if parts.next().is_some() {
                return Err("Only 2 fields allowed for circular region".to_owned());
            }
            if name == "$center" {
                return Ok(Region::Flat(Flat::Circle { center, radius }));
            }
            let center = lng_lat_point(center.0, center.1)?;
            Region::Disc(Disc { center, radius })
        }
        _ => return Err(unknown()),
    })
}
