//! `$group`: one document for each distinct `_id`, with accumulators over its documents.
//!
//! Groups are found by the hash of their key (equal numbers of different types are one key; the first
//! one seen represents it) and chained where hashes meet. When memory is full all groups go to disk as a
//! run ordered by key, with partial states; in the end the runs are merged key by key.

use std::{collections::HashMap, sync::Arc};

use nagi_bson::ValueBuf;
use nagi_lang::{
    accum::{AccumSpec, Accumulator, parse_group_key},
    collation::{self, Collation},
    expr::room::check_size,
    expr::{Deps, Expr},
    ordered,
};
use nagi_store::Spill;

use super::prelude::*;
use crate::source::{Gather, Held, Runs, SourceStats, drain};

pub(super) static GROUP: StageSpec = StageSpec { name: "$group", place: Place::Anywhere, parse };

/// A parsed `$group`.
pub(super) struct Grouping {
    pub(super) id: Expr,
    pub(super) fields: Vec<(Box<str>, AccumSpec)>,
    pub(super) allow_disk_use: bool,
    pub(super) memory_bytes_max: usize,
    /// By which keys that are strings are one group.
    pub(super) collation: Option<&'static Collation>,
}

/// A `$group` and the text that explain prints.
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
        allow_disk_use: cx.allow_disk_use,
        memory_bytes_max: cx.memory_bytes_max.group,
        collation: cx.collation,
    };
    Ok(Box::new(Group { grouping: Arc::new(grouping), text: doc.to_buf() }))
}

impl Stage for Group {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            inputs: vec![input],
            gathered: Groups::new(self.grouping.clone()),
            output: Output::Unread,
            out: Vec::new(),
            bytes_out: 0,
        })
    }

    fn keeps_meta(&self) -> bool {
        false
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        super::shown::group(self.text.as_doc(), self.grouping.collation, out);
    }

    fn distinct_of(&self) -> Option<&str> {
        let plain = self.grouping.fields.is_empty() && self.grouping.collation.is_none();
        let Value::String(id) = self.text.get("_id") else { return None };
        let path = id.strip_prefix('$').filter(|path| plain && !path.starts_with('$'))?;
        // In expressions a number is no position.
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        (!path.split('.').any(is_number)).then_some(path)
    }

    fn needs(&self, deps: &mut Deps) -> bool {
        self.grouping.id.deps(deps);
        self.grouping.fields.iter().for_each(|(_, accum)| accum.deps(deps));
        true
    }
}

struct Running {
    /// The input, and the one that read its later part if there was such a one.
    inputs: Vec<Box<dyn Source>>,
    gathered: Groups,
    output: Output,
    out: Vec<u8>,
    /// Sum of the sizes of all groups written.
    bytes_out: u64,
}

/// Groups with the states of their accumulators, in memory and in runs.
struct Groups {
    grouping: Arc<Grouping>,
    memory_bytes_max: usize,
    groups: Vec<OneGroup>,
    /// The newest group of each hash.
    heads: HashMap<u64, u32, foldhash::fast::RandomState>,
    held_bytes: usize,
    held: Held,
    /// Runs, in the order of their documents: those of one, then those of the next.
    spills: Vec<Spill>,
    /// What it wrote to disk.
    stats: SourceStats,
    /// What the accumulators of each field held at most, if that is shown.
    fields_held: Vec<u64>,
    arena: Bump,
}

/// What is being read once the input is at its end.
enum Output {
    /// The input is not read yet.
    Unread,
    /// The next group to write.
    Memory(usize),
    /// Runs of partial groups by key; whether one that is not used yet is current.
    Disk { runs: Runs, pending: bool },
}

struct OneGroup {
    key: ValueBuf,
    /// The next older group with the same hash.
    chain: Option<u32>,
    states: Vec<Box<dyn Accumulator>>,
}

impl Gather for Groups {
    fn take(&mut self, input: &dyn Source, cx: &Cx<'_>) -> Result<()> {
        let eval = cx.eval_current(input, &self.arena);
        let key = match self.grouping.id.eval(&eval)? {
            Value::Missing => Value::Null,
            key => key,
        };
        let (at, is_new) = find(
            &mut self.groups,
            &mut self.heads,
            &mut self.held_bytes,
            &self.grouping,
            (key, collation::hash_of(key, self.grouping.collation)),
        );
        let OneGroup { states, key, .. } = &mut self.groups[at];
        if is_new {
            for state in states.iter_mut() {
                state.start(key.value(), cx.vars, cx.env.now_ms())?;
            }
        }
        for ((_, accum), state) in self.grouping.fields.iter().zip(states) {
            let before = state.bytes();
            state.add_in(accum.argument().eval(&eval)?, cx.vars)?;
            self.held_bytes = (self.held_bytes + state.bytes()).saturating_sub(before);
        }
        self.arena.reset();
        self.fit(cx)
    }

    /// Memory is halved; what does not fit goes to disk, so that must be allowed.
    fn beside(&mut self) -> Option<Groups> {
        if !self.grouping.allow_disk_use {
            return None;
        }
        self.memory_bytes_max = self.grouping.memory_bytes_max / 2;
        let beside = Groups::new(self.grouping.clone());
        Some(Groups { memory_bytes_max: self.memory_bytes_max, ..beside })
    }

    fn alone(&mut self) {
        self.memory_bytes_max = self.grouping.memory_bytes_max;
    }

    fn join(&mut self, mut later: Groups, cx: &Cx<'_>) -> Result<()> {
        if self.spills.is_empty() && later.spills.is_empty() {
            return self.merge(later.groups, cx);
        }
        if !self.groups.is_empty() {
            self.write_run(cx)?;
        }
        self.held.keep(0);
        self.spills.append(&mut later.spills);
        (self.groups, self.heads) = (later.groups, later.heads);
        (self.held_bytes, self.held) = (later.held_bytes, later.held);
        Ok(())
    }
}

impl Groups {
    fn new(grouping: Arc<Grouping>) -> Groups {
        Groups {
            memory_bytes_max: grouping.memory_bytes_max,
            grouping,
            groups: Vec::new(),
            heads: HashMap::default(),
            held_bytes: 0,
            held: Held::default(),
            spills: Vec::new(),
            stats: SourceStats::default(),
            fields_held: Vec::new(),
            arena: Bump::new(),
        }
    }

    /// Makes room if what is held is more than it may be.
    fn fit(&mut self, cx: &Cx<'_>) -> Result<()> {
        if self.held_bytes > self.memory_bytes_max || !self.held.fits(cx, self.held_bytes) {
            self.over_memory(cx)?;
        }
        Ok(())
    }

    /// Adds groups of documents that came after all of its own.
    fn merge(&mut self, later: Vec<OneGroup>, cx: &Cx<'_>) -> Result<()> {
        let mut partial = Vec::new();
        for mut group in later {
            cx.pass()?;
            let hash = collation::hash_of(group.key.value(), self.grouping.collation);
            let (at, is_new) = find(
                &mut self.groups,
                &mut self.heads,
                &mut self.held_bytes,
                &self.grouping,
                (group.key.value(), hash),
            );
            let bytes = |states: &[Box<dyn Accumulator>]| -> usize {
                states.iter().map(|state| state.bytes()).sum()
            };
            let into = &mut self.groups[at].states;
            let before = bytes(into);
            if is_new {
                std::mem::swap(into, &mut group.states);
            } else {
                for (state, later) in into.iter_mut().zip(&group.states) {
                    partial.clear();
                    later.partial(DocWriter::new(&mut partial).slot(""));
                    state.merge_in(key_value(&partial), cx.vars)?;
                }
            }
            self.held_bytes = (self.held_bytes + bytes(into)).saturating_sub(before);
            self.fit(cx)?;
        }
        Ok(())
    }

    /// Keeps what is held for explain, if it is more than ever.
    fn note_held(&mut self, cx: &Cx<'_>) {
        if !cx.env.is_explaining() {
            return;
        }
        self.fields_held.resize(self.grouping.fields.len(), 0);
        for (at, most) in self.fields_held.iter_mut().enumerate() {
            let held: usize = self.groups.iter().map(|group| group.states[at].bytes()).sum();
            *most = (*most).max(held as u64);
        }
    }

    /// The groups to write, and where from.
    fn output(&mut self, cx: &Cx<'_>) -> Result<Output> {
        self.heads = HashMap::default();
        self.note_held(cx);
        if self.spills.is_empty() {
            return Ok(Output::Memory(0));
        }
        self.write_run(cx)?;
        self.held.keep(0);
        self.spills.iter().for_each(|spill| self.stats.note_spill(spill));
        let runs = Runs::open_all(std::mem::take(&mut self.spills))?;
        Ok(Output::Disk { runs, pending: false })
    }

    fn over_memory(&mut self, cx: &Cx<'_>) -> Result<()> {
        if !self.grouping.allow_disk_use {
            if self.held_bytes <= self.memory_bytes_max {
                bail!(Code::EXCEEDED_MEMORY_LIMIT, "{}", Held::FULL);
            }
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Exceeded memory limit for $group, but didn't allow external sort. Pass \
                 allowDiskUse:true to opt in."
            );
        }
        self.write_run(cx)?;
        self.held.keep(0);
        Ok(())
    }

    /// Writes all groups by key, with the partial states as an array, and forgets them.
    fn write_run(&mut self, cx: &Cx<'_>) -> Result<()> {
        let mut groups = std::mem::take(&mut self.groups);
        self.heads.clear();
        self.note_held(cx);
        self.held_bytes = 0;
        let own = self.grouping.collation;
        let by_key =
            |a: &OneGroup, b: &OneGroup| collation::values(a.key.value(), b.key.value(), own);
        ordered::order(&mut groups, &by_key, &mut || cx.pass())?;
        let mut groups = groups.into_iter();
        if self.spills.is_empty() {
            self.spills.push(cx.store.spill());
        }
        let Some(spill) = self.spills.last_mut() else { return Ok(()) };
        spill.write_run(&mut |key, value| {
            let Some(group) = groups.next() else { return Ok(false) };
            cx.pass()?;
            DocWriter::new(key).put("", group.key.value());
            let mut partials = DocWriter::new(value);
            for (at, state) in group.states.iter().enumerate() {
                state.partial(partials.slot(&at.to_string()));
            }
            Ok(true)
        })
    }
}

impl Running {
    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let helper = drain(&mut *self.inputs[0], &mut self.gathered, cx)?;
        self.inputs.extend(helper);
        self.output = self.gathered.output(cx)?;
        Ok(())
    }

    /// Combines the partial groups of the next key and writes the result.
    fn next_from_disk(&mut self, cx: &Cx<'_>) -> Result<bool> {
        let grouping = &*self.gathered.grouping;
        let own = grouping.collation;
        let key_order = |a: &[u8], b: &[u8]| collation::values(key_value(a), key_value(b), own);
        let Output::Disk { runs, pending } = &mut self.output else { return Ok(false) };
        if !*pending && !runs.advance(&key_order)? {
            return Ok(false);
        }
        let key = runs.entry()?.0.to_vec();
        let fields = &grouping.fields;
        let mut states: Vec<Box<dyn Accumulator>> =
            fields.iter().map(|(_, accum)| accum.new_state()).collect();
        loop {
            cx.pass()?;
            let partials = Doc::trusted(runs.entry()?.1);
            for element in partials {
                let at = element.name().parse::<usize>().ok();
                if let Some(state) = at.and_then(|at| states.get_mut(at)) {
                    state.merge_in(element.value(), cx.vars)?;
                }
            }
            *pending = runs.advance(&key_order)?;
            if !*pending || key_order(runs.entry()?.0, &key).is_ne() {
                break;
            }
        }
        write_group(grouping, key_value(&key), &mut states, &mut self.out, cx)?;
        self.bytes_out += self.out.len() as u64;
        Ok(true)
    }
}

/// Largest document of one group before a later stage makes it smaller.
const GROUP_BYTES_MAX: usize = 1 << 30;

pub(super) fn key_value(key: &[u8]) -> Value<'_> {
    Doc::trusted(key).first().map_or(Value::Null, |element| element.value())
}

fn write_group(
    grouping: &Grouping,
    key: Value<'_>,
    states: &mut [Box<dyn Accumulator>],
    out: &mut Vec<u8>,
    cx: &Cx<'_>,
) -> Result<()> {
    out.clear();
    let mut out = DocWriter::new(out);
    out.put("_id", key);
    for ((name, _), state) in grouping.fields.iter().zip(states) {
        state.settle(cx.vars)?;
        state.finish(out.slot(name));
        // Each accumulator has a bound of its own (146); lengths in BSON end at 2 GiB.
        if out.len() > GROUP_BYTES_MAX {
            check_size(out.len())?;
        }
    }
    Ok(())
}

/// The group of a key with its hash, made if need be; whether it was.
fn find(
    groups: &mut Vec<OneGroup>,
    heads: &mut HashMap<u64, u32, foldhash::fast::RandomState>,
    held_bytes: &mut usize,
    grouping: &Grouping,
    (key, hash): (Value<'_>, u64),
) -> (usize, bool) {
    let head = heads.get(&hash).copied();
    let mut at = head;
    while let Some(group) = at {
        if collation::equal(groups[group as usize].key.value(), key, grouping.collation) {
            return (group as usize, false);
        }
        at = groups[group as usize].chain;
    }
    let states = grouping.fields.iter().map(|(_, accum)| accum.new_state()).collect();
    let key = ValueBuf::new(key);
    *held_bytes += key.heap_bytes() + 96 + grouping.fields.len() * 64;
    groups.push(OneGroup { key, chain: head, states });
    heads.insert(hash, (groups.len() - 1) as u32);
    (groups.len() - 1, true)
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if let Output::Unread = self.output {
            self.fill(cx)?;
        }
        cx.pass()?;
        let Output::Memory(next) = &mut self.output else { return self.next_from_disk(cx) };
        let Some(group) = self.gathered.groups.get_mut(*next) else { return Ok(false) };
        *next += 1;
        let grouping = &self.gathered.grouping;
        write_group(grouping, group.key.value(), &mut group.states, &mut self.out, cx)?;
        self.bytes_out += self.out.len() as u64;
        group.states = Vec::new();
        Ok(true)
    }

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
