//! Metadata of a document: values beside its fields that a text search, `$geoNear`, `$sample` or a scan produces.
//!
//! The metadata of a document is a small BSON document of its own, such as `{textScore: 1.5}`. It travels beside the
//! bytes of the document through filters, sorts and projections; `$meta` and sorts by `$meta` read it. A request that
//! does not use metadata writes none: parsing collects the requested kinds in a [`MetaSet`].

use std::ops::BitOr;

use nagi_bson::{Array, Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};

/// A kind of metadata, as `$meta` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaKind {
    TextScore,
    RandVal,
    GeoDistance,
    GeoPoint,
    IndexKey,
    RecordId,
    /// The values by which a `find` sorts.
    SortKey,
    /// The kinds that only a search service produces; always missing here.
    Search,
}

impl MetaKind {
    /// The kind for a name in `$meta`. `sortKey` is not among them: only a `find` knows it.
    pub fn named(name: &str) -> Option<MetaKind> {
        Some(match name {
            "textScore" => MetaKind::TextScore,
            "score"
            | "scoreDetails"
            | "searchHighlights"
            | "searchScore"
            | "searchScoreDetails"
            | "searchSequenceToken"
            | "vectorSearchScore" => MetaKind::Search,
            "randVal" => MetaKind::RandVal,
            "geoNearDistance" => MetaKind::GeoDistance,
            "geoNearPoint" => MetaKind::GeoPoint,
            "indexKey" => MetaKind::IndexKey,
            "recordId" => MetaKind::RecordId,
            _ => return None,
        })
    }

    /// The name in error messages.
    pub const fn described(self) -> &'static str {
        match self {
            MetaKind::TextScore => "text score",
            MetaKind::RandVal => "rand val",
            MetaKind::GeoDistance => "$geoNear distance",
            MetaKind::GeoPoint => "$geoNear point",
            MetaKind::IndexKey => "index key",
            MetaKind::RecordId => "record ID",
            MetaKind::SortKey => "sort key",
            MetaKind::Search => "$search score",
        }
    }
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MetaSet(u16);

impl MetaSet {
    /// No kind.
    pub const NONE: MetaSet = MetaSet(0);
    /// The kinds that a text search produces.
    pub const TEXT: MetaSet = MetaSet::of(MetaKind::TextScore);
    /// The kinds that a search by distance produces.
    pub const GEO: MetaSet =
        MetaSet(MetaSet::of(MetaKind::GeoDistance).0 | MetaSet::of(MetaKind::GeoPoint).0);

    /// The set of one kind.
    pub const fn of(kind: MetaKind) -> MetaSet {
        MetaSet(1 << kind as u16)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn contains(self, kind: MetaKind) -> bool {
        self.0 & MetaSet::of(kind).0 != 0
    }

    /// Checks that the requested kinds that only a search produces are available.
    ///
    /// # Errors
    /// 40218 if the text score or a distance is requested and is not in `available`.
    pub fn check(self, available: MetaSet) -> Result<()> {
        for kind in [MetaKind::TextScore, MetaKind::GeoDistance, MetaKind::GeoPoint] {
            if self.contains(kind) && !available.contains(kind) {
                bail!(
                    Code::Location(40218),
                    "query requires {} metadata, but it is not available",
                    kind.described()
                );
            }
        }
        Ok(())
    }
}

impl BitOr for MetaSet {
    type Output = MetaSet;

    fn bitor(self, other: MetaSet) -> MetaSet {
        MetaSet(self.0 | other.0)
    }
}

/// The metadata of a document, for `$meta`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Metadata<'a> {
    pub text_score: Option<f64>,
    pub rand_val: Option<f64>,
    pub geo_distance: Option<f64>,
    pub geo_point: Option<Value<'a>>,
    pub index_key: Option<Doc<'a>>,
    pub record_id: Option<Value<'a>>,
    pub sort_key: Option<Array<'a>>,
}

impl<'a> Metadata<'a> {
    /// The name under which the index key travels if a sort runs between the index scan and the projection that
    /// outputs it.
    pub const INDEX_KEY: &'static str = "indexKey";

    /// Reads what [`Metadata::write`] wrote.
    pub fn read(doc: Doc<'a>) -> Metadata<'a> {
        let mut meta = Metadata::default();
        for element in doc {
            match (element.name(), element.value()) {
                ("textScore", Value::Double(score)) => meta.text_score = Some(score),
                ("randVal", Value::Double(random)) => meta.rand_val = Some(random),
                ("geoNearDistance", Value::Double(distance)) => meta.geo_distance = Some(distance),
                ("geoNearPoint", point) => meta.geo_point = Some(point),
                (Metadata::INDEX_KEY, Value::Doc(key)) => meta.index_key = Some(key),
                _ => {}
            }
        }
        meta
    }

    /// Writes the requested kinds that travel with a document: score, random value, distance and place. The other
    /// kinds belong to a plan, which provides them itself.
    pub fn write(&self, wanted: MetaSet, out: &mut DocWriter<'_>) {
        let mut put = |kind: MetaKind, name: &str, value: Option<Value<'_>>| {
            if let Some(value) = value.filter(|_| wanted.contains(kind)) {
                out.put(name, value);
            }
        };
        put(MetaKind::TextScore, "textScore", self.text_score.map(Value::Double));
        put(MetaKind::RandVal, "randVal", self.rand_val.map(Value::Double));
        put(MetaKind::GeoDistance, "geoNearDistance", self.geo_distance.map(Value::Double));
        put(MetaKind::GeoPoint, "geoNearPoint", self.geo_point);
    }

    /// The value of a kind; missing if the document has none.
    pub fn get(&self, kind: MetaKind) -> Value<'a> {
        match kind {
            MetaKind::TextScore => self.text_score.map_or(Value::Missing, Value::Double),
            MetaKind::RandVal => self.rand_val.map_or(Value::Missing, Value::Double),
            MetaKind::GeoDistance => self.geo_distance.map_or(Value::Missing, Value::Double),
            MetaKind::GeoPoint => self.geo_point.unwrap_or(Value::Missing),
            MetaKind::IndexKey => self.index_key.map_or(Value::Missing, Value::Doc),
            MetaKind::Search => Value::Missing,
            MetaKind::SortKey => self.sort_key.map_or(Value::Missing, Value::Array),
            MetaKind::RecordId => self.record_id.unwrap_or(Value::Missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::DocBuf;

    use super::*;

    #[test]
    fn only_wanted_kinds_travel_and_come_back_as_they_were() {
        let point = DocBuf::build(|out| out.put("lat", 1));
        let meta = Metadata {
            text_score: Some(1.5),
            geo_distance: Some(0.0),
            geo_point: Some(Value::Doc(point.as_doc())),
            ..Metadata::default()
        };
        let all = DocBuf::build(|out| meta.write(MetaSet::TEXT | MetaSet::GEO, out));
        let read = Metadata::read(all.as_doc());
        assert_eq!(read.text_score, Some(1.5));
        assert_eq!(read.geo_distance, Some(0.0));
        assert_eq!(read.get(MetaKind::GeoPoint), Value::Doc(point.as_doc()));
        assert!(read.get(MetaKind::RandVal).is_missing());
        let none = DocBuf::build(|out| meta.write(MetaSet::of(MetaKind::RandVal), out));
        assert!(none.as_doc().is_empty());
    }

    #[test]
    fn what_no_search_left_is_refused_and_the_rest_is_missing() {
        assert!(MetaSet::TEXT.check(MetaSet::TEXT).is_ok());
        assert!(MetaSet::GEO.check(MetaSet::TEXT).is_err());
        assert!(MetaSet::of(MetaKind::RandVal).check(MetaSet::NONE).is_ok());
    }
}
