//! The field names of one level of a projection, with lookup by name.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nagi_bson::NameTag;

/// The number of fields from which on names are hashed.
const MANY: usize = 16;

/// Distinct names in the order in which they were added.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    names: Vec<(NameTag, Box<str>)>,
    /// The index of each name, if there are many.
    index: HashMap<Box<str>, usize, RandomState>,
}

impl Names {
    /// Adds a name that does not exist yet.
    pub(super) fn push(&mut self, name: &str) {
        self.names.push((NameTag::of(name), name.into()));
        if self.names.len() >= MANY {
            let known = self.index.len();
            let new = self.names.iter().enumerate().skip(known);
            self.index.extend(new.map(|(at, (_, name))| (name.clone(), at)));
        }
    }

    /// The index of a name. The caller passes the name's tag.
    #[inline]
    pub(super) fn find(&self, tag: NameTag, name: &str) -> Option<usize> {
        if self.names.len() >= MANY {
            return self.index.get(name).copied();
        }
        self.names
            .iter()
            .position(|(known, text)| *known == tag && (tag.is_whole() || **text == *name))
    }
}

/// The set of fields of a level that occurred in the document.
pub(super) struct Seen {
    few: u128,
    /// Used instead of `few` if there are more fields than `few` has bits.
    many: Vec<bool>,
}

impl Seen {
    pub(super) fn of(fields: usize) -> Seen {
        Seen { few: 0, many: if fields > 128 { vec![false; fields] } else { Vec::new() } }
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.many.get(at).copied().unwrap_or(at < 128 && self.few >> at & 1 == 1)
    }

    /// Adds a field. Returns true if it was already in the set.
    pub(super) fn note(&mut self, at: usize) -> bool {
        let before = self.has(at);
        match self.many.get_mut(at) {
            Some(seen) => *seen = true,
            None => self.few |= 1 << at,
        }
        before
    }
}
