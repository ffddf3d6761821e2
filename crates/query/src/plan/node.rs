//! The nodes of a plan.

use std::{fmt::Write, sync::Arc};

use nagi_bson::{DocBuf, DocWriter, ValueBuf};
use nagi_lang::{filter::Filter, sort::SortSpec};
use nagi_store::{Collection, Index};

use super::{
    cache::Shape,
    open::{Opener, open},
};
use crate::access::{GeoNearAccess, IndexAccess, MetaSource, TextAccess};
use crate::{
    projection::Projection,
    source::{Env, ScanOptions, Source, Started},
};

/// Information about the choice of a plan.
#[derive(Default)]
pub(crate) struct Choice {
    pub(crate) shape: Shape,
    /// True if an index filter restricted the indexes.
    pub(crate) filtered: bool,
    pub(crate) from_cache: bool,
    /// If the cached choice was abandoned: the works it was expected to take, and those it took.
    pub(crate) replanned: Option<(u64, u64)>,
    /// The active entry of the cache for the shape; for explain.
    pub(crate) cached: Option<u64>,
    /// The candidates' ids, the winner's first; none if there was no trial.
    pub(crate) ids: Vec<u64>,
    /// The counters of each candidate in the trial, the winner's first.
    pub(crate) tried: Vec<Tried>,
}

/// The facts about the choice that are reported when the request has finished.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planned {
    pub(crate) shape: Shape,
    pub(crate) several: bool,
    pub(crate) from_cache: bool,
    pub(crate) replanned: Option<(u64, u64)>,
}

/// The result of a candidate in its trial.
pub(crate) struct Tried {
    pub(crate) results: u64,
    /// Entries examined.
    pub(crate) works: u64,
    /// The duration of the run; 0 if it was not requested.
    pub(crate) nanos: u64,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    /// Its stages with their counters.
    pub(crate) stages: DocBuf,
}

impl Choice {
    /// Returns true if the plan at this position (0: the winner) is the one in the cache.
    pub(crate) fn is_cached(&self, at: usize) -> bool {
        self.cached.is_some() && self.cached == self.ids.get(at).copied()
    }
}

impl Choice {
    /// The reason why the plan at this position lost.
    pub(crate) fn reason(&self, at: usize) -> Option<String> {
        let (won, lost) = (self.tried.first()?, self.tried.get(at)?);
        Some(format!(
            "in the trial it had {} results after {} entries, the winning plan {} after {}",
            lost.results, lost.works, won.results, won.works
        ))
    }
}

impl Tried {
    /// Writes the result as `allPlansExecution` shows it.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        let int = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
        out.put("nReturned", int(self.results));
        out.put("executionTimeMillisEstimate", int(self.nanos / 1_000_000));
        out.put("totalKeysExamined", int(self.keys_examined));
        out.put("totalDocsExamined", int(self.docs_examined));
        // Results per examined entry, the criterion of the trial.
        out.put("score", 1.0 + self.results as f64 / self.works.max(1) as f64);
        out.put("executionStages", &self.stages);
    }
}

/// A chosen plan, and the facts about the choice that explain shows.
pub(crate) struct Plan {
    /// The running plan after its trial, if there was one.
    pub(super) started: Option<Started>,
    pub(crate) root: Arc<Node>,
    /// Candidates that lost the trial.
    pub(crate) rejected: Vec<Arc<Node>>,
    pub(crate) choice: Choice,
}

impl Plan {
    /// The only plan.
    pub(super) fn of(root: Arc<Node>) -> Plan {
        Plan { root, rejected: Vec::new(), started: None, choice: Choice::default() }
    }

    /// The facts about the choice that are reported.
    pub(crate) fn planned(&self) -> Planned {
        Planned {
            shape: self.choice.shape,
            several: !self.rejected.is_empty(),
            from_cache: self.choice.from_cache,
            replanned: self.choice.replanned,
        }
    }

    /// Starts the plan, or continues it where its trial stopped. It can be called only once.
    pub(crate) fn start(&mut self) -> Box<dyn Source> {
        self.start_with(&Opener::default())
    }

    /// Starts the plan of a whole request, and announces it, so that other clients can see what the request does.
    /// The plan of a statement inside of another plan is not announced.
    pub(crate) fn start_top(&mut self, env: &Env<'_>) -> Box<dyn Source> {
        if !env.is_nested() {
            env.interrupt().planned(&|out| self.root.summary(out));
        }
        let counted = env.interrupt().wants_stages();
        self.start_with(&Opener { counted, ..Opener::default() })
    }

    fn start_with(&mut self, opener: &Opener) -> Box<dyn Source> {
        self.root.note_uses();
        match self.started.take() {
            Some(started) => Box::new(started),
            None => open(&self.root, opener),
        }
    }
}

/// One step of a plan. The inputs are nodes themselves.
pub(crate) enum Node {
    /// No document can match, or the collection does not exist.
    Eof,
    CollScan {
        collection: Arc<Collection>,
        forward: bool,
        filter: Option<Arc<Filter>>,
        options: ScanOptions,
    },
    /// The one document with this `_id`.
    IdLookup {
        collection: Arc<Collection>,
        id: ValueBuf,
    },
    /// Records picked at random.
    Pick {
        collection: Arc<Collection>,
        count: u64,
    },
    IndexScan(Arc<IndexAccess>),
    /// The one document, or the first one, of the entries at a single point of an index.
    Express {
        collection: Arc<Collection>,
        access: Arc<IndexAccess>,
    },
    /// The nearest documents first, through a geometry index.
    GeoNear(Arc<GeoNearAccess>),
    /// The documents that a search matches, among those below that contain some of its terms.
    TextMatch {
        access: Arc<TextAccess>,
        input: Box<Node>,
    },
    /// The documents of its inputs' entries, with the sums of their scores.
    TextOr {
        access: Arc<TextAccess>,
        filter: Option<Arc<Filter>>,
        memory_bytes_max: usize,
        /// True if it may spill to disk.
        spills: bool,
        inputs: Vec<Node>,
    },
    /// Reads the documents that its input's entries point to.
    Fetch {
        collection: Arc<Collection>,
        filter: Option<Arc<Filter>>,
        /// The complete filter, including the parts that bounds and keys decide; none if it is not known.
        whole: Option<Arc<Filter>>,
        input: Box<Node>,
    },
    /// The records that all its inputs have; each input is in the order of records.
    AndSorted {
        inputs: Vec<Node>,
    },
    /// The union of its inputs, each record once.
    Or {
        inputs: Vec<Node>,
    },
    /// The union of inputs that are sorted already.
    SortMerge {
        sort: Arc<SortSpec>,
        inputs: Vec<Node>,
    },
    Sort(SortNode),
    Skip {
        count: u64,
        input: Box<Node>,
    },
    Limit {
        count: u64,
        input: Box<Node>,
    },
    Projection {
        kind: ProjectionKind,
        projection: Arc<Projection>,
        filter: Arc<Filter>,
        /// Sources of `$meta` values of the plan below.
        meta: MetaSource,
        input: Box<Node>,
    },
    /// Builds documents from index keys, for covered plans and `returnKey`.
    FromKey {
        access: Arc<IndexAccess>,
        /// The paths that the documents need to have, nested; none: all fields of the key in one flat document with
        /// the key pattern's names.
        fields: Option<Arc<[String]>>,
        input: Box<Node>,
    },
    /// Yields the index keys that a sort below kept, for `returnKey`; empty documents if no index is read.
    KeptKey {
        input: Box<Node>,
    },
    /// Adds `$recordId`.
    RecordId {
        input: Box<Node>,
    },
    /// Encloses the plan of a rooted `$or`, for explain.
    Subplan {
        input: Box<Node>,
    },
}

/// A blocking sort.
pub(crate) struct SortNode {
    pub(crate) sort: Arc<SortSpec>,
    /// Only this many results are needed.
    pub(crate) limit: Option<u64>,
    pub(crate) memory_bytes_max: usize,
    pub(crate) allow_disk_use: bool,
    /// The index whose keys are kept with the documents, for a node above that shows them.
    pub(crate) keyed_by: Option<Arc<Index>>,
    pub(crate) input: Box<Node>,
}

/// The name of a projection in explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProjectionKind {
    Simple,
    Default,
    Covered,
}

impl ProjectionKind {
    pub(crate) fn stage_name(self) -> &'static str {
        match self {
            ProjectionKind::Simple => "PROJECTION_SIMPLE",
            ProjectionKind::Default => "PROJECTION_DEFAULT",
            ProjectionKind::Covered => "PROJECTION_COVERED",
        }
    }
}

impl Node {
    /// The inputs, in the order in which `Source::inputs` of the opened node gives theirs.
    pub(crate) fn inputs(&self) -> Vec<&Node> {
        match self {
            Node::Eof
            | Node::CollScan { .. }
            | Node::IdLookup { .. }
            | Node::Pick { .. }
            | Node::IndexScan(_)
            | Node::Express { .. }
            | Node::GeoNear(_) => Vec::new(),
            Node::AndSorted { inputs }
            | Node::Or { inputs }
            | Node::SortMerge { inputs, .. }
            | Node::TextOr { inputs, .. } => inputs.iter().collect(),
            Node::Sort(sort) => vec![&sort.input],
            Node::TextMatch { input, .. }
            | Node::Fetch { input, .. }
            | Node::Skip { input, .. }
            | Node::Limit { input, .. }
            | Node::Projection { input, .. }
            | Node::FromKey { input, .. }
            | Node::KeptKey { input }
            | Node::RecordId { input }
            | Node::Subplan { input } => vec![input],
        }
    }

    /// The stage's name in explain.
    pub(crate) fn stage_name(&self) -> &'static str {
        match self {
            Node::Eof => "EOF",
            Node::CollScan { .. } => "COLLSCAN",
            Node::IdLookup { collection, .. } if collection.options.clustered.is_some() => {
                "EXPRESS_CLUSTERED_IXSCAN"
            }
            Node::IdLookup { .. } | Node::Express { .. } => "EXPRESS_IXSCAN",
            Node::Pick { .. } => "MULTI_ITERATOR",
            Node::IndexScan(access) => access.stage_name(),
            Node::GeoNear(access) => access.stage_name(),
            Node::TextMatch { .. } => "TEXT_MATCH",
            Node::TextOr { .. } => "TEXT_OR",
            Node::Fetch { .. } => "FETCH",
            Node::AndSorted { .. } => "AND_SORTED",
            Node::Or { .. } => "OR",
            Node::SortMerge { .. } => "SORT_MERGE",
            Node::Sort(_) => "SORT",
            Node::Skip { .. } => "SKIP",
            Node::Limit { .. } => "LIMIT",
            Node::Projection { kind, .. } => kind.stage_name(),
            Node::FromKey { fields: None, .. } | Node::KeptKey { .. } => "RETURN_KEY",
            Node::FromKey { .. } => ProjectionKind::Covered.stage_name(),
            Node::RecordId { .. } => "RECORD_ID",
            Node::Subplan { .. } => "SUBPLAN",
        }
    }

    /// Writes the log's `planSummary`: leaves with their key patterns.
    pub(crate) fn summary(&self, out: &mut String) {
        let leaf = match self {
            Node::Eof => "EOF".to_owned(),
            Node::CollScan { .. } => "COLLSCAN".to_owned(),
            Node::Pick { .. } => self.stage_name().to_owned(),
            Node::IdLookup { collection, .. } if collection.options.clustered.is_some() => {
                self.stage_name().to_owned()
            }
            Node::IdLookup { .. } => format!("{} {{ _id: 1 }}", self.stage_name()),
            Node::Express { access, .. } => {
                let key = access.index.spec.key_pattern.as_doc();
                format!("{} {}", self.stage_name(), nagi_bson::text::doc_text(key))
            }
            Node::IndexScan(access) if access.index.spec.is_clustered() => {
                access.stage_name().to_owned()
            }
            Node::IndexScan(access) => {
                let stage = if access.distinct.is_some() { "DISTINCT_SCAN" } else { "IXSCAN" };
                let key = access.index.spec.key_pattern.as_doc();
                format!("{stage} {}", nagi_bson::text::doc_text(key))
            }
            Node::GeoNear(access) => {
                let key = access.index.spec.key_pattern.as_doc();
                format!("{} {}", access.stage_name(), nagi_bson::text::doc_text(key))
            }
            _ => String::new(),
        };
        if !leaf.is_empty() {
            if !out.is_empty() {
                out.push_str(", ");
            }
            out.push_str(&leaf);
        }
        for input in self.inputs() {
            input.summary(out);
        }
    }

    /// True if a leaf reads the whole collection.
    pub(crate) fn scans_collection(&self) -> bool {
        matches!(self, Node::CollScan { .. })
            || self.inputs().into_iter().any(|input| input.scans_collection())
    }

    /// Counts the use of each index, for `$indexStats`.
    fn note_uses(&self) {
        match self {
            Node::IndexScan(access) | Node::Express { access, .. } => access.index.note_use(),
            Node::GeoNear(access) => access.index.note_use(),
            Node::TextMatch { access, .. } => access.index.note_use(),
            Node::IdLookup { collection, .. } => {
                if let Some(index) = collection.id_index() {
                    index.note_use();
                }
            }
            _ => self.inputs().into_iter().for_each(Node::note_uses),
        }
    }

    /// Returns true if it intersects indexes; used in the choice between candidates.
    pub(crate) fn intersects(&self) -> bool {
        matches!(self, Node::AndSorted { .. }) || self.inputs().into_iter().any(Node::intersects)
    }

    /// Calls `see` with each node that has no input.
    pub(crate) fn each_leaf(&self, see: &mut dyn FnMut(&Node)) {
        let inputs = self.inputs();
        if inputs.is_empty() {
            see(self);
        }
        inputs.into_iter().for_each(|input| input.each_leaf(see));
    }

    /// The access paths of the leaves, as a text: plans that read the same data have the same text.
    pub(crate) fn reads(&self) -> String {
        let mut out = String::new();
        self.each_leaf(&mut |leaf| {
            let _ = match leaf {
                Node::IndexScan(access) | Node::Express { access, .. } => {
                    write!(out, "{} {:?};", access.index.name(), access.bounds)
                }
                Node::IdLookup { id, .. } => write!(out, "{id:?};"),
                leaf => write!(out, "{};", leaf.stage_name()),
            };
        });
        out
    }

    /// The index that a leaf reads.
    pub(crate) fn index_name(&self) -> Option<&str> {
        match self {
            Node::IndexScan(access) | Node::Express { access, .. } => Some(access.index.name()),
            Node::GeoNear(access) => Some(access.index.name()),
            Node::IdLookup { collection, .. } => Some(collection.id_index()?.name()),
            _ => None,
        }
    }

    /// Returns true if it contains a blocking sort; used in the choice between candidates.
    pub(crate) fn has_blocking_sort(&self) -> bool {
        matches!(self, Node::Sort(_)) || self.inputs().into_iter().any(Node::has_blocking_sort)
    }
}
