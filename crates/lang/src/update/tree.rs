//! The tree of the paths of an update: the place of each operator, and the detection of conflicting paths.

use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};

use nagi_error::{Code, Result, bail};

use super::Operators;
use super::ops::Change;
use crate::path::{FieldPath, array_index};

/// The maximal number of components of a path; deeper documents cannot be stored.
pub(super) const COMPONENTS_MAX: usize = 200;

/// One place in the tree.
#[derive(Debug)]
pub(crate) enum Node {
    Leaf(Leaf),
    /// Fields of a document or positions of an array, in the order in which new ones are appended, and the node below
    /// a positional `$`.
    Fields {
        children: BTreeMap<Name, Node>,
        positional: Option<Box<Node>>,
    },
    /// Elements of an array, by the identifier of an array filter. The identifier "" stands for `$[]`.
    Elements(BTreeMap<Box<str>, Node>),
}

/// A field name, ordered as new fields are appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(pub(super) Box<str>);

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        name_order(&self.0, &other.0)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An operator at the end of its path.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// The path as the client sent it.
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

/// Returns true if a path has positional components of any kind.
pub(super) fn is_dynamic(path: &FieldPath) -> bool {
    path.parts().any(|part| !matches!(Component::of(part), Component::Field(_)))
}

impl Node {
    pub(super) fn empty() -> Node {
        Node::Fields { children: BTreeMap::new(), positional: None }
    }

    /// Collects the identifiers of array filters in the paths.
    pub(super) fn identifiers<'n>(&'n self, out: &mut HashSet<&'n str>) {
        match self {
            Node::Leaf(_) => {}
            Node::Fields { children, positional } => {
                children.values().for_each(|node| node.identifiers(out));
                if let Some(node) = positional {
                    node.identifiers(out);
                }
            }
            Node::Elements(children) => {
                for (name, node) in children {
                    out.insert(name);
                    node.identifiers(out);
                }
            }
        }
    }

    /// The path of the first leaf, for error messages.
    pub(super) fn first_path(&self) -> &str {
        match self {
            Node::Leaf(leaf) => &leaf.path,
            Node::Fields { children, positional } => match (children.first_key_value(), positional)
            {
                (Some((_, node)), _) => node.first_path(),
                (None, Some(node)) => node.first_path(),
                (None, None) => "",
            },
            Node::Elements(children) => {
                children.first_key_value().map_or("", |(_, node)| node.first_path())
            }
        }
    }
}

/// The order in which new fields are appended: numbers first, by value, then all other names.
pub(super) fn name_order(a: &str, b: &str) -> Ordering {
    match (array_index(a), array_index(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

impl Operators {
    /// Checks the path of an update.
    ///
    /// # Errors
    /// 56 for empty components, 2 for positional components that are not allowed.
    pub(super) fn check_path(&mut self, path: &FieldPath) -> Result<()> {
        if path.as_str().is_empty() {
            bail!(Code::EMPTY_FIELD_NAME, "An empty update path is not valid.");
        }
        if path.len() > COMPONENTS_MAX {
            bail!(Code::OVERFLOW, "An update path may have at most {COMPONENTS_MAX} components");
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
        let known = identifier.is_empty() || self.filters.contains_key(identifier);
        if !known {
            bail!(
                Code::BAD_VALUE,
                "No array filter found for identifier '{identifier}' in path '{path}'"
            );
        }
        Ok(())
    }

    /// Adds a change at the end of a path.
    ///
    /// # Errors
    /// The errors of `check_path`, and 40 if there is another change at, above or below the path.
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
            match children.entry(Name(name.into())) {
                Entry::Occupied(_) if last => return conflict(path, at + 1),
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(place) => place.insert(fresh(path, at + 1)),
            }
        }
        (Node::Elements(children), Component::Elements(identifier)) => {
            match children.entry(identifier.into()) {
                Entry::Occupied(_) if last => return conflict(path, at + 1),
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(place) => place.insert(fresh(path, at + 1)),
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

/// A new node to which the component `at` can be added; any node if the path ends there.
fn fresh(path: &FieldPath, at: usize) -> Node {
    match (at < path.len()).then(|| Component::of(path.part(at))) {
        Some(Component::Elements(_)) => Node::Elements(BTreeMap::new()),
        _ => Node::empty(),
    }
}
