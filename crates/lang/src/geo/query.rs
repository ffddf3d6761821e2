//! `$geoWithin` and `$geoIntersects`: test if a stored geometry is inside of a region or intersects it.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, text};
use nagi_error::{Code, Result, bail};

use super::{
    parse::{self, Region},
    shape::{Disc, Shape, Stored},
    sphere,
};

/// A parsed test; clones share it.
#[derive(Debug, Clone)]
pub struct GeoTest(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    relation: Relation,
    region: Region,
    /// `{$geoWithin: {...}}`, as the client sent it.
    source: DocBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    Within,
    Intersects,
}

impl GeoTest {
    /// Parses the operand of `$geoWithin`, `$within` or `$geoIntersects`.
    ///
    /// # Errors
    /// 2 for every error in the geometry.
    pub fn parse(name: &str, operand: Value<'_>) -> Result<GeoTest> {
        let (relation, written) = match name {
            "$geoIntersects" => (Relation::Intersects, "$geoIntersects"),
            _ => (Relation::Within, "$geoWithin"),
        };
        let parts: DocBuf = match operand {
            Value::Doc(doc) => doc.to_buf(),
            Value::Array(array) => Doc::trusted(array.as_bytes()).to_buf(),
            _ => bail!(Code::BAD_VALUE, "geometry must be an object"),
        };
        let mut region = None;
        for part in parts.as_doc() {
            if part.name() == "$uniqueDocs" {
                continue;
            }
            if region.is_some() {
                bail!(
                    Code::BAD_VALUE,
                    "can't parse extra field: {}: {}",
                    part.name(),
                    text::value_text(part.value())
                );
            }
            region = Some(fault(parse::region(part.name(), part.value()))?);
        }
        let Some(region) = region else {
            bail!(Code::BAD_VALUE, "geo query doesn't have any geometry");
        };
        let source = DocBuf::build(|out| out.put(written, operand));
        let fits = match (relation, &region) {
            (Relation::Within, Region::Shape(shape)) => is_area(shape, operand),
            (Relation::Within, _) => true,
            (Relation::Intersects, region) => matches!(region, Region::Shape(_)),
        };
        if !fits {
            let name = if relation == Relation::Within { "$within" } else { "$geoIntersect" };
            bail!(
                Code::BAD_VALUE,
                "{name} not supported with provided geometry: {}",
                text::doc_text(source.as_doc())
            );
        }
        Ok(GeoTest(Arc::new(Inner { relation, region, source })))
    }

    /// A test for geometries of which some point is within `radius` radians of the centre. Clients have no operator for
    /// it; it is shown as `$geoIntersects` with the disc.
    pub(super) fn near((x, y): (f64, f64), radius: f64) -> GeoTest {
        let source = DocBuf::build(|out| {
            out.doc("$geoIntersects", |out| {
                out.array("$centerSphere", |out| {
                    out.array(|out| [x, y].iter().for_each(|at| out.push(*at)));
                    out.push(radius);
                });
            });
        });
        let region = Region::Disc(Disc { center: sphere::point_at(x, y), radius });
        GeoTest(Arc::new(Inner { relation: Relation::Intersects, region, source }))
    }

    pub fn region(&self) -> &Region {
        &self.0.region
    }

    pub fn relation(&self) -> Relation {
        self.0.relation
    }

    /// The operator with its operand.
    pub fn source(&self) -> Doc<'_> {
        self.0.source.as_doc()
    }

    /// Returns true if the value is a geometry that passes the test.
    pub fn matches(&self, value: Value<'_>) -> bool {
        if !matches!(value, Value::Doc(_) | Value::Array(_)) {
            return false;
        }
        parse::stored(value).is_ok_and(|stored| self.matches_stored(&stored))
    }

    fn matches_stored(&self, stored: &Stored) -> bool {
        let on_sphere =
            |test: &dyn Fn(&Shape) -> bool| stored.on_sphere().is_some_and(|shape| test(&shape));
        match (&self.0.region, self.0.relation) {
            (Region::Flat(flat), _) => stored.in_plane().is_some_and(|p| flat.contains(p)),
            (Region::Disc(disc), Relation::Within) => on_sphere(&|shape| disc.contains(shape)),
            (Region::Disc(disc), Relation::Intersects) => on_sphere(&|shape| disc.meets(shape)),
            (Region::Shape(own), Relation::Within) => on_sphere(&|shape| own.contains(shape)),
            (Region::Shape(own), Relation::Intersects) => on_sphere(&|shape| own.intersects(shape)),
        }
    }
}

/// Returns true for Polygon and MultiPolygon, the only kinds that can contain other geometries.
fn is_area(shape: &Shape, operand: Value<'_>) -> bool {
    let kind = operand
        .as_doc()
        .and_then(|doc| doc.get("$geometry").as_doc())
        .and_then(|geometry| geometry.get("type").as_str());
    match shape {
        Shape::Polygon(_) => true,
        Shape::Many(_) => kind == Some("MultiPolygon"),
        _ => false,
    }
}

/// Converts an error text of a query's geometry to a BadValue.
pub(super) fn fault<T>(parsed: parse::Parse<T>) -> Result<T> {
    match parsed {
        Ok(value) => Ok(value),
        Err(text) => bail!(Code::BAD_VALUE, "{text}"),
    }
}
