//! From a request to a plan: special cases, hints, candidates, and the nodes above the access path.

use std::{collections::BTreeSet, sync::Arc};

use nagi_bson::{Doc, DocBuf};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    expr::{MetaSet, ParseCx},
    filter::Filter,
    sort::SortSpec,
};
use nagi_store::{Collection, Index};

use super::{
    GeoNearSpec, IndexAccess, MetaSource,
    access::{self, Assignment},
    cache::{IndexFilters, Shape},
    choose::{self, Candidate},
    explode::explode,
    express::express,
    geo,
    hint::{self, Chosen, Hint},
    intersect, key_filter,
    node::{Choice, Node, Plan, ProjectionKind, SortNode},
    order, text, usable,
};
use crate::access::Intervals;
use crate::{
    access::AllowedIndexes,
    limits::QueryOptions,
    projection::Projection,
    source::{Cx, ScanOptions},
};

/// The part of a request that concerns one collection.
#[derive(Clone)]
pub(crate) struct FindSpec<'a> {
    /// None if the collection does not exist.
    pub(crate) collection: Option<Arc<Collection>>,
    pub(crate) filter: Arc<Filter>,
    pub(crate) sort: Option<Arc<SortSpec>>,
    /// Collection order, forward or backward, instead of a sort.
    pub(crate) natural: Option<bool>,
    pub(crate) projection: Option<Arc<Projection>>,
    /// Paths of the documents that are used at all; none: the whole documents.
    pub(crate) needed: Option<Vec<String>>,
    /// Metadata that the documents must carry.
    pub(crate) metas: MetaSet,
    pub(crate) skip: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) hint: Option<Hint<'a>>,
    pub(crate) min: Doc<'a>,
    pub(crate) max: Doc<'a>,
    pub(crate) return_key: bool,
    pub(crate) show_record_id: bool,
    /// Options from the server's parameters.
    pub(crate) options: QueryOptions,
    pub(crate) scan: ScanOptions,
}

impl<'a> FindSpec<'a> {
    /// Every document that `filter` matches, in any order.
    pub(crate) fn new(collection: Option<Arc<Collection>>, filter: Arc<Filter>) -> FindSpec<'a> {
        FindSpec {
            collection,
            filter,
            sort: None,
            natural: None,
            projection: None,
            needed: None,
            metas: MetaSet::NONE,
            skip: 0,
            limit: None,
            hint: None,
            min: Doc::EMPTY,
            max: Doc::EMPTY,
            return_key: false,
            show_record_id: false,
            options: QueryOptions::DEFAULT,
            scan: ScanOptions::default(),
        }
    }
}

/// Builds the plan. With several candidates it runs a short trial through `cx`.
pub(crate) fn plan(spec: &FindSpec<'_>, cx: &mut Cx<'_>) -> Result<Plan> {
    let Some(collection) = &spec.collection else {
        text::refuse_missing(&spec.filter)?;
        return Ok(single(Node::Eof));
    };
    if spec.scan.tailable {
        let plan = tailable(spec, collection)?;
        let indexed_only = cx.env.refuses_scans() && is_refusable(spec, collection);
        return if indexed_only { scan_refused(collection, TAILABLE) } else { Ok(plan) };
    }
    if !spec.filter.contains_expr() {
        return plan_for(spec, collection, cx);
    }
    let filter = Arc::new(spec.filter.with_known(cx.vars, cx.env.now_ms()));
    plan_for(&FindSpec { filter, ..spec.clone() }, collection, cx)
}

/// The plan for an existing collection, after facts were derived from each `$expr`.
fn plan_for(spec: &FindSpec<'_>, collection: &Arc<Collection>, cx: &mut Cx<'_>) -> Result<Plan> {
    let indexed_only = cx.env.refuses_scans() && is_refusable(spec, collection);
    if let Some(plan) = without_choice(spec, collection)? {
        return Ok(plan);
    }
    if !spec.min.is_empty()
        && !spec.max.is_empty()
        && !spec.min.iter().map(|e| e.name()).eq(spec.max.iter().map(|e| e.name()))
    {
        bail!(Code::BAD_VALUE, "min and max must have the same field names");
    }
    let settings = cx.env.settings();
    let allowed = settings.and_then(|settings| settings.allowed(&collection.namespace));
    if let Some(id) = spec.filter.exact_id(collection.options.collation)
        && collection.id_index().is_some()
        && !spec.return_key
        && spec.hint.is_none()
        && allowed.is_none()
        && spec.min.is_empty()
        && spec.max.is_empty()
    {
        let lookup = Node::IdLookup { collection: collection.clone(), id: id.clone() };
        return Ok(single(above(spec, lookup, true)));
    }
    if allowed.is_none()
        && let Some(node) = express(spec, collection)
    {
        return Ok(single(above(spec, node, true)));
    }
    if indexed_only && is_natural(spec, collection)? {
        return scan_refused(collection, NATURAL);
    }
    let shape = Shape::of(spec);
    if let Some(allowed) = allowed
        && let Some(plan) = allowed_plan((spec, collection), allowed, shape, indexed_only, cx)?
    {
        return Ok(plan);
    }
    let filter = IndexFilters::of(collection, shape.shape);
    let choice = Choice { shape, filtered: filter.is_some(), ..Choice::default() };
    let ranged = !spec.min.is_empty() || !spec.max.is_empty();
    if let Some(hint) = spec.hint.filter(|_| filter.is_none() || ranged) {
        return Ok(Plan { choice, ..hinted(spec, collection, hint)? });
    }
    if !spec.min.is_empty() || !spec.max.is_empty() {
        bail!(
            Code::Location(51173),
            "When using min()/max() a hint of which index to use must be provided"
        );
    }
    if let Some(forward) = spec.natural {
        let node = above(spec, coll_scan(spec, collection, forward), true);
        return Ok(Plan { choice, ..single(node) });
    }
    let allowed = filter.as_deref().map(|filter| filter.allowed());
    let (mut candidates, left_out) = candidates(spec, collection, allowed);
    if candidates.is_empty() {
        if indexed_only {
            return scan_refused(collection, NO_INDEX);
        }
        candidates.push(scan_candidate(spec, collection, true));
    }
    let shape = shape.beside(&mut left_out.iter().map(|index| index.name()));
    choose::choose(candidates, (spec, collection), Choice { shape, ..choice }, cx)
}

/// The plan of a query for which there is only one.
fn without_choice(spec: &FindSpec<'_>, collection: &Arc<Collection>) -> Result<Option<Plan>> {
    if let Filter::AlwaysFalse = &*spec.filter {
        return Ok(Some(single(above(spec, Node::Eof, true))));
    }
    if let Some((path, near)) = spec.filter.near() {
        let chosen = spec.hint.map(|hint| hint.choose(collection)).transpose()?;
        let shows = (None, spec.metas);
        let node = geo::near(collection, &spec.filter, (path, near), chosen.as_ref(), shows)?;
        return Ok(Some(single(above(spec, node, spec.sort.is_none()))));
    }
    match spec.filter.text() {
        Some(search) => Ok(Some(single(text::plan(spec, collection, search)?))),
        None => Ok(None),
    }
}

/// Error texts of `notablescan`, as in MongoDB.
const NO_INDEX: &str = "No indexed plans available, and running with 'notablescan'";
const NATURAL: &str = "hint $natural is not allowed, because 'notablescan' is enabled";
const TAILABLE: &str = "Running with 'notablescan', so tailable cursors (which always do a table scan) \
                        are not allowed";

/// Returns true if `notablescan` applies to the query. It does not apply to queries for all documents, nor to
/// system collections and internal databases.
fn is_refusable(spec: &FindSpec<'_>, collection: &Collection) -> bool {
    let namespace = &collection.namespace;
    !matches!(&*spec.filter, Filter::AlwaysTrue)
        && !namespace.collection().starts_with("system.")
        && !matches!(namespace.database(), "admin" | "config" | "local")
}

/// Returns true if the query requests a collection scan.
fn is_natural(spec: &FindSpec<'_>, collection: &Collection) -> Result<bool> {
    let hint = spec.hint.map(|hint| hint.choose(collection)).transpose()?;
    Ok(spec.natural.is_some() || matches!(hint, Some(Chosen::Natural(_))))
}

fn scan_refused<T>(collection: &Collection, why: &str) -> Result<T> {
    bail!(
        Code::NO_QUERY_EXECUTION_PLANS,
        "error processing query: ns={} planner returned error :: caused by :: {why}",
        collection.namespace
    )
}

/// The plan with the indexes that query settings allow; none if no plan for this query is possible with them.
fn allowed_plan(
    (spec, collection): (&FindSpec<'_>, &Arc<Collection>),
    allowed: &AllowedIndexes,
    shape: Shape,
    indexed_only: bool,
    cx: &mut Cx<'_>,
) -> Result<Option<Plan>> {
    // A key range belongs to the index of its hint, and collection order to no index.
    if !spec.min.is_empty() || !spec.max.is_empty() || spec.natural.is_some() {
        return Ok(None);
    }
    let (mut candidates, left_out) = candidates(spec, collection, Some(allowed));
    if candidates.is_empty() {
        let natural = allowed.natural.filter(|_| !indexed_only);
        let Some(forward) = natural else { return Ok(None) };
        candidates.push(scan_candidate(spec, collection, forward));
    }
    // A different set of indexes takes part, so it has its own entry in the plan cache.
    let names = collection.ready_indexes().filter(|index| !allowed.allows(index));
    let mut apart = left_out.into_iter().chain(names).map(|index| index.name());
    let choice = Choice { shape: shape.beside(&mut apart), ..Choice::default() };
    choose::choose(candidates, (spec, collection), choice, cx).map(Some)
}

/// The plan of a `$geoNear` stage, which yields the nearest documents first.
pub(crate) fn nearest(
    collection: &Arc<Collection>,
    spec: &GeoNearSpec,
    filter: &Arc<Filter>,
    hint: Option<Hint<'_>>,
    metas: MetaSet,
) -> Result<Plan> {
    let chosen = hint.map(|hint| hint.choose(collection)).transpose()?;
    let path = geo::indexed_path(collection, spec)?;
    let near = (&path, &spec.near);
    let shows = (Some(&spec.shown), metas);
    let node = geo::near(collection, filter, near, chosen.as_ref(), shows)?;
    Ok(single(node))
}

/// The plan that picks `count` records at random, if that is cheaper than reading all.
pub(crate) fn pick(collection: &Arc<Collection>, count: u64, cx: &Cx<'_>) -> Result<Option<Plan>> {
    let all = u64::try_from(collection.count()).unwrap_or(0);
    // The rule of MongoDB: more than 100 documents, of which at most a twentieth is picked.
    let few = all > 100 && count > 0 && count.saturating_mul(20) <= all;
    if !few {
        return Ok(None);
    }
    let dense = can_pick(collection, all, cx)?;
    Ok(dense.then(|| single(Node::Pick { collection: Arc::clone(collection), count })))
}

/// True if records have numbers, of which at least one in twenty is in use: then records can be drawn by number.
/// `all` is the number of documents.
pub(crate) fn can_pick(collection: &Collection, all: u64, cx: &Cx<'_>) -> Result<bool> {
    let end = |forward| -> Result<Option<i64>> {
        let mut cursor = cx.reader.scan(collection, forward)?;
        Ok(cursor.advance()?.then(|| cursor.id().number()).flatten())
    };
    let ends = end(true)?.zip(end(false)?);
    Ok(ends.is_some_and(|(first, last)| last.abs_diff(first) <= all.saturating_mul(20)))
}

/// The plan that reads nothing.
pub(crate) fn nothing() -> Plan {
    single(Node::Eof)
}

pub(super) fn single(root: Node) -> Plan {
    Plan::of(Arc::new(root))
}

fn coll_scan(spec: &FindSpec<'_>, collection: &Arc<Collection>, forward: bool) -> Node {
    let filter = match &*spec.filter {
        Filter::AlwaysTrue => None,
        _ => Some(spec.filter.clone()),
    };
    // A clustered collection is in the order of its ids. With a resume token, a position among the records is
    // needed.
    let by_record = spec.scan.tracked || spec.scan.resume_after.is_some();
    if let Some(index) = collection.id_index().filter(|index| index.spec.is_clustered())
        && !by_record
    {
        let access = IndexAccess {
            index: index.clone(),
            bounds: vec![Intervals::all()],
            forward,
            dedup: false,
            distinct: None,
            filter: None,
            range: None,
        };
        let input = Box::new(Node::IndexScan(Arc::new(access)));
        return Node::Fetch { collection: collection.clone(), filter, whole: None, input };
    }
    Node::CollScan { collection: collection.clone(), forward, filter, options: spec.scan.clone() }
}

/// A tailable cursor reads the collection, whatever the filter.
fn tailable(spec: &FindSpec<'_>, collection: &Arc<Collection>) -> Result<Plan> {
    if !collection.options.capped {
        bail!(
            Code::BAD_VALUE,
            "error processing query: ns={} planner returned error :: caused by :: tailable cursor \
             requested on non capped collection",
            collection.namespace
        );
    }
    let chosen = spec.hint.map(|hint| hint.choose(collection)).transpose()?;
    if matches!(chosen, Some(Chosen::Natural(false))) {
        bail!(Code::BAD_VALUE, "cannot use tailable option with a sort other than {{$natural: 1}}");
    }
    Ok(single(above(spec, coll_scan(spec, collection, true), true)))
}

fn hinted(spec: &FindSpec<'_>, collection: &Arc<Collection>, hint: Hint<'_>) -> Result<Plan> {
    match hint.choose(collection)? {
        Chosen::Index(index) if !index.spec.kind.facts().answers_filters() => bail!(
            Code::NO_QUERY_EXECUTION_PLANS,
            "error processing query: ns={} planner returned error :: caused by :: the hinted index \
             {} {}",
            collection.namespace,
            index.name(),
            index.spec.kind.facts().filters_refused.unwrap_or_default()
        ),
        Chosen::Natural(forward) => {
            let forward = spec.natural.unwrap_or(forward);
            Ok(single(above(spec, coll_scan(spec, collection, forward), false)))
        }
        Chosen::Index(index) if spec.min.is_empty() && spec.max.is_empty() => {
            let conjuncts = access::conjuncts(&spec.filter);
            let items = access::items(conjuncts);
            if index.spec.kind.facts().by_path {
                return wildcard_hinted(spec, collection, &index, &items);
            }
            let assignment = access::assign(&index, &items);
            Ok(single(index_candidate(spec, collection, &index, assignment)))
        }
        Chosen::Index(index) => {
            let range = hint::key_range(&index, spec.min, spec.max)?;
            let bounds = vec![Intervals::all(); index.spec.key.len()];
            let forward =
                spec.sort.as_ref().and_then(|sort| order::direction_for(&index, &bounds, sort));
            let scan = IndexAccess {
                dedup: index.is_multikey(),
                index,
                bounds,
                forward: forward.unwrap_or(true),
                distinct: None,
                filter: None,
                range: Some(range),
            };
            let access = Arc::new(scan);
            let node = read(spec, collection, &access, Some(spec.filter.clone()));
            Ok(single(above(spec, node, forward.is_some())))
        }
    }
}

/// The plan over a hinted wildcard index, at the path with the narrowest bounds.
///
/// # Errors
/// 291 if the index serves no part of the filter.
fn wildcard_hinted(
    spec: &FindSpec<'_>,
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    items: &[access::Item<'_>],
) -> Result<Plan> {
    let best = usable::at_paths(index, items, &spec.filter)
        .into_iter()
        .filter_map(|view| access::assign(&view, items).map(|assignment| (view, assignment)))
        .min_by_key(|(_, assignment)| choose::narrowness(assignment));
    let Some((view, assignment)) = best else {
        bail!(
            Code::NO_QUERY_EXECUTION_PLANS,
            "error processing query: ns={} planner returned error :: caused by :: No query \
             solutions",
            collection.namespace
        );
    };
    Ok(single(index_candidate(spec, collection, &view, Some(assignment))))
}

/// All plans over indexes that are worth a trial, and the indexes that were left out because they do not contain
/// every matching document.
fn candidates<'c>(
    spec: &FindSpec<'_>,
    collection: &'c Arc<Collection>,
    allowed: Option<&AllowedIndexes>,
) -> (Vec<Candidate>, Vec<&'c Arc<Index>>) {
    let conjuncts = access::conjuncts(&spec.filter);
    let items = access::items(conjuncts);
    let (indexes, left_out) = usable::usable(collection, &items, &spec.filter, allowed);
    let mut out = Vec::new();
    let (mut sorting, mut assigned) = (Vec::new(), Vec::new());
    for index in &indexes {
        match access::assign(index, &items) {
            Some(assignment) => {
                if index.spec.unique && assignment.bounds.iter().all(Intervals::is_one_point) {
                    let node = index_candidate(spec, collection, index, Some(assignment));
                    return (vec![Candidate::index(index, node)], left_out);
                }
                let node = index_candidate(spec, collection, index, Some(assignment.clone()));
                out.push(Candidate::index(index, node));
                assigned.push((Arc::clone(index), assignment));
            }
            None if !index.spec.kind.facts().whole => {}
            None => {
                let bounds = vec![Intervals::all(); index.spec.key.len()];
                let sorts = spec
                    .sort
                    .as_ref()
                    .is_some_and(|sort| order::direction_for(index, &bounds, sort).is_some());
                if sorts {
                    let node = index_candidate(spec, collection, index, None);
                    sorting.push(Candidate::index(index, node));
                }
            }
        }
    }
    for (at, conjunct) in conjuncts.iter().enumerate() {
        if let Filter::Or(branches) = conjunct {
            out.extend(or_candidate(spec, collection, branches, at, conjuncts, allowed));
        }
    }
    out.extend(sorting);
    out.extend(intersect::candidate(spec, collection, &assigned));
    (out, left_out)
}

/// The plan that scans the whole collection.
fn scan_candidate(spec: &FindSpec<'_>, collection: &Arc<Collection>, forward: bool) -> Candidate {
    let rooted_or = matches!(&*spec.filter, Filter::Or(_));
    let node = above(spec, coll_scan(spec, collection, forward), false);
    let node = if rooted_or { Node::Subplan { input: Box::new(node) } } else { node };
    Candidate::union(std::iter::empty(), node)
}

/// The conjuncts that the bounds do not decide.
fn residual(spec: &FindSpec<'_>, exact: &[usize]) -> Option<Arc<Filter>> {
    if exact.is_empty() {
        return match &*spec.filter {
            Filter::AlwaysTrue => None,
            _ => Some(spec.filter.clone()),
        };
    }
    rest(access::conjuncts(&spec.filter), exact)
}

pub(super) fn rest(conjuncts: &[Filter], without: &[usize]) -> Option<Arc<Filter>> {
    let mut rest: Vec<Filter> = conjuncts
        .iter()
        .enumerate()
        .filter(|(at, _)| !without.contains(at))
        .map(|(_, part)| part.clone())
        .collect();
    match rest.len() {
        0 => None,
        1 => rest.pop().map(Arc::new),
        _ => Some(Arc::new(Filter::And(rest))),
    }
}

/// A complete plan over one index. Without an assignment the index is scanned from end to end.
fn index_candidate(
    spec: &FindSpec<'_>,
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    assignment: Option<Assignment>,
) -> Node {
    let (bounds, exact) = match assignment {
        Some(assignment) => (assignment.bounds, assignment.exact),
        None => (vec![Intervals::all(); index.spec.key.len()], Vec::new()),
    };
    let forward = spec.sort.as_ref().and_then(|sort| order::direction_for(index, &bounds, sort));
    if let (Some(sort), None, false) = (&spec.sort, forward, spec.return_key)
        && let Some(scans) = explode(index, &bounds, sort)
    {
        let filter = residual(spec, &exact);
        let inputs = scans.iter().map(|scan| read(spec, collection, scan, filter.clone()));
        let node = Node::SortMerge { sort: sort.clone(), inputs: inputs.collect() };
        return above(spec, node, true);
    }
    let access = Arc::new(IndexAccess {
        index: index.clone(),
        dedup: has_duplicates(index, &bounds),
        bounds,
        forward: forward.unwrap_or(true),
        distinct: None,
        filter: None,
        range: None,
    });
    let node = read(spec, collection, &access, residual(spec, &exact));
    above(spec, node, forward.is_some())
}

/// Returns true if a record may have several entries within the bounds: because of arrays, or several paths of a
/// wildcard.
fn has_duplicates(index: &Index, bounds: &[Intervals]) -> bool {
    let paths = index.spec.path_field().and_then(|field| bounds.get(field.at));
    index.is_multikey() || paths.is_some_and(|paths| !paths.is_one_point())
}

/// The access path: a scan, and a fetch unless the keys contain all that is needed.
fn read(
    spec: &FindSpec<'_>,
    collection: &Arc<Collection>,
    access: &Arc<IndexAccess>,
    filter: Option<Arc<Filter>>,
) -> Node {
    let (access, filter) = key_filter::apply(access, filter);
    let scan = Box::new(Node::IndexScan(access.clone()));
    let whole = Some(spec.filter.clone());
    // Above a blocking sort the keys kept by the sort are shown: it may sort by fields that are not part of the
    // keys.
    let keys_now = spec.return_key && !blocks(spec, &access);
    if keys_now && filter.is_none() {
        return Node::FromKey { access, fields: None, input: scan };
    }
    if spec.return_key && !keys_now {
        return Node::Fetch { collection: collection.clone(), filter, whole, input: scan };
    }
    if filter.is_none() && spec.needed.as_ref().is_some_and(Vec::is_empty) && spec.sort.is_none() {
        return *scan;
    }
    if filter.is_none() && covers(spec, &access.index) {
        let sort = spec.sort.iter().flat_map(|sort| sort.parts());
        let fields = spec.needed.iter().flatten().cloned();
        let fields = fields.chain(sort.map(|part| part.path.as_str().to_owned())).collect();
        return Node::FromKey { access, fields: Some(fields), input: scan };
    }
    let fetch =
        Box::new(Node::Fetch { collection: collection.clone(), filter, whole, input: scan });
    if keys_now {
        return Node::FromKey { access, fields: None, input: fetch };
    }
    *fetch
}

/// Returns true if a sort is needed above the scan.
fn blocks(spec: &FindSpec<'_>, access: &IndexAccess) -> bool {
    let Some(sort) = &spec.sort else { return false };
    order::direction_for(&access.index, &access.bounds, sort).is_none()
}

/// Returns true if the index's keys contain every path that projection and sort need.
pub(super) fn covers(spec: &FindSpec<'_>, index: &Index) -> bool {
    let Some(needed) = &spec.needed else { return false };
    let in_key = |path: &str| {
        index.spec.key.iter().enumerate().any(|(field, part)| {
            *part.path == *path
                && part.holds_value()
                && !access::has_position(path)
                && index.multikey_components(field) == 0
        })
    };
    let sort = spec.sort.iter().flat_map(|sort| sort.parts());
    // A collated index contains collation keys instead of strings. Of a document with arrays at other paths the
    // scan yields one entry, no matter which: they have the same values at the needed paths.
    index.spec.collation.is_none()
        && needed.iter().all(|path| in_key(path))
        && sort.into_iter().all(|part| in_key(part.path.as_str()))
}

/// The union of one access path for each branch of an `$or`; none if a branch has no usable index.
fn or_candidate(
    spec: &FindSpec<'_>,
    collection: &Arc<Collection>,
    branches: &[Filter],
    conjunct: usize,
    conjuncts: &[Filter],
    allowed: Option<&AllowedIndexes>,
) -> Option<Candidate> {
    let mut paths = Vec::with_capacity(branches.len());
    for branch in branches {
        paths.push(best_access(collection, branch, spec.sort.as_deref(), allowed)?);
    }
    let names: Vec<Arc<Index>> = paths.iter().map(|(access, ..)| access.index.clone()).collect();
    let others = rest(conjuncts, &[conjunct]);
    let sorted = spec.sort.is_some() && paths.iter().all(|(_, _, sorted)| *sorted);
    let exact = paths.iter().all(|(_, filter, _)| filter.is_none());
    let inputs = paths.into_iter().map(|(access, filter, _)| {
        let input = Node::IndexScan(access);
        match (filter, exact && !sorted) {
            (None, true) => input,
            (filter, _) => fetched(spec, collection, filter, input),
        }
    });
    let inputs = inputs.collect();
    let counted = spec.needed.as_ref().is_some_and(Vec::is_empty) && spec.sort.is_none();
    let union = match &spec.sort {
        Some(sort) if sorted => Node::SortMerge { sort: sort.clone(), inputs },
        _ => Node::Or { inputs },
    };
    let node = match (&others, exact && !sorted) {
        (None, false) => union,
        (None, true) if counted => union,
        _ => fetched(spec, collection, others, union),
    };
    let node = above(spec, node, sorted);
    let node = match conjuncts.len() {
        1 => Node::Subplan { input: Box::new(node) },
        _ => node,
    };
    Some(Candidate::union(names.iter(), node))
}

fn fetched(
    spec: &FindSpec<'_>,
    collection: &Arc<Collection>,
    filter: Option<Arc<Filter>>,
    input: Node,
) -> Node {
    let (whole, input) = (Some(spec.filter.clone()), Box::new(input));
    Node::Fetch { collection: collection.clone(), filter, whole, input }
}

pub(super) type BranchAccess = (Arc<IndexAccess>, Option<Arc<Filter>>, bool);

/// The access path of the index with the narrowest bounds for one branch.
pub(super) fn best_access(
    collection: &Arc<Collection>,
    branch: &Filter,
    sort: Option<&SortSpec>,
    allowed: Option<&AllowedIndexes>,
) -> Option<BranchAccess> {
    let conjuncts = access::conjuncts(branch);
    let items = access::items(conjuncts);
    let best = usable::usable(collection, &items, branch, allowed)
        .0
        .into_iter()
        .filter_map(|index| {
            let assignment = access::assign(&index, &items)?;
            Some((index, assignment))
        })
        .min_by_key(|(_, assignment)| choose::narrowness(assignment))?;
    let (index, assignment) = best;
    let forward = sort.and_then(|sort| order::direction_for(&index, &assignment.bounds, sort));
    let filter = rest(conjuncts, &assignment.exact);
    let access = IndexAccess {
        dedup: has_duplicates(&index, &assignment.bounds),
        index,
        bounds: assignment.bounds,
        forward: forward.unwrap_or(true),
        distinct: None,
        filter: None,
        range: None,
    };
    let (access, filter) = key_filter::apply(&Arc::new(access), filter);
    Some((access, filter, forward.is_some()))
}

/// Adds sort, skip, limit and projection above an access path.
pub(super) fn above(spec: &FindSpec<'_>, mut node: Node, sorted: bool) -> Node {
    let is_one = matches!(node, Node::IdLookup { .. } | Node::Express { .. } | Node::Eof);
    if let Some(sort) = &spec.sort
        && !sorted
        && !is_one
    {
        node = prune(spec, sort, node);
        let shows_key = spec.return_key
            || spec.projection.as_ref().is_some_and(|projection| projection.needs_meta());
        node = Node::Sort(SortNode {
            keyed_by: index_below(&node).filter(|_| shows_key),
            sort: sort.clone(),
            limit: spec.limit.map(|limit| limit.saturating_add(spec.skip)),
            memory_bytes_max: spec.options.memory.sort,
            allow_disk_use: spec.options.allow_disk_use,
            input: Box::new(node),
        });
    }
    let blocks = matches!(node, Node::Sort(_));
    if spec.skip > 0 {
        node = skip(spec.skip, node);
    }
    if let Some(count) = spec.limit
        && (!blocks || spec.skip > 0)
        && (!is_one || spec.skip > 0)
    {
        node = Node::Limit { count, input: Box::new(node) };
    }
    if let Some(projection) = &spec.projection
        && !spec.return_key
    {
        node = project(spec, projection, node);
    }
    if spec.return_key && !from_key(&node) {
        node = Node::KeptKey { input: Box::new(node) };
    }
    if spec.show_record_id {
        node = Node::RecordId { input: Box::new(node) };
    }
    node
}

/// Skips results of `node`. Entries whose documents are fetched without a filter are skipped before the fetch.
fn skip(count: u64, node: Node) -> Node {
    match node {
        Node::Fetch { collection, filter: None, whole, input } if !is_clustered(&input) => {
            let input = Box::new(Node::Skip { count, input });
            Node::Fetch { collection, filter: None, whole, input }
        }
        node => Node::Skip { count, input: Box::new(node) },
    }
}

/// Returns true if the node scans the records themselves.
fn is_clustered(node: &Node) -> bool {
    matches!(node, Node::IndexScan(access) if access.index.spec.is_clustered())
}

/// Below a blocking sort, reduces documents to the requested fields, if these are known, so that the sort holds
/// less.
fn prune(spec: &FindSpec<'_>, sort: &SortSpec, node: Node) -> Node {
    let plain = spec.projection.is_none() && !spec.return_key && !spec.show_record_id;
    let without_meta = spec.metas == MetaSet::NONE && !sort.needs_meta();
    let Some(needed) = spec.needed.as_ref().filter(|_| plain && without_meta) else { return node };
    if from_key(&node) {
        return node;
    }
    // Whole top-level fields, because a path may address array elements by position.
    let paths = needed.iter().map(String::as_str);
    let paths = paths.chain(sort.parts().iter().map(|part| part.path.as_str()));
    let names: BTreeSet<&str> = paths.map(|path| path.split('.').next().unwrap_or(path)).collect();
    let text = DocBuf::build(|out| {
        names.iter().for_each(|name| out.put(name, 1));
        if !names.contains("_id") {
            out.put("_id", 0);
        }
    });
    let filter = Arc::new(Filter::AlwaysTrue);
    match Projection::parse(text.as_doc(), &filter, &mut ParseCx::new()) {
        Ok(Some(projection)) => Node::Projection {
            kind: ProjectionKind::Simple,
            meta: MetaSource::default(),
            projection: Arc::new(projection),
            filter,
            input: Box::new(node),
        },
        // A name that is not valid in a projection.
        _ => node,
    }
}

fn project(spec: &FindSpec<'_>, projection: &Arc<Projection>, node: Node) -> Node {
    let kind = if from_key(&node) {
        ProjectionKind::Covered
    } else if projection.is_simple() {
        ProjectionKind::Simple
    } else {
        ProjectionKind::Default
    };
    let meta = match projection.needs_meta() {
        true => MetaSource { sort: spec.sort.clone(), index: index_below(&node) },
        false => MetaSource::default(),
    };
    Node::Projection {
        kind,
        meta,
        projection: projection.clone(),
        filter: spec.filter.clone(),
        input: Box::new(node),
    }
}

/// The index that the plan's documents come from, if it is a single one and no sort is in between.
fn index_below(node: &Node) -> Option<Arc<Index>> {
    match node {
        Node::IndexScan(access) => Some(access.index.clone()),
        Node::Fetch { input, .. } | Node::Skip { input, .. } | Node::Limit { input, .. } => {
            index_below(input)
        }
        _ => None,
    }
}

fn from_key(node: &Node) -> bool {
    matches!(node, Node::FromKey { .. }) || node.inputs().into_iter().any(from_key)
}
