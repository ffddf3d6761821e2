//! The tree of paths of an update: where each operator works, and whether two of them conflict.

use std::cmp::Ordering;

use nagi_error::{Code, Result, bail};

use super::Operators;
use super::ops::Change;
use crate::path::{FieldPath, array_index};

/// One place in the tree.
#[derive(Debug)]
pub(crate) enum Node {
    Leaf(Leaf),
    /// Fields of a document or positions of an array, in the order in which new ones are appended;
    /// and what stands below a positional `$`.
    Fields {
        children: Vec<(Box<str>, Node)>,
        positional: Option<Box<Node>>,
    },
    /// Elements of an array by the identifier of an array filter; "" stands for `$[]`.
    Elements(Vec<(Box<str>, Node)>),
}

/// An operator at the end of its path.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// The path as it was given.
    pub(crate) path: Box<str>,
    pub(crate) change: Change,
}

/// One component of an update path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Component<'p> {
    Field(&'p str),
    Positional,
    Elements(&'p str),
}

impl<'p> Component<'p> {
    fn of(part: &'p str) -> Component<'p> {
        match part {
            "$" => Component::Positional,
            _ => match part.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
                Some(identifier) => Component::Elements(identifier),
                None => Component::Field(part),
            },
        }
    }
}

/// Whether a path has positional parts of any kind.
pub(super) fn is_dynamic(path: &FieldPath) -> bool {
    path.parts().any(|part| !matches!(Component::of(part), Component::Field(_)))
}

impl Node {
    pub(super) fn empty() -> Node {
        Node::Fields { children: Vec::new(), positional: None }
    }

    /// Whether the identifier of an array filter occurs in any path.
    pub(super) fn uses(&self, identifier: &str) -> bool {
        match self {
            Node::Leaf(_) => false,
            Node::Fields { children, positional } => {
                children.iter().any(|(_, node)| node.uses(identifier))
                    || positional.as_ref().is_some_and(|node| node.uses(identifier))
            }
            Node::Elements(children) => {
                children.iter().any(|(name, node)| &**name == identifier || node.uses(identifier))
            }
        }
    }

    /// The path of the first leaf, for messages.
    pub(super) fn first_path(&self) -> &str {
        match self {
            Node::Leaf(leaf) => &leaf.path,
            Node::Fields { children, positional } => match (children.first(), positional) {
                (Some((_, node)), _) => node.first_path(),
                (None, Some(node)) => node.first_path(),
                (None, None) => "",
            },
            Node::Elements(children) => children.first().map_or("", |(_, node)| node.first_path()),
        }
    }
}

/// The order in which new fields are appended: numbers by value, before all other names.
pub(super) fn name_order(a: &str, b: &str) -> Ordering {
    match (array_index(a), array_index(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

impl Operators {
    /// Checks a path as an update takes it.
    ///
    /// # Errors
    /// 56 for empty components, 2 for positional parts where none may be.
    pub(super) fn check_path(&mut self, path: &FieldPath) -> Result<()> {
        if path.as_str().is_empty() {
            bail!(Code::EMPTY_FIELD_NAME, "An empty update path is not valid.");
        }
        let mut positional = 0;
        for (at, part) in path.parts().enumerate() {
            if part.is_empty() {
                bail!(
                    Code::EMPTY_FIELD_NAME,
                    "The update path '{path}' contains an empty field name, which is not allowed."
                );
            }
            match Component::of(part) {
                Component::Field(_) => {}
                Component::Positional if at == 0 => bail!(
                    Code::BAD_VALUE,
                    "Cannot have positional (i.e. '$') element in the first position in path \
                     '{path}'"
                ),
                Component::Positional => positional += 1,
                Component::Elements(_) if at == 0 => bail!(
                    Code::BAD_VALUE,
                    "Cannot have array filter identifier (i.e. '$[<id>]') element in the first \
                     position in path '{path}'"
                ),
                Component::Elements(identifier) => self.check_identifier(identifier, path)?,
            }
        }
        if positional > 1 {
            bail!(
                Code::BAD_VALUE,
                "Too many positional (i.e. '$') elements found in path '{path}'"
            );
        }
        self.positional |= positional == 1;
        Ok(())
    }

    fn check_identifier(&self, identifier: &str, path: &FieldPath) -> Result<()> {
        let known = identifier.is_empty() || self.filters.iter().any(|f| *f.name == *identifier);
        if !known {
            bail!(
                Code::BAD_VALUE,
                "No array filter found for identifier '{identifier}' in path '{path}'"
            );
        }
        Ok(())
    }

    /// Puts a change at the end of a path.
    ///
    /// # Errors
    /// Those of `check_path`, and 40 when another change works at, above or below the path.
    pub(super) fn add(&mut self, path: &FieldPath, change: Change) -> Result<()> {
        self.check_path(path)?;
        self.deep |= change.is_deep(path.len());
        let leaf = Leaf { path: path.as_str().into(), change };
        insert(&mut self.root, path, 0, leaf)
    }
}

fn conflict<T>(path: &FieldPath, at: usize) -> Result<T> {
    bail!(
        Code::CONFLICTING_UPDATE_OPERATORS,
        "Updating the path '{path}' would create a conflict at '{}'",
        path.prefix(at)
    )
}

fn insert(node: &mut Node, path: &FieldPath, at: usize, leaf: Leaf) -> Result<()> {
    let component = Component::of(path.part(at));
    let last = at + 1 == path.len();
    let slot = match (node, component) {
        (Node::Fields { positional, .. }, Component::Positional) => match positional {
            Some(_) if last => return conflict(path, at + 1),
            Some(below) => &mut **below,
            None => {
                let below = positional.insert(Box::new(fresh(path, at + 1)));
                &mut **below
            }
        },
        (Node::Fields { children, .. }, Component::Field(name)) => {
            match children.binary_search_by(|(n, _)| name_order(n, name)) {
                Ok(_) if last => return conflict(path, at + 1),
                Ok(found) => &mut children[found].1,
                Err(place) => {
                    children.insert(place, (name.into(), fresh(path, at + 1)));
                    &mut children[place].1
                }
            }
        }
        (Node::Elements(children), Component::Elements(identifier)) => {
            match children.binary_search_by(|(n, _)| (**n).cmp(identifier)) {
                Ok(_) if last => return conflict(path, at + 1),
                Ok(found) => &mut children[found].1,
                Err(place) => {
                    children.insert(place, (identifier.into(), fresh(path, at + 1)));
                    &mut children[place].1
                }
            }
        }
        _ => return conflict(path, at),
    };
    if last {
        *slot = Node::Leaf(leaf);
        return Ok(());
    }
    match slot {
        Node::Leaf(_) => conflict(path, at + 1),
        slot => insert(slot, path, at + 1, leaf),
    }
}

/// The node to which the component `at` can be added; any when the path ends there.
fn fresh(path: &FieldPath, at: usize) -> Node {
    match (at < path.len()).then(|| Component::of(path.part(at))) {
        Some(Component::Elements(_)) => Node::Elements(Vec::new()),
        _ => Node::empty(),
    }
}
