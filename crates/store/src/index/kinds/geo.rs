//! Keys of geometry indexes: 2dsphere and 2d.
//!
//! The keys of a geometry are cell numbers: for a point on the sphere its smallest cell, for any other geometry the
//! cells of a covering, for a pair in the plane its square of the grid. The other fields of a compound index are
//! indexed by value, with arrays expanded; a document has every combination.
//!
//! A document without a geometry is not in the index, whatever its other fields contain.

use std::sync::Arc;

use nagi_bson::{Array, Doc, Type, Value, ValueBuf, number, text};
use nagi_error::{Code, Result, bail};
use nagi_lang::geo;

use super::grid::Grid;
use crate::index::{
    IndexSpec, KeyPart,
    keygen::{KEY_COUNT_MAX, KeySink, position, too_many_keys},
    kind::{Content, Details, KindFacts, NamedBy, Parsed},
    spec::Shape,
};

/// Limit of cells of one geometry.
const CELL_COUNT_MAX: usize = 50;
/// The only key layout; indexes of older versions are created with it, too.
const VERSION: i64 = 3;
/// What the path of a column in a bucket begins with.
const COLUMNS: &str = "data.";
/// The most values of a column that are indexed: a hostile column of few bytes may stand for any number.
const VALUES_MAX: usize = 100_000;
/// The option for the version.
const VERSION_OPTION: &str = "2dsphereIndexVersion";

pub(super) static TWO_D_SPHERE: KindFacts = KindFacts {
    name: "2dsphere",
    named_by: NamedBy::Value,
    content: Content::Cells,
    options: &[
        (VERSION_OPTION, Shape::Number),
        ("coarsestIndexedLevel", Shape::Number),
        ("finestIndexedLevel", Shape::Number),
    ],
    listed: Some((VERSION_OPTION, VERSION as i32)),
    parse,
    keys,
    ..KindFacts::ROW
};

/// The same for geometries in the measurements of a time series: a bucket has the keys of all of its measurements. The
/// key pattern has the path of the column: `{"data.loc": "2dsphere_bucket"}`.
pub(super) static OF_BUCKETS: KindFacts = KindFacts {
    name: "2dsphere_bucket",
    named_by: NamedBy::Value,
    content: Content::Cells,
    listed: Some((VERSION_OPTION, VERSION as i32)),
    parse: parse_of_buckets,
    keys,
    ..KindFacts::ROW
};

/// The conversion of geometries to numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Geometry {
    /// Cells of the sphere, with levels between these two.
    Sphere {
        coarsest: u8,
        finest: u8,
    },
    Plane(Grid),
}

impl Geometry {
    /// The cells under which a geometry on the sphere is indexed, or with which it is looked up.
    pub fn cells(&self, zone: &geo::Zone, count_max: usize) -> Vec<u64> {
        let Geometry::Sphere { coarsest, finest } = *self else { return Vec::new() };
        zone.covering(geo::Fineness { coarsest, finest, cell_count_max: count_max })
    }
}

impl Details for Geometry {
    fn same_options(&self, other: &dyn Details) -> bool {
        other.get() == Some(self)
    }
}

impl IndexSpec {
    /// For a geometry index: the conversion of geometries to keys.
    pub fn geometry(&self) -> Option<&Geometry> {
        self.details()
    }
}

/// Only the conversion of indexes of time series makes such an index.
fn parse_of_buckets(spec: Doc<'_>, key: &[KeyPart]) -> Result<Parsed> {
    let of_columns = |part: &KeyPart| !part.is_geometry() || part.path.starts_with(COLUMNS);
    if spec.get("originalSpec").is_missing() || !key.iter().all(of_columns) {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "2dsphere_bucket indexes are only supported on the buckets of time-series collections"
        );
    }
    parse(spec, key)
}

/// Checks version and levels.
fn parse(spec: Doc<'_>, _: &[KeyPart]) -> Result<Parsed> {
    let version = spec.get(VERSION_OPTION);
    if !version.is_missing() && !matches!(number::as_i64_exact(version), Some(1..=VERSION)) {
        bail!(
            Code::CANNOT_CREATE_INDEX,
            "unsupported geo index version {{ 2dsphereIndexVersion : {version} }}, only versions: \
             [1,2,3] are supported"
        );
    }
    let level = |name: &str, default: i64| match spec.get(name) {
        Value::Missing => default,
        value => number::truncate_to_i64(value).unwrap_or(-1),
    };
    let (coarsest, finest) = (level("coarsestIndexedLevel", 0), level("finestIndexedLevel", 23));
    if coarsest < 0 {
        bail!(Code::Location(16747), "coarsestIndexedLevel must be >= 0");
    }
    if finest > i64::from(geo::LEVEL_MAX) {
        bail!(Code::Location(16748), "finestIndexedLevel must be <= 30");
    }
    if finest < coarsest {
        bail!(Code::Location(16749), "finestIndexedLevel must be >= coarsestIndexedLevel");
    }
    Ok(Some(Arc::new(Geometry::Sphere { coarsest: coarsest as u8, finest: finest as u8 })))
}

/// The values at a path.
#[derive(Default)]
struct Found<'d> {
    values: Vec<Value<'d>>,
    /// The path components that are arrays.
    arrays: u64,
}

pub(super) fn keys(spec: &IndexSpec, doc: Doc<'_>, sink: &mut KeySink) -> Result<()> {
    sink.reset(spec.key.len());
    let Some(geometry) = spec.geometry() else { return Ok(()) };
    let mut columns: Vec<Vec<Value<'_>>> = Vec::with_capacity(spec.key.len());
    let mut has_geometry = false;
    for (field, part) in spec.key.iter().enumerate() {
        let mut found = Found::default();
        collect(Value::Doc(doc), &part.path, 0, !part.is_geometry(), &mut found)?;
        if part.is_geometry() && spec.kind.facts().name == OF_BUCKETS.name {
            let cells = column_cells(geometry, doc, &part.path)?;
            has_geometry |= !cells.is_empty();
            sink.multikey[field] = if cells.len() > 1 { bit(1) } else { 0 };
            let mut cells: Vec<_> = cells.into_iter().map(Value::Int64).collect();
            if cells.is_empty() {
                cells.push(Value::Null);
            }
            columns.push(cells);
            continue;
        }
        if part.is_geometry() {
            let mut cells = Vec::new();
            for value in &found.values {
                let fault = match geometry {
                    Geometry::Sphere { .. } => on_sphere(geometry, *value, &mut cells),
                    Geometry::Plane(grid) => in_plane(grid, *value, &mut cells)?,
                };
                if let Some(reason) = fault {
                    bail!(
                        Code::Location(16755),
                        "Can't extract geo keys: {}  {reason}{}",
                        text::doc_text(doc),
                        shown(&part.path, *value)
                    );
                }
            }
            cells.sort_unstable();
            cells.dedup();
            has_geometry |= !cells.is_empty();
            if cells.len() > 1 && found.arrays == 0 {
                found.arrays = bit(part.path.split('.').count() as u32 - 1);
            }
            found.values = cells.into_iter().map(Value::Int64).collect();
        }
        if found.values.is_empty() {
            found.values.push(if part.is_geometry() { Value::Null } else { Value::Missing });
        }
        sink.multikey[field] = found.arrays;
        columns.push(found.values);
    }
    if !has_geometry {
        return Ok(());
    }
    combine(spec, &columns, sink)?;
    sink.sort();
    Ok(())
}

/// For geometries in measurements: the path of the column that has them.
pub(in crate::index) fn column_of(part: &KeyPart) -> Option<&str> {
    let inner = part.path.strip_prefix(COLUMNS).filter(|_| part.is_geometry())?;
    let column = COLUMNS.len() + inner.find('.').unwrap_or(inner.len());
    part.path.get(..column)
}

/// The cells of all geometries at a path of measurements, sorted.
///
/// # Errors
/// 16755 for an invalid geometry, 201 for too many values or cells; those of a column that cannot be read.
fn column_cells(geometry: &Geometry, bucket: Doc<'_>, path: &str) -> Result<Vec<i64>> {
    let path = path.strip_prefix(COLUMNS).unwrap_or(path);
    let (top, rest) = path.split_once('.').unwrap_or((path, ""));
    let data = bucket.get("data").as_doc().unwrap_or(Doc::EMPTY);
    let (mut cells, mut count) = (Vec::new(), 0);
    // The geometry before: a column often has the same one many times.
    let mut before: Option<ValueBuf> = None;
    let mut add = |value: Value<'_>| -> Result<()> {
        count += 1;
        if count > VALUES_MAX {
            bail!(
                Code::CANNOT_BUILD_INDEX_KEYS,
                "A bucket has more than {VALUES_MAX} measurements"
            );
        }
        let mut found = Found::default();
        match value {
            Value::Array(array) if !rest.is_empty() => enter(array, rest, 1, false, &mut found)?,
            value => collect(value, rest, 1, false, &mut found)?,
        }
        for value in found.values {
            if before.as_ref().is_some_and(|before| before.value().same_bytes(&value)) {
                continue;
            }
            if let Some(reason) = on_sphere(geometry, value, &mut cells) {
                bail!(
                    Code::Location(16755),
                    "Can't extract geo keys: {}  {reason}{}",
                    text::value_text(value),
                    shown(path, value)
                );
            }
            before = Some(ValueBuf::new(value));
            if cells.len() > 2 * KEY_COUNT_MAX {
                distinct(&mut cells)?;
            }
        }
        Ok(())
    };
    match data.get(top) {
        Value::Doc(values) => {
            values.iter().try_for_each(|element| add(element.value()))?;
        }
        Value::Binary(column) => {
            let mut decoder = nagi_timeseries::column::Decoder::new(column.bytes);
            while let Some(value) = decoder.advance()? {
                add(value)?;
            }
        }
        _ => {}
    }
    distinct(&mut cells)?;
    Ok(cells)
}

/// Sorts cells and leaves one of each.
///
/// # Errors
/// 201 for more than a document may have keys.
fn distinct(cells: &mut Vec<i64>) -> Result<()> {
    cells.sort_unstable();
    cells.dedup();
    match cells.len() > KEY_COUNT_MAX {
        true => Err(too_many_keys()),
        false => Ok(()),
    }
}

/// The text of a value in messages: scalars are named; arrays and documents are part of the document shown before.
fn shown(path: &str, value: Value<'_>) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    match value {
        Value::Array(_) | Value::Doc(_) => String::new(),
        value => format!(": {name}: {}", text::value_text(value)),
    }
}

/// Adds a key for each combination of the columns' values.
fn combine(spec: &IndexSpec, columns: &[Vec<Value<'_>>], sink: &mut KeySink) -> Result<()> {
    let mut at = vec![0; columns.len()];
    loop {
        let values: Vec<Value<'_>> = at.iter().zip(columns).map(|(i, c)| c[*i]).collect();
        sink.push(spec, &values)?;
        let Some(field) = (0..at.len()).rev().find(|field| at[*field] + 1 < columns[*field].len())
        else {
            return Ok(());
        };
        at[field] += 1;
        at[field + 1..].fill(0);
    }
}

fn bit(component: u32) -> u64 {
    1u64.checked_shl(component).unwrap_or(1 << 63)
}

/// Follows a path as filters do. With `expand`, an array at its end yields its elements.
fn collect<'d>(
    value: Value<'d>,
    rest: &str,
    depth: u32,
    expand: bool,
    out: &mut Found<'d>,
) -> Result<()> {
    let (Value::Doc(doc), false) = (value, rest.is_empty()) else {
        out.values.push(if rest.is_empty() { value } else { Value::Missing });
        return Ok(());
    };
    let (head, tail) = rest.split_once('.').unwrap_or((rest, ""));
    match doc.get(head) {
        Value::Array(array) if !tail.is_empty() => enter(array, tail, depth + 1, expand, out),
        Value::Array(array) if expand => {
            out.arrays |= bit(depth);
            if array.is_empty() {
                out.values.push(Value::Undefined);
            }
            out.values.extend(array.iter());
            Ok(())
        }
        value => collect(value, tail, depth + 1, expand, out),
    }
}

/// Continues a path below an array: into the element at its position, or into every document.
fn enter<'d>(
    array: Array<'d>,
    rest: &str,
    depth: u32,
    expand: bool,
    out: &mut Found<'d>,
) -> Result<()> {
    if let Some((value, tail)) = position(rest, array)? {
        return match value {
            Value::Array(inner) if !tail.is_empty() => enter(inner, tail, depth + 1, expand, out),
            Value::Array(inner) if expand => {
                out.arrays |= bit(depth);
                out.values.extend(inner.iter());
                Ok(())
            }
            value => collect(value, tail, depth + 1, expand, out),
        };
    }
    out.arrays |= bit(depth - 1);
    for value in array.iter() {
        match value {
            Value::Doc(_) => collect(value, rest, depth, expand, out)?,
            _ => out.values.push(Value::Missing),
        }
    }
    Ok(())
}

/// Null, missing, undefined and `[]` are no geometries, and no errors.
fn is_nothing(value: Value<'_>) -> bool {
    match value {
        Value::Array(array) => array.is_empty(),
        value => matches!(value.kind(), Type::Null | Type::Undefined | Type::Missing),
    }
}

/// Geometries that a filter would find inside an array of numbers: `[1, 2, [3, 4]]`.
fn inner(value: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let Value::Array(array) = value else { return None.into_iter().flatten() };
    let nested = array.iter().filter(|v| matches!(v, Value::Array(_) | Value::Doc(_)));
    Some(nested).into_iter().flatten()
}

/// Adds the cells of a stored geometry, or returns the reason why it is invalid.
fn on_sphere(geometry: &Geometry, value: Value<'_>, out: &mut Vec<i64>) -> Option<String> {
    if is_nothing(value) {
        return None;
    }
    let stored = match geo::stored(value) {
        Ok(stored) => stored,
        Err(reason) => return Some(reason),
    };
    let shape = match stored {
        geo::Stored::StrictPolygon(_) => {
            return Some("can't index geometry with strict winding order".to_owned());
        }
        stored => stored.on_sphere(),
    };
    let Some(shape) = shape else {
        return Some("longitude/latitude is out of bounds".to_owned());
    };
    add_cells(geometry, &shape, out);
    let more = inner(value).filter_map(|v| geo::stored(v).ok()?.on_sphere());
    more.for_each(|shape| add_cells(geometry, &shape, out));
    None
}

fn add_cells(geometry: &Geometry, shape: &geo::Shape, out: &mut Vec<i64>) {
    match shape {
        geo::Shape::Point(point) => out.push(geo::leaf(point) as i64),
        shape => {
            let zone = geo::Zone::Shape(shape.clone());
            out.extend(geometry.cells(&zone, CELL_COUNT_MAX).into_iter().map(|cell| cell as i64));
        }
    }
}

/// Adds the squares of a pair or of an array of pairs; scalars are skipped.
fn in_plane(grid: &Grid, value: Value<'_>, out: &mut Vec<i64>) -> Result<Option<String>> {
    let first = match value {
        Value::Array(array) => array.iter().next(),
        Value::Doc(doc) => doc.first().map(|field| field.value()),
        _ => return Ok(None),
    };
    match (first, value) {
        (None, _) => {}
        (Some(Value::Array(_) | Value::Doc(_)), Value::Array(list)) => {
            for item in list.iter().filter(|v| matches!(v, Value::Array(_) | Value::Doc(_))) {
                out.push(square(grid, item)?);
            }
        }
        _ => {
            out.push(square(grid, value)?);
            for item in inner(value).filter(|v| geo::pair(*v, true).is_ok()) {
                out.push(square(grid, item)?);
            }
        }
    }
    Ok(None)
}

fn square(grid: &Grid, value: Value<'_>) -> Result<i64> {
    let Ok((x, y)) = geo::pair(value, true) else {
        bail!(Code::Location(13026), "geo values must be 'legacy coordinate pairs' for 2d indexes");
    };
    match grid.key(x, y) {
        Some(key) => Ok(key),
        None => bail!(
            Code::Location(13027),
            "point not in interval of [ {}, {} ] :: caused by :: {}",
            grid.min,
            grid.max,
            text::value_text(value)
        ),
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, doc};

    use super::*;

    #[test]
    fn cells_of_a_column_are_limited() {
        let geometry = Geometry::Sphere { coarsest: 0, finest: 23 };
        let cells = |count: usize, at: &dyn Fn(usize) -> (f64, f64)| {
            let values = DocBuf::build(|out| {
                for n in 0..count {
                    let (lng, lat) = at(n);
                    let value = doc! { "type": "Point", "coordinates": [lng, lat] };
                    out.put(&n.to_string(), &value);
                }
            });
            let bucket = doc! { "data": (&doc! { "loc": (&values) }) };
            let found = column_cells(&geometry, bucket.as_doc(), "data.loc");
            found.map(|cells| cells.len()).map_err(|error| error.code())
        };
        assert_eq!(cells(1000, &|_| (1.0, 2.0)), Ok(1));
        assert_eq!(cells(1000, &|n| ((n % 7) as f64, 2.0)), Ok(7));
        assert_eq!(cells(VALUES_MAX, &|n| (n as f64 / 1000.0, 2.0)), Ok(VALUES_MAX));
        let refused = Err(Code::CANNOT_BUILD_INDEX_KEYS);
        assert_eq!(cells(VALUES_MAX + 1, &|_| (1.0, 2.0)), refused, "none is left out");
        let mut many = (0..=KEY_COUNT_MAX as i64).collect::<Vec<_>>();
        assert!(distinct(&mut many).is_err());
    }
}
