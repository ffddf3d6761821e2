//! Ranges of the ids of buckets, in whose order they are stored.
//!
//!   {"control.min.t": {$gt: 10:00, $lte: 12:00}}        _id from ObjectId(10:00, 00..) to ObjectId(12:00, ff..)
//!
//! The first four bytes of an id are the begin of its bucket, and so is `control.min` of the time, unless the
//! collection has other ids ([`nagi_store::BucketFacts`]).

use nagi_bson::Value;
use nagi_lang::{
    filter::{CompareOp, Filter, Pred},
    path::FieldPath,
};
use nagi_store::{BucketFacts, Collection};

use super::buckets::parts;

/// The condition on buckets, with the range of ids that follows from it, in each branch of an `$or` as well.
pub(crate) fn with_id_range(collection: &Collection, filter: Filter) -> Filter {
    let Some(options) = &collection.options.timeseries else { return filter };
    let path = format!("control.min.{}", options.time_field);
    match narrowed(&filter, &path, collection.bucket_facts()) {
        Some(narrowed) => narrowed.normalize(),
        None => filter,
    }
}

/// The filter with ranges of ids; none if there are none.
fn narrowed(filter: &Filter, path: &str, times: BucketFacts) -> Option<Filter> {
    let mut found = false;
    let mut branches = |part: &Filter| match part {
        Filter::Or(branches) => {
            let one = |branch: &Filter| match narrowed(branch, path, times) {
                Some(branch) => {
                    found = true;
                    branch
                }
                None => branch.clone(),
            };
            Filter::Or(branches.iter().map(one).collect())
        }
        other => other.clone(),
    };
    let mut all: Vec<Filter> = parts(filter).iter().map(&mut branches).collect();
    if let Some((first, last)) = range(parts(filter), path, times) {
        found = true;
        all.extend((first > 0).then(|| bound(CompareOp::Gte, first, 0)));
        all.extend((last < u32::MAX).then(|| bound(CompareOp::Lte, last, 0xFF)));
    }
    found.then_some(Filter::And(all))
}

fn range(parts: &[Filter], path: &str, times: BucketFacts) -> Option<(u32, u32)> {
    let (mut first, mut last) = (None::<i64>, None::<i64>);
    for part in parts {
        let Filter::Field { path: own, pred: Pred::Compare { op, value, .. } } = part else {
            continue;
        };
        let Value::DateTime(begin) = value.value() else { continue };
        if own.as_str() != path {
            continue;
        }
        let begin = begin.div_euclid(1000);
        if !matches!(op, CompareOp::Lt | CompareOp::Lte) {
            first = first.max(Some(begin));
        }
        if !matches!(op, CompareOp::Gt | CompareOp::Gte) {
            last = Some(last.map_or(begin, |last| last.min(begin)));
        }
    }
    times.id_range(first, last)
}

fn bound(op: CompareOp, seconds: u32, rest: u8) -> Filter {
    let mut id = [rest; 12];
    id[..4].copy_from_slice(&seconds.to_be_bytes());
    let pred = Pred::Compare { op, value: Value::ObjectId(&id).into(), collation: None };
    Filter::Field { path: FieldPath::new("_id"), pred }
}
