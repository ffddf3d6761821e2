//! `$geoNear`: the documents of the collection by distance, with the distance in a field.
//!
//! The stage is planned like a find with a nearness condition; it runs nothing itself. On a time series, whose
//! measurements have no index of their own, distances are computed after unpacking, and sorted.

use std::sync::Arc;

use nagi_bson::number;
use nagi_lang::{
    expr::{MetaSet, parse_field_path},
    filter::{Filter, Pred},
    geo::{self, GeoNear as Condition, Measure},
    path::FieldPath,
    project::AddFields,
    sort::SortSpec,
};

use super::{Match, Sort, add_fields, prelude::*};
use crate::{
    access::{GeoNearSpec, Shown},
    source::geo_metadata,
};

pub(super) static GEO_NEAR: StageSpec = StageSpec {
    name: "$geoNear",
    shape: How::Fields(&[
        ("distanceField", How::Same),
        ("includeLocs", How::Same),
        ("key", How::Same),
        ("query", How::Filter),
    ]),
    place: Place::FirstUnpacked,
    parse,
    ..StageSpec::ROW
};

/// A parsed `$geoNear`.
pub(crate) struct GeoNear {
    pub(crate) spec: GeoNearSpec,
    text: DocBuf,
    /// The fields that show the distance and the location, as computed fields.
    fields: DocBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(doc) = spec else {
        bail!(Code::Location(10065), "invalid parameter: expected an object ($geoNear)");
    };
    if !doc.get("collation").is_missing() {
        bail!(
            Code::Location(40227),
            "$geoNear does not accept the 'collation' parameter. Instead, specify a collation for \
             the entire aggregation command."
        );
    }
    let (center, geo_json) = center(doc.get("near"))?;
    for (name, code) in [("limit", 50858), ("num", 50857), ("start", 50856)] {
        if !doc.get(name).is_missing() {
            bail!(
                Code::Location(code),
                "$geoNear no longer supports the '{name}' parameter. Use a $limit stage instead."
            );
        }
    }
    let (shown, fields) = shown(doc, cx)?;
    let key = match doc.get("key") {
        Value::Missing => None,
        Value::String("") => {
            bail!(Code::BAD_VALUE, "$geoNear parameter 'key' cannot be the empty string")
        }
        Value::String(key) => Some(FieldPath::new(key)),
        other => bail!(
            Code::TYPE_MISMATCH,
            "$geoNear parameter 'key' must be of type string but found type: {}",
            other.kind().name()
        ),
    };
    let query = match doc.get("query") {
        Value::Doc(query) => Filter::parse(query, &mut cx.lang())?.normalize(),
        Value::Missing => Filter::AlwaysTrue,
        _ => bail!(Code::TYPE_MISMATCH, "query must be an object"),
    };
    let measure = match (geo_json, doc.get("spherical").is_truthy()) {
        (true, _) => Measure::Metres,
        (false, true) => Measure::Radians,
        (false, false) => Measure::Plane,
    };
    if measure == Measure::Radians && !geo::is_lng_lat(center.0, center.1) {
        bail!(Code::BAD_VALUE, "Legacy point is out of bounds for spherical query");
    }
    let min = distance(doc, "minDistance")?.unwrap_or(0.0);
    let max = distance(doc, "maxDistance")?.unwrap_or(f64::MAX);
    let near = Condition::new(center, measure, (min, max), source(doc, measure));
    let spec = GeoNearSpec { near, query: Arc::new(query), key, shown: Arc::new(shown) };
    Ok(Box::new(GeoNear { spec, text: doc.to_buf(), fields }))
}

/// The condition as a filter would contain it, for explain.
fn source(doc: Doc<'_>, measure: Measure) -> DocBuf {
    let name = if measure == Measure::Plane { "$near" } else { "$nearSphere" };
    DocBuf::build(|out| out.put(name, doc.get("near")))
}

/// The centre, and true if it is GeoJSON.
fn center(near: Value<'_>) -> Result<((f64, f64), bool)> {
    if !matches!(near, Value::Doc(_) | Value::Array(_)) {
        bail!(Code::Location(16605), "$geoNear requires a 'near' option as an Array");
    }
    let found = match near {
        Value::Doc(doc) if !doc.get("type").is_missing() => match geo::stored(near) {
            Ok(geo::Stored::Point { x, y, legacy: false }) => Some(((x, y), true)),
            _ => None,
        },
        pair => geo::pair(pair, true).ok().map(|center| (center, false)),
    };
    match found {
        Some(found) => Ok(found),
        None => bail!(Code::Location(17304), "'near' field must be point"),
    }
}

fn distance(doc: Doc<'_>, name: &str) -> Result<Option<f64>> {
    match doc.get(name) {
        Value::Missing => Ok(None),
        // NaN is not nonnegative.
        value if value.is_number() => match number::as_f64(value).filter(|value| *value >= 0.0) {
            Some(distance) => Ok(Some(distance)),
            None => bail!(Code::BAD_VALUE, "{name} must be nonnegative"),
        },
        other => bail!(
            Code::TYPE_MISMATCH,
            "$geoNear parameter '{name}' must be of type number but found type: {}",
            other.kind().name()
        ),
    }
}

/// The fields `distanceField` and `includeLocs`, as computed fields.
fn shown(doc: Doc<'_>, cx: &PipelineCx<'_>) -> Result<(Shown, DocBuf)> {
    let multiplier = match doc.get("distanceMultiplier") {
        Value::Missing => None,
        value if value.is_number() && number::as_f64(value).is_some_and(|m| m >= 0.0) => {
            number::as_f64(value)
        }
        value if value.is_number() => {
            bail!(Code::BAD_VALUE, "$geoNear distanceMultiplier must be nonnegative")
        }
        other => bail!(
            Code::TYPE_MISMATCH,
            "$geoNear parameter 'distanceMultiplier' must be of type number but found type: {}",
            other.kind().name()
        ),
    };
    let distance = match doc.get("distanceField") {
        Value::String(path) => Some(path),
        Value::Missing => None,
        _ => bail!(Code::Location(16606), "$geoNear requires a 'distanceField' option as a String"),
    };
    let place = match doc.get("includeLocs") {
        Value::String(path) => Some(path),
        Value::Missing => None,
        _ => {
            bail!(Code::Location(16607), "$geoNear requires that 'includeLocs' option is a String")
        }
    };
    for path in distance.iter().chain(&place) {
        parse_field_path(path)?;
    }
    let fields = DocBuf::build(|out| {
        let meta = |out: &mut DocWriter<'_>| out.put("$meta", "geoNearDistance");
        match (distance, multiplier) {
            (None, _) => {}
            (Some(path), None) => out.doc(path, meta),
            (Some(path), Some(multiplier)) => out.doc(path, |out| {
                out.array("$multiply", |out| {
                    out.doc(meta);
                    out.push(multiplier);
                });
            }),
        }
        if let Some(path) = place {
            out.doc(path, |out| out.put("$meta", "geoNearPoint"));
        }
    });
    if fields.as_doc().is_empty() {
        return Ok((Shown(None), fields));
    }
    let parsed = AddFields::parse(Value::Doc(fields.as_doc()), "$geoNear", &mut cx.lang())?;
    Ok((Shown(Some(parsed)), fields))
}

impl Stage for GeoNear {
    /// Called only for a pipeline that is not planned, which has no collection to search.
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        input
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$geoNear", &self.text);
    }

    fn after_unpacking(&self, cx: &PipelineCx<'_>) -> Result<Option<Vec<Arc<dyn Stage>>>> {
        let Some(path) = self.spec.key.clone() else {
            bail!(
                Code::Location(5_860_206),
                "$geoNear requires the 'key' option on a time-series collection"
            )
        };
        let mut stages: Vec<Arc<dyn Stage>> =
            vec![Arc::new(Match::part((*self.spec.query).clone()))];
        // For indexes: of the measurements, only those within the limit remain in any case.
        if let Some(disc) = self.spec.near.around() {
            let filter = Filter::Field { path: path.clone(), pred: Pred::Geo(disc) };
            stages.push(Arc::new(Match::part(filter)));
        }
        let near = self.spec.near.clone();
        stages.push(Arc::new(Distances { text: self.text.clone(), by: Arc::new((path, near)) }));
        let shown = nagi_bson::doc! { "distance": { "$meta": "geoNearDistance" } };
        stages.push(Arc::new(Sort::new(Arc::new(SortSpec::nearest_first()), shown, cx)));
        if !self.fields.as_doc().is_empty() {
            let fields = Value::Doc(self.fields.as_doc());
            stages.push(add_fields::parse("$addFields", fields, cx)?.into());
        }
        Ok(Some(stages))
    }

    fn step(&self) -> Step<'_> {
        Step::GeoNear(self)
    }
}

/// Gives each document the distance of its location as metadata, and drops those that are too near or too far.
struct Distances {
    text: DocBuf,
    by: Arc<(FieldPath, Condition)>,
}

struct Measuring {
    input: Box<dyn Source>,
    by: Arc<(FieldPath, Condition)>,
    meta: Vec<u8>,
    arena: Bump,
}

impl Stage for Distances {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        let by = self.by.clone();
        Box::new(Measuring { input, by, meta: Vec::new(), arena: Bump::new() })
    }

    fn gives(&self) -> MetaSet {
        MetaSet::GEO
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$geoNear", &self.text);
    }
}

impl Source for Measuring {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while self.input.advance(cx)? {
            cx.tick()?;
            renew(&mut self.arena);
            let (path, near) = &*self.by;
            let found = geo_metadata(self.input.doc(), path, near, &self.arena);
            if found.geo_distance.is_some_and(|distance| near.accepts(distance)) {
                self.meta.clear();
                found.write(MetaSet::GEO, &mut DocWriter::new(&mut self.meta));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    fn meta(&self) -> Doc<'_> {
        Doc::trusted(&self.meta)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}
