//! The ordinary kind: plain values, ascending or descending.

use crate::index::kind::KindFacts;

pub(super) static BTREE: KindFacts =
    KindFacts { name: "btree", whole: true, by_value: true, ..KindFacts::ROW };
