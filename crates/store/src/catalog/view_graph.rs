//! Views may be built upon views, but not in a circle, and not too deep.
//!
//! The edges are what a view reads: the namespace it is on, and those that `$lookup`,
//! `$graphLookup` and `$unionWith` of its pipeline name, in sub-pipelines too.

use std::collections::HashSet;

use nagi_bson::{Array, Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::collation::Collation;

use super::{Ddl, ViewOptions};
use crate::Namespace;

/// Views on views, counted from the one that is made.
const DEPTH_MAX: usize = 20;

/// Whether `namespace` may become this view.
///
/// # Errors
/// 5 when it would read itself, 165 when it stood on more than 20 views, 167 when a view that it reads
/// has another collation: one operation has one.
pub(super) fn check(
    ddl: &Ddl<'_>,
    namespace: &Namespace,
    view: &ViewOptions,
    collation: Option<&'static Collation>,
) -> Result<()> {
    visit(ddl, view, collation, &mut vec![namespace.clone()], &mut HashSet::new())
}

/// `way` leads from the new view to this one; what is in `seen` was looked through before, so that
/// views which meet again and again cost no more than views which do not.
fn visit(
    ddl: &Ddl<'_>,
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
        let below = ddl.collection(&next).filter(|_| seen.insert(next));
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
                bail!(
                    Code::VIEW_DEPTH_LIMIT_EXCEEDED,
                    "View depth limit exceeded; maximum depth is {DEPTH_MAX}"
                );
            }
            visit(ddl, view, collation, way, seen)?;
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

/// Names that are none are refused where the pipeline is parsed.
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
