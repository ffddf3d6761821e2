//! The walk over a document and the tree of paths, which writes the updated document.
//!
//! Several nodes of the tree may apply to the same place: `a.$` and `a.0`, or two array filters that match the same
//! element. The walk processes them together. Two operators at the same place are a conflict, which is found only
//! here.

use std::collections::HashMap;
use std::fmt::Write as _;

use foldhash::fast::RandomState;
use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, Value, ValueSlot, text};
use nagi_error::{Code, Result, bail};

use super::ops::{At, Viability};
use super::tree::{Node, name_order};
use super::{Operators, UpdateCx, check};
use crate::filter::MatchInfo;

/// The maximal number of nulls that one update may insert before a new array element.
const BACKFILL_MAX: usize = 1_500_000;

/// A child of one or several nodes, with one name.
struct Child<'a> {
    name: &'a str,
    nodes: Nodes<'a>,
    /// True if the document has a field of this name, which is already written.
    done: bool,
}

/// The nodes that apply to one place: almost always one.
enum Nodes<'a> {
    One([&'a Node; 1]),
    Several(Vec<&'a Node>),
}

impl<'a> std::ops::Deref for Nodes<'a> {
    type Target = [&'a Node];

    fn deref(&self) -> &[&'a Node] {
        match self {
            Nodes::One(node) => node,
            Nodes::Several(nodes) => nodes,
        }
    }
}

impl<'a> Child<'a> {
    fn new(name: &'a str, node: &'a Node) -> Child<'a> {
        Child { name, nodes: Nodes::One([node]), done: false }
    }

    fn add(&mut self, node: &'a Node) {
        let mut nodes = self.nodes.to_vec();
        nodes.push(node);
        self.nodes = Nodes::Several(nodes);
    }
}

/// Finds children by name: by a linear search if they are few, by a hash map otherwise.
struct Index<'c> {
    names: HashMap<&'c str, usize, RandomState>,
}

/// The number of children from which on names are hashed.
const MANY: usize = 16;

impl<'c> Index<'c> {
    fn of(children: &[Child<'c>]) -> Index<'c> {
        let many = if children.len() >= MANY { children } else { &[] };
        Index { names: many.iter().enumerate().map(|(at, child)| (child.name, at)).collect() }
    }

    fn find(&self, children: &[Child<'c>], name: &str) -> Option<usize> {
        if children.len() < MANY {
            return children.iter().position(|child| child.name == name);
        }
        self.names.get(name).copied()
    }
}

/// The state of one application of an update to a document.
pub(super) struct Walk<'a> {
    update: &'a Operators,
    cx: UpdateCx<'a>,
    root: Doc<'a>,
    /// The value of a positional `$`, as a field name.
    position: Option<&'a str>,
    /// True if the document is going to be inserted (upsert).
    inserting: bool,
    /// True if the document has an `_id`, which must not change.
    fixed_id: bool,
    path: String,
    /// True if an operator was applied that counts as a change even if it wrote the old value.
    counts: bool,
    scratch: Vec<u8>,
    /// Lists of children that are free for reuse.
    spare: Vec<Vec<Child<'a>>>,
}

impl Operators {
    /// Writes the updated document. Returns true if an operator counts as a change whatever it wrote.
    pub(super) fn apply<'a>(
        &'a self,
        doc: Doc<'a>,
        info: MatchInfo,
        cx: &UpdateCx<'a>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        self.run(doc, info, false, cx, out)
    }

    pub(super) fn run<'a>(
        &'a self,
        doc: Doc<'a>,
        info: MatchInfo,
        inserting: bool,
        cx: &UpdateCx<'a>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut walk = Walk {
            update: self,
            cx: *cx,
            root: doc,
            position: info.position.map(|at| &*cx.arena.alloc_str(&at.to_string())),
            inserting,
            fixed_id: !doc.get("_id").is_missing(),
            path: String::new(),
            counts: false,
            scratch: Vec::new(),
            spare: Vec::new(),
        };
        let start = out.len();
        let mut writer = DocWriter::new(out);
        walk.fields(&[&self.root], doc, &mut writer)?;
        writer.finish();
        if self.deep {
            check::depth(Doc::trusted(&out[start..]))?;
        }
        Ok(walk.counts)
    }
}

impl<'a> Walk<'a> {
    /// Runs `work` with the path extended by `name`.
    fn below<R>(&mut self, name: &str, work: impl FnOnce(&mut Self) -> R) -> R {
        let len = self.path.len();
        if len > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let result = work(self);
        self.path.truncate(len);
        result
    }

    fn conflict<T>(&self) -> Result<T> {
        bail!(Code::CONFLICTING_UPDATE_OPERATORS, "Update created a conflict at '{}'", self.path)
    }

    /// The merged children of `Fields` nodes, in the order in which new fields are appended.
    fn children(&mut self, nodes: &[&'a Node]) -> Result<Vec<Child<'a>>> {
        let mut out = self.spare.pop().unwrap_or_default();
        for node in nodes {
            let Node::Fields { children, positional } = node else { return self.conflict() };
            for (name, child) in children {
                merge(&mut out, &name.0, child);
            }
            if let Some(child) = positional {
                merge(&mut out, self.position()?, child);
            }
        }
        Ok(out)
    }

    fn position(&self) -> Result<&'a str> {
        let Some(position) = self.position else {
            bail!(
                Code::BAD_VALUE,
                "The positional operator did not find the match needed from the query."
            )
        };
        Ok(position)
    }

    fn fields(&mut self, nodes: &[&'a Node], old: Doc<'a>, out: &mut DocWriter<'_>) -> Result<()> {
        let mut children = self.children(nodes)?;
        let index = Index::of(&children);
        let at_root = self.path.is_empty();
        let mut elements = old.iter();
        // Fields without changes are copied in one piece, up to the next field with a change.
        let (mut copied, mut at_element) = (elements.offset(), elements.offset());
        let mut missing = children.len();
        while missing > 0
            && let Some(element) = elements.next()
        {
            let (name, begin) = (element.name(), at_element);
            at_element = elements.offset();
            let Some(at) = index.find(&children, name) else { continue };
            if std::mem::replace(&mut children[at].done, true) {
                continue;
            }
            missing -= 1;
            out.extend_between(old, copied, begin);
            copied = at_element;
            let nodes = &children[at].nodes;
            if at_root && name == "_id" {
                self.id(nodes, element.value(), out)?;
                continue;
            }
            self.below(name, |walk| {
                walk.check_name(name)?;
                walk.value(nodes, name, element.value(), out.slot(name))
            })?;
            // Arrays padded with nulls could add up. The update fails as soon as the document is too large to be
            // stored.
            check::size(out.len())?;
        }
        out.extend_between(old, copied, old.len() - 1);
        for child in &children {
            if !child.done {
                self.append(child, at_root, out)?;
                check::size(out.len())?;
            }
        }
        if !at_root {
            children.clear();
            self.spare.push(children);
        }
        Ok(())
    }

    /// Appends a field that the document does not have.
    fn append(&mut self, child: &Child<'a>, at_root: bool, out: &mut DocWriter<'_>) -> Result<()> {
        let name = child.name;
        self.below(name, |walk| {
            if !walk.creates(&child.nodes)? {
                return Ok(());
            }
            walk.check_name(name)?;
            if at_root && name == "_id" && walk.fixed_id {
                return immutable(&child.nodes);
            }
            walk.create(&child.nodes, out.slot(name))
        })
    }

    /// Applies changes to the `_id` of an existing document, which must leave it unchanged.
    fn id(&mut self, nodes: &[&'a Node], old: Value<'a>, out: &mut DocWriter<'_>) -> Result<()> {
        let mut bytes = Vec::new();
        let mut writer = DocWriter::new(&mut bytes);
        self.below("_id", |walk| walk.value(nodes, "_id", old, writer.slot("_id")))?;
        writer.finish();
        if !Doc::trusted(&bytes).get("_id").same_bytes(&old) {
            return immutable(nodes);
        }
        out.put("_id", old);
        Ok(())
    }

    /// Applies all nodes of a place to an existing value.
    fn value(
        &mut self,
        nodes: &[&'a Node],
        name: &str,
        old: Value<'a>,
        slot: ValueSlot<'_>,
    ) -> Result<()> {
        match nodes {
            [Node::Leaf(leaf)] => {
                self.counts |= leaf.change.always_counts(old);
                leaf.change.apply(old, &self.at(), slot)
            }
            [Node::Fields { .. }, ..] => match old {
                Value::Doc(doc) => slot.doc(|out| self.fields(nodes, doc, out)),
                Value::Array(array) => slot.array(|out| self.positions(nodes, name, array, out)),
                scalar => {
                    let children = self.children(nodes)?;
                    for child in &children {
                        self.below(child.name, |walk| walk.blocked(child, name, scalar))?;
                    }
                    slot.put(scalar);
                    Ok(())
                }
            },
            [Node::Elements(_), ..] => match old {
                Value::Array(array) => slot.array(|out| self.elements(nodes, array, out)),
                other => bail!(
                    Code::BAD_VALUE,
                    "Cannot apply array updates to non-array element {name}: {}",
                    text::value_text(other)
                ),
            },
            _ => self.conflict(),
        }
    }

    /// Handles a path that would continue below a value without fields: an error, or no effect.
    fn blocked(&mut self, child: &Child<'a>, name: &str, value: Value<'a>) -> Result<()> {
        let shown = format!("{{{name}: {}}}", text::value_text(value));
        if self.creates(&child.nodes)? {
            bail!(Code::PATH_NOT_VIABLE, "Cannot create field '{}' in element {shown}", child.name);
        }
        if let Some(path) = strict(&child.nodes) {
            bail!(
                Code::PATH_NOT_VIABLE,
                "Cannot use the part ({}) of ({path}) to traverse the element ({shown})",
                child.name
            );
        }
        Ok(())
    }

    /// Applies fields whose names are positions of an array.
    fn positions(
        &mut self,
        nodes: &[&'a Node],
        name: &str,
        old: Array<'a>,
        out: &mut ArrayWriter<'_>,
    ) -> Result<()> {
        let mut wanted: Vec<(usize, Child<'a>)> = Vec::new();
        for child in self.children(nodes)? {
            match position_named(child.name) {
                Some(at) => wanted.push((at, child)),
                None => {
                    self.below(child.name, |walk| walk.blocked(&child, name, Value::Array(old)))?;
                }
            }
        }
        wanted.sort_by_key(|(at, _)| *at);
        if let Some(pair) = wanted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return self.below(pair[1].1.name, |walk| walk.conflict());
        }
        let mut wanted = wanted.into_iter().peekable();
        let mut count = 0;
        for (at, element) in old.elements().enumerate() {
            count = at + 1;
            match wanted.next_if(|(index, _)| *index == at) {
                Some((_, child)) => self.below(child.name, |walk| {
                    walk.value(&child.nodes, child.name, element.value(), out.slot())
                })?,
                None => out.push_element(element),
            }
        }
        for (at, child) in wanted {
            self.below(child.name, |walk| {
                if !walk.creates(&child.nodes)? {
                    return Ok(());
                }
                if at.saturating_sub(count) > BACKFILL_MAX {
                    bail!(
                        Code::CANNOT_BACKFILL_ARRAY,
                        "can't backfill more than {BACKFILL_MAX} elements"
                    );
                }
                while (out.count() as usize) < at {
                    out.push(Value::Null);
                }
                walk.create(&child.nodes, out.slot())
            })?;
        }
        Ok(())
    }

    /// Applies changes to the elements of an array that array filters select.
    fn elements(
        &mut self,
        nodes: &[&'a Node],
        old: Array<'a>,
        out: &mut ArrayWriter<'_>,
    ) -> Result<()> {
        let mut chosen: Vec<&'a Node> = Vec::new();
        let mut name = String::new();
        for (at, value) in old.iter().enumerate() {
            chosen.clear();
            for node in nodes {
                let Node::Elements(children) = node else { return self.conflict() };
                for (identifier, child) in children {
                    if self.chooses(identifier, value)? {
                        chosen.push(child);
                    }
                }
            }
            if chosen.is_empty() {
                out.push(value);
                continue;
            }
            name.clear();
            // Writing to a string does not fail.
            let _ = write!(name, "{at}");
            self.below(&name, |walk| walk.value(&chosen, &name, value, out.slot()))?;
        }
        Ok(())
    }

    fn chooses(&mut self, identifier: &str, element: Value<'a>) -> Result<bool> {
        if identifier.is_empty() {
            return Ok(true);
        }
        let Some(filter) = self.update.filters.get(identifier) else { return Ok(false) };
        filter.matches(element, &self.cx.matching(), &mut self.scratch)
    }

    /// Returns true if the nodes create a value where none exists. An array update fails then.
    fn creates(&mut self, nodes: &[&'a Node]) -> Result<bool> {
        let mut creates = false;
        for node in nodes {
            match node {
                Node::Leaf(leaf) => {
                    creates |= leaf.change.viability(&self.at())? == Viability::Creates;
                }
                Node::Fields { .. } => {
                    for child in self.children(&[*node])? {
                        creates |= self.below(child.name, |walk| walk.creates(&child.nodes))?;
                    }
                }
                Node::Elements(_) => bail!(
                    Code::BAD_VALUE,
                    "The path '{}' must exist in the document in order to apply array updates.",
                    self.path
                ),
            }
        }
        Ok(creates)
    }

    /// Writes the value that the nodes create where none exists.
    fn create(&mut self, nodes: &[&'a Node], slot: ValueSlot<'_>) -> Result<()> {
        match nodes {
            [Node::Leaf(leaf)] => leaf.change.apply(Value::Missing, &self.at(), slot),
            [Node::Fields { .. }, ..] => {
                let children = self.children(nodes)?;
                slot.doc(|out| children.iter().try_for_each(|c| self.append(c, false, out)))
            }
            _ => self.conflict(),
        }
    }

    /// A document that an upsert inserts may have any field names, like one that a client inserts.
    fn check_name(&self, name: &str) -> Result<()> {
        if self.inserting { Ok(()) } else { check_name(name, &self.path) }
    }

    fn at(&self) -> At<'_, 'a> {
        At { path: &self.path, root: self.root, cx: &self.cx, inserting: self.inserting }
    }
}

/// Parses an array position: digits, leading zeros allowed.
fn position_named(name: &str) -> Option<usize> {
    let digits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    if digits { name.parse::<u32>().ok().map(|at| at as usize) } else { None }
}

fn merge<'a>(children: &mut Vec<Child<'a>>, name: &'a str, node: &'a Node) {
    // Names are sorted, so every child of a single node is appended at the end.
    if children.last().is_none_or(|last| name_order(last.name, name).is_lt()) {
        children.push(Child::new(name, node));
        return;
    }
    match children.binary_search_by(|child| name_order(child.name, name)) {
        Ok(at) => children[at].add(node),
        Err(at) => children.insert(at, Child::new(name, node)),
    }
}

/// The path of the first operator that fails on a path it cannot follow.
fn strict<'a>(nodes: &[&'a Node]) -> Option<&'a str> {
    nodes.iter().find_map(|node| match node {
        Node::Leaf(leaf) => leaf.change.is_strict().then_some(&*leaf.path),
        Node::Fields { children, positional } => {
            children.values().chain(positional.as_deref()).find_map(|node| strict(&[node]))
        }
        Node::Elements(children) => children.values().find_map(|node| strict(&[node])),
    })
}

fn immutable<T>(nodes: &[&Node]) -> Result<T> {
    let path = nodes.first().map_or("_id", |node| node.first_path());
    bail!(
        Code::IMMUTABLE_FIELD,
        "Performing an update on the path '{path}' would modify the immutable field '_id'"
    )
}

/// Rejects names with `$`, except those of references. Operators and the top level of a replacement may not write
/// them.
pub(super) fn check_name(name: &str, path: &str) -> Result<()> {
    if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") {
        bail!(
            Code::DOLLAR_PREFIXED_FIELD_NAME,
            "The dollar ($) prefixed field '{name}' in '{path}' is not allowed in the context of \
             an update's replacement document. Consider using an aggregation pipeline with \
             $replaceWith."
        );
    }
    Ok(())
}
