//! `$group`: one document for each distinct `_id`, with accumulators over its documents.
//!
//! Groups are found by the hash of their key (equal numbers of different types are one key; the first
//! one seen represents it) and chained where hashes meet. Memory is counted; beyond the limit the
//! operation fails, as a server without disk use does.

use std::{collections::HashMap, sync::Arc};

use nagi_bson::{ValueBuf, compare};
use nagi_error::Error;
use nagi_lang::{
    accum::{AccumSpec, Accumulator, parse_group_key},
    expr::{Deps, Expr},
};

use super::prelude::*;
use crate::limits::SORT_MEMORY_BYTES_MAX;

pub(super) static GROUP: StageSpec = StageSpec { name: "$group", place: Place::Anywhere, parse };

/// A parsed `$group`.
pub(super) struct Grouping {
    pub(super) id: Expr,
    pub(super) fields: Vec<(Box<str>, AccumSpec)>,
    pub(super) allow_disk_use: bool,
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
    let grouping = Grouping { id, fields, allow_disk_use: cx.allow_disk_use };
    Ok(Box::new(Group { grouping: Arc::new(grouping), text: doc.to_buf() }))
}

impl Stage for Group {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            input,
            grouping: self.grouping.clone(),
            groups: Vec::new(),
            heads: HashMap::default(),
            held_bytes: 0,
            next: None,
            out: Vec::new(),
            arena: Bump::new(),
        })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$group", &self.text);
    }

    fn needs(&self, deps: &mut Deps) -> bool {
        self.grouping.id.deps(deps);
        self.grouping.fields.iter().for_each(|(_, accum)| accum.deps(deps));
        true
    }
}

struct Running {
    input: Box<dyn Source>,
    grouping: Arc<Grouping>,
    groups: Vec<OneGroup>,
    /// The newest group of each hash.
    heads: HashMap<u64, u32, foldhash::fast::RandomState>,
    held_bytes: usize,
    next: Option<usize>,
    out: Vec<u8>,
    arena: Bump,
}

struct OneGroup {
    key: ValueBuf,
    /// The next older group with the same hash.
    chain: Option<u32>,
    states: Vec<Box<dyn Accumulator>>,
}

impl Running {
    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        while self.input.advance(cx)? {
            let grouping = self.grouping.clone();
            let eval = cx.eval(self.input.doc(), &self.arena);
            let key = match grouping.id.eval(&eval)? {
                Value::Missing => Value::Null,
                key => key,
            };
            let at = find(&mut self.groups, &mut self.heads, &mut self.held_bytes, &grouping, key);
            let states = &mut self.groups[at].states;
            for ((_, accum), state) in grouping.fields.iter().zip(states) {
                let before = state.bytes();
                state.add(accum.argument().eval(&eval)?)?;
                self.held_bytes += state.bytes().saturating_sub(before);
            }
            self.arena.reset();
            if self.held_bytes > SORT_MEMORY_BYTES_MAX {
                return Err(over_memory(grouping.allow_disk_use));
            }
        }
        self.next = Some(0);
        Ok(())
    }
}

/// The group of a key, made if need be.
fn find(
    groups: &mut Vec<OneGroup>,
    heads: &mut HashMap<u64, u32, foldhash::fast::RandomState>,
    held_bytes: &mut usize,
    grouping: &Grouping,
    key: Value<'_>,
) -> usize {
    let hash = compare::hash_of(key);
    let head = heads.get(&hash).copied();
    let mut at = head;
    while let Some(group) = at {
        if compare::equal(groups[group as usize].key.value(), key) {
            return group as usize;
        }
        at = groups[group as usize].chain;
    }
    let states = grouping.fields.iter().map(|(_, accum)| accum.new_state()).collect();
    let key = ValueBuf::new(key);
    *held_bytes += key.heap_bytes() + 96 + grouping.fields.len() * 64;
    groups.push(OneGroup { key, chain: head, states });
    heads.insert(hash, (groups.len() - 1) as u32);
    groups.len() - 1
}

fn over_memory(allow_disk_use: bool) -> Error {
    let hint = if allow_disk_use {
        "and a group on disk is not available for this operation"
    } else {
        "but didn't allow external sort. Pass allowDiskUse:true to opt in"
    };
    Error::new(
        Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
        format!("Exceeded memory limit for $group, {hint}."),
    )
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.next.is_none() {
            self.fill(cx)?;
            self.heads = HashMap::default();
        }
        let next = self.next.unwrap_or(0);
        let Some(group) = self.groups.get_mut(next) else { return Ok(false) };
        self.next = Some(next + 1);
        self.out.clear();
        let mut out = DocWriter::new(&mut self.out);
        out.put("_id", group.key.value());
        for ((name, _), state) in self.grouping.fields.iter().zip(&mut group.states) {
            state.finish(out.slot(name));
        }
        out.finish();
        group.states = Vec::new();
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.next.is_some() { Ok(()) } else { self.input.restore(cx) }
    }
}
