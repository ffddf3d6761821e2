//! What a plan reads, and whether it is still there: what was dropped meanwhile was perhaps read in part.

use std::sync::Arc;

use nagi_error::{Code, Result, err};
use nagi_store::{Collection, Store};

use super::{Node, Plan};

/// The collection, with the names of its indexes that the plan reads.
pub(crate) fn reads(
    collection: Option<Arc<Collection>>,
    plan: &Plan,
) -> Vec<(Arc<Collection>, Vec<String>)> {
    let mut names = Vec::new();
    index_names(&plan.root, &mut names);
    collection.map(|collection| (collection, names)).into_iter().collect()
}

fn index_names(node: &Node, out: &mut Vec<String>) {
    if let Node::IndexScan(access) | Node::Express { access, .. } = node {
        out.push(access.index.name().to_owned());
    }
    if let Node::IdLookup { collection, .. } = node {
        out.extend(collection.id_index().map(|index| index.name().to_owned()));
    }
    node.inputs().into_iter().for_each(|input| index_names(input, out));
}

/// Collections, with the names of their indexes that a plan reads.
pub(crate) type Reads = [(Arc<Collection>, Vec<String>)];

/// Fails if a collection or an index that is being read does not exist any more.
pub(crate) fn check_still_there(store: &Store, reads: &Reads) -> Result<()> {
    for (collection, indexes) in reads {
        let now = store.collection(&collection.namespace);
        let Some(now) = now.filter(|now| now.uuid == collection.uuid) else {
            return Err(err!(
                Code::QUERY_PLAN_KILLED,
                "collection dropped. UUID {}",
                collection.uuid
            ));
        };
        // An index that was rebuilt under the same name is another index.
        let is_gone = |name: &&String| {
            let (then, now_there) = (collection.index(name), now.index(name));
            now_there.map(|index| now.build_uuid(index))
                != then.map(|index| collection.build_uuid(index))
        };
        if let Some(gone) = indexes.iter().find(is_gone) {
            return Err(err!(
                Code::QUERY_PLAN_KILLED,
                "query plan killed :: index '{gone}' dropped"
            ));
        }
    }
    Ok(())
}
