//! `$group`: one document for each distinct `_id`, with accumulators over the documents of the group.
//!
//! ```text
//!   document -> _id -> table (key -> number) -> states (number -> accumulator state)
//!                                      | memory full
//!                                      v
//!                           run: hash | key -> partial states      runs are merged by hash at the end
//! ```
//!
//! Keys are numbered (`table`), and accumulators store their states by number (`nagi_lang::accum::States`), so a
//! group needs no allocation of its own. Equal numbers of different types are one key, represented by the first one
//! seen. When memory is full, all groups are written to a run ordered by hash, with partial states (`groups`); at
//! the end the runs are merged.

mod columns;
mod groups;
mod table;

use std::sync::Arc;

use nagi_lang::{
    accum::{AccumSpec, parse_group_key},
    collation::Collation,
    expr::{Deps, Expr},
};

use self::{columns::Plan, groups::Groups};
use super::{prelude::*, unpack_columns::ByColumns};
use crate::source::{Runs, SourceStats, drain, gathers_portions};

pub(super) static GROUP: StageSpec =
    StageSpec { name: "$group", accumulates: super::Accumulates::Fields, parse, ..StageSpec::ROW };

/// A parsed `$group`.
pub(super) struct Grouping {
    pub(super) id: Expr,
    pub(super) fields: Vec<(Box<str>, AccumSpec)>,
    pub(super) allow_disk_use: bool,
    pub(super) memory_bytes_max: usize,
    /// The collation under which string keys are equal.
    pub(super) collation: Option<&'static Collation>,
}

/// A `$group`, and its text for explain.
pub(super) struct Group {
    pub(super) grouping: Arc<Grouping>,
    pub(super) text: DocBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(doc) = spec else {
        bail!(Code::Location(15947), "a group's fields must be specified in an object");
    };
    let mut id = None;
    let mut fields: Vec<(Box<str>, AccumSpec)> = Vec::new();
    for element in doc {
        let name = element.name();
        if name == "_id" {
            if id.is_some() {
                bail!(Code::Location(15948), "a group's _id may only be specified once");
            }
            id = Some(parse_group_key(element.value(), &mut cx.lang())?);
            continue;
        }
        if name == "$doingMerge" {
            bail!(Code::Location(17030), "$doingMerge should be true if present");
        }
        let accum = AccumSpec::parse_field(name, element.value(), &mut cx.lang())?;
        fields.push((name.into(), accum));
    }
    let Some(id) = id else {
        bail!(Code::Location(15955), "a group specification must include an _id");
    };
    let grouping = Grouping {
        id,
        fields,
        allow_disk_use: cx.options.allow_disk_use,
        memory_bytes_max: cx.options.memory.group,
        collation: cx.collation,
    };
    Ok(Box::new(Group { grouping: Arc::new(grouping), text: doc.to_buf() }))
}

impl Stage for Group {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running::new(input, Groups::new(self.grouping.clone(), None)))
    }

    fn keeps_meta(&self) -> bool {
        false
    }

    /// The key, if it is the value of a field: then all documents of a group have it.
    fn source_of(&self, path: &str) -> Option<String> {
        let Expr::Path(from) = &self.grouping.id else { return None };
        let from = from.dotted();
        let rest = path.strip_prefix("_id").filter(|_| !from.contains('.'))?;
        let plain = !from.bytes().all(|byte| byte.is_ascii_digit());
        (plain && (rest.is_empty() || rest.starts_with('.'))).then(|| format!("{from}{rest}"))
    }

    fn makes_equal_one(&self) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        super::shown::group(self.text.as_doc(), self.grouping.collation, out);
    }

    fn distinct_of(&self) -> Option<&str> {
        let plain = self.grouping.fields.is_empty() && self.grouping.collation.is_none();
        let Value::String(id) = self.text.get("_id") else { return None };
        let path = id.strip_prefix('$').filter(|path| plain && !path.starts_with('$'))?;
        // In expressions a number is not an array position.
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        (!path.split('.').any(is_number)).then_some(path)
    }

    fn takes_one(&self) -> Option<(Vec<String>, bool)> {
        let mut deps = Deps::default();
        self.grouping.id.deps(&mut deps);
        let all = |name| self.grouping.fields.iter().all(|(_, accum)| accum.name() == name);
        let last = match () {
            () if all("$first") => false,
            () if all("$last") => true,
            () => return None,
        };
        let known = !deps.whole && !deps.random && !deps.scripted;
        known.then(|| (deps.paths.into_iter().collect(), last))
    }

    fn over_columns(&self, by: ByColumns, replaced: &[Arc<dyn Stage>]) -> Option<Arc<dyn Stage>> {
        let plan = Arc::new(Plan::new(&self.grouping, by)?);
        let (grouping, text) = (self.grouping.clone(), self.text.clone());
        let group = Group { grouping, text };
        Some(Arc::new(GroupBuckets { group, plan, replaced: replaced.into() }))
    }

    fn needs(&self, deps: &mut Deps) -> bool {
        self.grouping.id.deps(deps);
        self.grouping.fields.iter().for_each(|(_, accum)| accum.deps(deps));
        true
    }
}

/// A `$group` whose input are buckets.
struct GroupBuckets {
    group: Group,
    plan: Arc<Plan>,
    /// The stages that it makes unnecessary, for explain.
    replaced: Box<[Arc<dyn Stage>]>,
}

impl Stage for GroupBuckets {
    fn replaces(&self) -> &[Arc<dyn Stage>] {
        &self.replaced
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        let groups = Groups::new(self.group.grouping.clone(), Some(self.plan.clone()));
        Box::new(Running::new(input, groups))
    }

    fn keeps_meta(&self) -> bool {
        false
    }

    fn makes_equal_one(&self) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        self.replaced.iter().for_each(|stage| stage.explain(out));
        self.group.explain(out);
    }
}

struct Running {
    /// The input, and the source of its later part if it was split.
    inputs: Vec<Box<dyn Source>>,
    gathered: Groups,
    output: Output,
    out: Vec<u8>,
    /// Total size of all groups written.
    bytes_out: u64,
}

/// The output, once the input is exhausted.
enum Output {
    /// The input is not read yet.
    Unread,
    /// The next group to write.
    Memory(usize),
    /// Runs of partial groups by hash and key; true if the current one is not used yet.
    Disk { runs: Runs, pending: bool },
}

impl Running {
    fn new(input: Box<dyn Source>, gathered: Groups) -> Running {
        let (output, out) = (Output::Unread, Vec::new());
        Running { inputs: vec![input], gathered, output, out, bytes_out: 0 }
    }

    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let helper = drain(&mut *self.inputs[0], &mut self.gathered, cx)?;
        self.inputs.extend(helper);
        self.output = match self.gathered.runs(cx)? {
            None => Output::Memory(0),
            Some(mut runs) => {
                let own = self.gathered.grouping.collation;
                let pending = runs.advance(&|a, b| groups::run_order(a, b, own))?;
                Output::Disk { runs, pending }
            }
        };
        Ok(())
    }
}

/// The only value of a document.
pub(super) fn key_value(key: &[u8]) -> Value<'_> {
    Doc::trusted(key).first().map_or(Value::Null, |element| element.value())
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if let Output::Unread = self.output {
            self.fill(cx)?;
        }
        cx.pass()?;
        match &mut self.output {
            Output::Unread => Ok(false),
            Output::Memory(next) if *next >= self.gathered.len() => Ok(false),
            Output::Memory(next) => {
                self.gathered.write(*next, &mut self.out, cx)?;
                *next += 1;
                self.bytes_out += self.out.len() as u64;
                Ok(true)
            }
            Output::Disk { pending: false, .. } => Ok(false),
            Output::Disk { runs, pending } => {
                *pending = self.gathered.write_merged(runs, &mut self.out, cx)?;
                self.bytes_out += self.out.len() as u64;
                Ok(true)
            }
        }
    }

    gathers_portions!(gathered);

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn save(&mut self) {
        self.gathered.held.park();
        self.inputs.iter_mut().for_each(|input| input.save());
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.gathered.held.resume();
        match self.output {
            Output::Unread => self.inputs[0].restore(cx),
            _ => Ok(()),
        }
    }

    fn stats(&self) -> SourceStats {
        self.gathered.stats
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        let stats = &self.gathered.stats;
        out.doc("maxAccumulatorMemoryUsageBytes", |out| {
            for (at, (name, _)) in self.gathered.grouping.fields.iter().enumerate() {
                let held = self.gathered.fields_held.get(at).copied().unwrap_or(0);
                out.put(name, held as i64);
            }
        });
        out.put("totalOutputDataSizeBytes", self.bytes_out as i64);
        stats.show_spills(out);
    }
}
