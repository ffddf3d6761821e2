//! `$listSearchIndexes`: its privileges. The stage itself fails in the pipeline, because there is no search engine.

use super::OwnStage;
use crate::core::command::prelude::*;

pub(super) static LIST_SEARCH_INDEXES: OwnStage = OwnStage {
    name: "$listSearchIndexes",
    applies: |_, _| false,
    access: Some(|asking, ns, _| {
        asking.on_collection(ns.database(), ns.collection(), Action::ListSearchIndexes)
    }),
    ..OwnStage::ROW
};
