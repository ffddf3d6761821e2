//! Checks the graph of views: views may read views, but not in a cycle, and not too deep.
//!
//! The edges of a view are the namespace that it is on, and those that `$lookup`, `$graphLookup` and `$unionWith`
//! of its pipeline name, including sub-pipelines.

use std::collections::{HashMap, HashSet};

use nagi_bson::{Array, Doc, Value};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_lang::collation::Collation;

use super::{Catalog, ViewOptions};
use crate::Namespace;

/// Limit of views in a chain, including views that read the new one.
const DEPTH_MAX: usize = 20;

/// Checks that `namespace` may become this view.
///
/// # Errors
/// 5 if it would read itself; 165 if a chain of views through it had more than 20; 167 if a view that it reads has
/// another collation, because an operation has only one.
pub(crate) fn check(
    catalog: &Catalog,
    namespace: &Namespace,
    view: &ViewOptions,
    collation: Option<&'static Collation>,
) -> Result<()> {
    visit(catalog, view, collation, &mut vec![namespace.clone()], &mut HashSet::new())?;
    let below = 1 + views_below(catalog, view, &mut HashMap::new());
    if below + views_above(catalog, namespace) > DEPTH_MAX {
        return Err(too_deep());
    }
    Ok(())
}

fn too_deep() -> Error {
    err!(Code::VIEW_DEPTH_LIMIT_EXCEEDED, "View depth limit exceeded; maximum depth is {DEPTH_MAX}")
}

/// The longest chain of views that a view reads. `known` has the results computed before.
fn views_below(
    catalog: &Catalog,
    view: &ViewOptions,
    known: &mut HashMap<Namespace, usize>,
) -> usize {
    let mut longest = 0;
    for next in inputs(view) {
        let length = match known.get(&next) {
            Some(length) => *length,
            None => {
                let collection = catalog.collection(&next);
                let view = collection.as_ref().and_then(|c| c.options.view.as_ref());
                let length = view.map_or(0, |view| 1 + views_below(catalog, view, known));
                known.insert(next, length);
                length
            }
        };
        longest = longest.max(length);
    }
    longest
}

/// The longest chain of views that read `namespace`, which need not exist yet.
fn views_above(catalog: &Catalog, namespace: &Namespace) -> usize {
    let mut readers: HashMap<Namespace, Vec<Namespace>> = HashMap::new();
    for collection in catalog.views(namespace.database()) {
        for read in collection.options.view.iter().flat_map(inputs) {
            readers.entry(read).or_default().push(collection.namespace.clone());
        }
    }
    // Level by level: a chain contains no view twice, because there are no cycles.
    let mut level = HashSet::from([namespace]);
    let mut length = 0;
    while length <= DEPTH_MAX {
        level = level.iter().filter_map(|at| readers.get(*at)).flatten().collect();
        if level.is_empty() {
            break;
        }
        length += 1;
    }
    length
}

/// `way` is the path from the new view to this one. Views in `seen` were visited before, so a view that is reached
/// repeatedly costs no more than one that is not.
fn visit(
    catalog: &Catalog,
    view: &ViewOptions,
    collation: Option<&'static Collation>,
    way: &mut Vec<Namespace>,
    seen: &mut HashSet<Namespace>,
) -> Result<()> {
    for next in inputs(view) {
        let is_circle = way.first() == Some(&next);
        way.push(next.clone());
        if is_circle {
            let names: Vec<&str> = way.iter().map(Namespace::as_str).collect();
            bail!(Code::GRAPH_CONTAINS_CYCLE, "View cycle detected: {}", names.join(" => "));
        }
        let below = catalog.collection(&next).filter(|_| seen.insert(next));
        if let Some((found, view)) =
            below.as_ref().and_then(|c| Some((c, c.options.view.as_ref()?)))
        {
            if found.options.collation != collation {
                bail!(
                    Code::OPTION_NOT_SUPPORTED_ON_VIEW,
                    "View {} has conflicting collation with view {}",
                    way[0],
                    found.namespace
                );
            }
            if way.len() > DEPTH_MAX {
                return Err(too_deep());
            }
            visit(catalog, view, collation, way, seen)?;
        }
        way.pop();
    }
    Ok(())
}

fn inputs(view: &ViewOptions) -> Vec<Namespace> {
    let mut found = vec![view.on.clone()];
    of_pipeline(view.pipeline.as_array(), view.on.database(), &mut found);
    found
}

/// Invalid names are refused when the pipeline is parsed.
fn of_pipeline(pipeline: Array<'_>, database: &str, found: &mut Vec<Namespace>) {
    for stage in pipeline.iter().filter_map(|stage| stage.as_doc()?.first()) {
        let name = match (stage.name(), stage.value()) {
            ("$unionWith", Value::String(name)) => Some(name),
            ("$unionWith", Value::Doc(spec)) => of_spec(spec, "coll", database, found),
            ("$lookup" | "$graphLookup", Value::Doc(spec)) => {
                of_spec(spec, "from", database, found)
            }
            ("$facet", Value::Doc(facets)) => {
                let pipelines = facets.iter().filter_map(|facet| facet.value().as_array());
                pipelines.for_each(|pipeline| of_pipeline(pipeline, database, found));
                None
            }
            _ => None,
        };
        found.extend(name.and_then(|name| Namespace::new(database, name).ok()));
    }
}

fn of_spec<'a>(
    spec: Doc<'a>,
    field: &str,
    database: &str,
    found: &mut Vec<Namespace>,
) -> Option<&'a str> {
    if let Value::Array(pipeline) = spec.get("pipeline") {
        of_pipeline(pipeline, database, found);
    }
    spec.get(field).as_str()
}
