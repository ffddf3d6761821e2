//! `$meta`: what a search or a scan left with the document.

use super::{Form, form};
use crate::expr::{Eval, Expr, ParseCx};
use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meta {
    TextScore,
    RandVal,
    GeoDistance,
    GeoPoint,
    IndexKey,
    RecordId,
    /// The values a `find` sorts by.
    SortKey,
    /// What only a search service leaves: always missing here.
    Search,
}

/// `{$meta: "sortKey"}`, which only the projection of a `find` knows.
pub(in crate::expr) fn sort_key() -> Expr {
    Expr::Form(Box::new(Form::Meta(Meta::SortKey)))
}

pub(super) fn parse(argument: Value<'_>, _: &mut ParseCx<'_>) -> Result<Expr> {
    let Value::String(name) = argument else {
        bail!(Code::Location(17307), "$meta only supports string arguments");
    };
    form(Form::Meta(match name {
        "textScore" => Meta::TextScore,
        "score"
        | "scoreDetails"
        | "searchHighlights"
        | "searchScore"
        | "searchScoreDetails"
        | "searchSequenceToken"
        | "vectorSearchScore" => Meta::Search,
        "randVal" => Meta::RandVal,
        "geoNearDistance" => Meta::GeoDistance,
        "geoNearPoint" => Meta::GeoPoint,
        "indexKey" => Meta::IndexKey,
        "recordId" => Meta::RecordId,
        _ => bail!(Code::Location(17308), "Unsupported argument to $meta: {name}"),
    }))
}

impl Meta {
    pub(super) fn eval<'a>(self, cx: &Eval<'a>) -> Value<'a> {
        let Some(meta) = cx.meta else {
            return Value::Missing;
        };
        match self {
            Meta::TextScore => meta.text_score.map_or(Value::Missing, Value::Double),
            Meta::RandVal => meta.rand_val.map_or(Value::Missing, Value::Double),
            Meta::GeoDistance => meta.geo_distance.map_or(Value::Missing, Value::Double),
            Meta::GeoPoint => meta.geo_point.unwrap_or(Value::Missing),
            Meta::IndexKey => meta.index_key.map_or(Value::Missing, Value::Doc),
            Meta::Search => Value::Missing,
            Meta::SortKey => meta.sort_key.map_or(Value::Missing, Value::Array),
            Meta::RecordId => meta.record_id.map_or(Value::Missing, Value::Int64),
        }
    }
}
