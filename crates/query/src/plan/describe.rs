//! Writes the nodes of a plan as explain shows them.

use nagi_bson::DocWriter;
use nagi_lang::{collation, filter::Filter, sort::SortSpec};

use crate::{
    access::{GeoNearAccess, IndexAccess, Intervals, TextAccess},
    plan::Node,
    source::{ExecutionStats, Source, SourceStats, sum_stats},
};

fn int(n: u64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// Writes a node and the nodes below it; with counters if its source is given, after it has run.
pub(crate) fn write_node(node: &Node, ran: Option<&mut dyn Source>, out: &mut DocWriter<'_>) {
    write(node, ran, false, out);
}

/// Writes a node and the nodes below it into `out`. `ran` is its source after it has run; `counting` means that the
/// keys are only counted.
pub(crate) fn write(
    node: &Node,
    ran: Option<&mut dyn Source>,
    counting: bool,
    out: &mut DocWriter<'_>,
) {
    if let Some(access) = clustered(node) {
        return write_clustered(node, access, ran, out);
    }
    // A count does not use express plans; it shows the ordinary lookup.
    if let (Node::IdLookup { .. } | Node::Express { .. }, false) = (node, counting) {
        return write_express(node, ran, out);
    }
    out.put("stage", stage_name(node, counting));
    let mut ran = ran;
    if let Some(source) = &mut ran {
        write_counters(&source.stats(), out);
    }
    write_fields(node, out);
    if let Some(source) = &mut ran {
        write_work(node, &**source, out);
    }
    if let (Node::GeoNear(access), Some(source)) = (node, &ran) {
        return write_near_inputs(access, &**source, out);
    }
    let inputs = node.inputs();
    let many = matches!(
        node,
        Node::AndSorted { .. } | Node::Or { .. } | Node::SortMerge { .. } | Node::TextOr { .. }
    );
    if many {
        out.array("inputStages", |out| {
            for (at, input) in inputs.into_iter().enumerate() {
                let source = ran.as_deref_mut().and_then(|source| nth_input(source, at));
                out.doc(|out| write(input, source, false, out));
            }
        });
    } else if let Some(input) = inputs.first() {
        let mut source = ran.and_then(first_input);
        let mut input = *input;
        // The projection and the construction of its documents from keys are one stage in explain.
        if let (Node::Projection { .. }, Node::FromKey { fields: Some(_), input: below, .. }) =
            (node, input)
        {
            input = below;
            source = source.and_then(first_input);
        }
        let counting = counting && matches!(node, Node::Skip { .. } | Node::Limit { .. });
        out.doc("inputStage", |out| write(input, source, counting, out));
    }
}

/// Returns true if the plan yields index entries without their documents, because they are only counted.
pub(crate) fn is_counted(root: &Node) -> bool {
    match root {
        Node::IndexScan(_) => true,
        Node::Skip { input, .. } | Node::Limit { input, .. } => is_counted(input),
        _ => false,
    }
}

/// Writes the rings around the centre, which are scans and fetches of one index, as one stage.
fn write_near_inputs(access: &GeoNearAccess, source: &dyn Source, out: &mut DocWriter<'_>) {
    let stats = source.stats();
    let counted =
        SourceStats { works: stats.docs_examined, advanced: stats.docs_examined, ..stats };
    out.array("inputStages", |out| {
        out.doc(|out| {
            out.put("stage", "FETCH");
            write_counters(&counted, out);
            out.put("docsExamined", int(stats.docs_examined));
            out.doc("inputStage", |out| {
                out.put("stage", "IXSCAN");
                write_counters(&SourceStats { works: stats.keys_examined, ..counted }, out);
                out.put("keyPattern", &access.index.spec.key_pattern);
                out.put("indexName", access.index.name());
                out.put("indexVersion", 2);
                out.put("keysExamined", int(stats.keys_examined));
            });
        });
    });
}

/// A point read is one stage with few counters. Its key pattern is shown as text.
fn write_express(node: &Node, ran: Option<&mut dyn Source>, out: &mut DocWriter<'_>) {
    out.put("stage", node.stage_name());
    match node {
        Node::Express { access, .. } => {
            let key = access.index.spec.key_pattern.as_doc();
            out.put("keyPattern", nagi_bson::text::doc_text(key).as_str());
            out.put("indexName", access.index.name());
        }
        Node::IdLookup { collection, .. } if collection.options.clustered.is_none() => {
            out.put("keyPattern", "{ _id: 1 }");
            out.put("indexName", "_id_");
        }
        _ => {}
    }
    if let Some(source) = ran {
        let returned = source.stats().advanced;
        let mut examined = ExecutionStats::default();
        sum_stats(source, &mut examined);
        out.put("keysExamined", int(examined.keys_examined));
        out.put("docsExamined", int(examined.docs_examined));
        out.put("nReturned", int(returned));
    }
}

/// The scan of a clustered index, with or without the fetch of its records.
fn clustered(node: &Node) -> Option<&IndexAccess> {
    match node {
        Node::IndexScan(access) if access.index.spec.is_clustered() => Some(access),
        Node::Fetch { input, .. } => match &**input {
            Node::IndexScan(access) if access.index.spec.is_clustered() => Some(access),
            _ => None,
        },
        _ => None,
    }
}

/// Writes both as one stage: a scan of the records in the order of their ids.
fn write_clustered(
    node: &Node,
    access: &IndexAccess,
    ran: Option<&mut dyn Source>,
    out: &mut DocWriter<'_>,
) {
    out.put("stage", access.stage_name());
    if let Some(source) = &ran {
        write_counters(&source.stats(), out);
    }
    if let Node::Fetch { filter, .. } = node {
        write_filter(filter.as_deref(), out);
    }
    out.put("direction", direction(access.forward));
    let all = access.bounds.iter().all(Intervals::is_all);
    if let (false, Some(set)) = (all, access.bounds.first())
        && let (Some(first), Some(last)) = (set.0.first(), set.0.last())
    {
        out.put("minRecord", first.low.value());
        out.put("maxRecord", last.high.value());
    }
    if let Some(source) = ran {
        out.put("docsExamined", int(source.stats().docs_examined));
    }
}

fn first_input(source: &mut dyn Source) -> Option<&mut dyn Source> {
    nth_input(source, 0)
}

fn nth_input(source: &mut dyn Source, at: usize) -> Option<&mut dyn Source> {
    match source.inputs().get_mut(at) {
        Some(input) => Some(&mut **input),
        None => None,
    }
}

fn stage_name(node: &Node, counting: bool) -> &'static str {
    match node {
        Node::IdLookup { .. } if counting => "IDHACK",
        Node::IndexScan(access) if access.distinct.is_some() => "DISTINCT_SCAN",
        Node::IndexScan(access) if counting && access.filter.is_none() && is_one_range(access) => {
            "COUNT_SCAN"
        }
        other => other.stage_name(),
    }
}

/// The log's `planSummary` of a plan whose results are only counted.
pub(crate) fn summary_of_count(root: &Node) -> String {
    let mut text = String::new();
    root.summary(&mut text);
    let mut node = root;
    while let Node::Skip { .. } | Node::Limit { .. } = node
        && let Some(input) = node.inputs().into_iter().next()
    {
        node = input;
    }
    match stage_name(node, true) {
        name @ "COUNT_SCAN" => text.replacen("IXSCAN", name, 1),
        _ => text,
    }
}

/// Returns true if the bounds are one range of keys: points, then at most one interval, then unbounded fields.
fn is_one_range(access: &IndexAccess) -> bool {
    let mut rest = access.bounds.iter().skip_while(|set| set.is_one_point());
    rest.next().is_none_or(|set| set.0.len() == 1) && rest.all(Intervals::is_all)
}

/// The counters that every stage has.
pub(crate) fn write_counters(stats: &SourceStats, out: &mut DocWriter<'_>) {
    out.put("nReturned", int(stats.advanced));
    out.put("executionTimeMillisEstimate", int(stats.nanos / 1_000_000));
    out.put("works", int(stats.works));
    out.put("advanced", int(stats.advanced));
    let idle = stats.works.saturating_sub(stats.advanced + u64::from(stats.at_end));
    out.put("needTime", int(idle));
    // A plan that runs for explain never releases its snapshot.
    out.put("needYield", 0);
    out.put("saveState", 0);
    out.put("restoreState", 0);
    out.put("isEOF", i32::from(stats.at_end));
}

fn direction(forward: bool) -> &'static str {
    if forward { "forward" } else { "backward" }
}

fn write_filter(filter: Option<&Filter>, out: &mut DocWriter<'_>) {
    if let Some(filter) = filter {
        out.put("filter", &filter.to_doc());
    }
}

fn write_sort(name: &str, sort: &SortSpec, out: &mut DocWriter<'_>) {
    out.doc(name, |out| {
        for part in sort.parts() {
            match part.meta {
                Some(_) => out.doc(part.path.as_str(), |out| out.put("$meta", "textScore")),
                None => out.put(part.path.as_str(), if part.descending { -1 } else { 1 }),
            }
        }
    });
}

fn write_fields(node: &Node, out: &mut DocWriter<'_>) {
    match node {
        Node::CollScan { forward, filter, .. } => {
            write_filter(filter.as_deref(), out);
            out.put("direction", direction(*forward));
        }
        Node::IndexScan(access) => write_access(access, out),
        Node::GeoNear(access) => {
            write_filter(access.filter.as_deref(), out);
            out.put("keyPattern", &access.index.spec.key_pattern);
            out.put("indexName", access.index.name());
            out.put("indexVersion", 2);
        }
        Node::TextMatch { access, .. } => write_search(access, out),
        Node::TextOr { filter, .. } => write_filter(filter.as_deref(), out),
        Node::Fetch { filter, .. } => write_filter(filter.as_deref(), out),
        Node::SortMerge { sort, .. } => write_sort("sortPattern", sort, out),
        Node::Sort(sort) => {
            write_sort("sortPattern", &sort.sort, out);
            out.put("memLimit", sort.memory_bytes_max as i64);
            if let Some(limit) = sort.limit {
                out.put("limitAmount", limit as i64);
            }
            out.put("type", "simple");
        }
        Node::Skip { count, .. } => out.put("skipAmount", *count as i64),
        Node::Limit { count, .. } => out.put("limitAmount", *count as i64),
        Node::Projection { projection, .. } => out.put("transformBy", projection.text()),
        Node::FromKey { access, fields: Some(_), .. } => out.doc("transformBy", |out| {
            for part in &access.index.spec.key {
                out.put(&part.path, 1);
            }
            if access.index.spec.key.iter().all(|part| &*part.path != "_id") {
                out.put("_id", 0);
            }
        }),
        _ => {}
    }
}

/// Writes the search as it was parsed.
fn write_search(access: &TextAccess, out: &mut DocWriter<'_>) {
    let spec = &access.index.spec;
    out.doc("indexPrefix", |out| {
        for (part, set) in spec.key.iter().zip(&access.bounds).take(access.term) {
            if let Some(interval) = set.0.first() {
                out.put(&part.path, interval.low.value());
            }
        }
    });
    out.put("indexName", &*spec.name);
    let Some(bound) = access.text.bound() else { return };
    let search = &bound.search;
    out.doc("parsedTextQuery", |out| {
        let mut list = |name: &str, texts: &mut dyn Iterator<Item = &String>| {
            out.array(name, |out| texts.for_each(|text| out.push(&**text)));
        };
        list("terms", &mut search.terms.iter());
        list("negatedTerms", &mut search.negated_terms.iter());
        list("phrases", &mut search.phrases.iter());
        list("negatedPhrases", &mut search.negated_phrases.iter());
    });
    out.put("textIndexVersion", i32::from(search.version));
}

fn write_access(access: &IndexAccess, out: &mut DocWriter<'_>) {
    let index = &access.index;
    let spec = &index.spec;
    write_filter(access.filter.as_ref().map(|filter| &*filter.shown), out);
    out.put("keyPattern", spec.key_pattern.as_doc());
    out.put("indexName", &*spec.name);
    collation::put(spec.collation, "collation", out);
    out.put("isMultiKey", index.is_multikey());
    out.doc("multiKeyPaths", |out| {
        for (field, part) in spec.key.iter().enumerate() {
            let bits = index.multikey_components(field);
            out.array(&part.path, |out| {
                let mut end = 0;
                for (at, component) in part.path.split('.').enumerate().take(64) {
                    end += component.len() + usize::from(at > 0);
                    if bits & (1 << at) != 0 {
                        out.push(&part.path[..end]);
                    }
                }
            });
        }
    });
    out.put("isUnique", spec.unique);
    out.put("isSparse", spec.sparse);
    out.put("isPartial", spec.partial.is_some());
    out.put("indexVersion", 2);
    out.put("direction", direction(access.forward));
    let collated = spec.collation.is_some();
    out.doc("indexBounds", |out| {
        for (set, part) in access.bounds.iter().zip(spec.key.iter()) {
            let reversed = part.descending == access.forward;
            out.array(&part.path, |out| {
                let mut texts: Vec<String> =
                    set.0.iter().map(|i| i.text(reversed, collated)).collect();
                if reversed {
                    texts.reverse();
                }
                texts.iter().for_each(|text| out.push(text));
            });
        }
    });
}

/// Writes the counters of examined keys and documents.
fn write_work(node: &Node, source: &dyn Source, out: &mut DocWriter<'_>) {
    let stats = source.stats();
    match node {
        Node::CollScan { .. } | Node::Pick { .. } => {
            out.put("docsExamined", int(stats.docs_examined))
        }
        Node::IndexScan(access) => {
            out.put("keysExamined", int(stats.keys_examined));
            out.put("seeks", int(stats.seeks));
            let tested = if access.dedup { stats.advanced + stats.dups_dropped } else { 0 };
            out.put("dupsTested", int(tested));
            out.put("dupsDropped", int(stats.dups_dropped));
        }
        Node::IdLookup { .. } => {
            out.put("keysExamined", int(stats.keys_examined));
            out.put("docsExamined", int(stats.docs_examined));
        }
        Node::Fetch { .. } => {
            out.put("docsExamined", int(stats.docs_examined));
            out.put("alreadyHasObj", 0);
        }
        Node::TextOr { .. } => out.put("docsExamined", int(stats.docs_examined)),
        Node::Or { .. } | Node::SortMerge { .. } => {
            out.put("dupsTested", int(stats.advanced + stats.dups_dropped));
            out.put("dupsDropped", int(stats.dups_dropped));
        }
        Node::Sort(_) => {
            out.put("totalDataSizeSorted", stats.bytes_held as i64);
            out.put("usedDisk", stats.spills > 0);
            out.put("spills", stats.spills as i64);
            out.put("spilledRecords", stats.records_spilled as i64);
            out.put("spilledBytes", stats.bytes_spilled as i64);
            out.put("spilledDataStorageSize", stats.bytes_spilled as i64);
        }
        _ => {}
    }
}
