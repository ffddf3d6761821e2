//! The names of one level of a projection: where in it a field of a document stands.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nagi_bson::NameTag;

/// Fields from which on names are hashed.
const MANY: usize = 16;

/// Names in the order in which they were added; none twice.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    names: Vec<(NameTag, Box<str>)>,
    /// Positions by name once there are many.
    index: HashMap<Box<str>, usize, RandomState>,
}

impl Names {
    /// Adds a name that is not there yet.
    pub(super) fn push(&mut self, name: &str) {
        self.names.push((NameTag::of(name), name.into()));
        if self.names.len() >= MANY {
            let known = self.index.len();
            let new = self.names.iter().enumerate().skip(known);
            self.index.extend(new.map(|(at, (_, name))| (name.clone(), at)));
        }
    }

    /// The position of a name, whose tag the caller has.
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

/// Which fields of a level the document has.
pub(super) struct Seen {
    few: u128,
    /// Used instead where there are more than `few` has bits.
    many: Vec<bool>,
}

impl Seen {
    pub(super) fn of(fields: usize) -> Seen {
        Seen { few: 0, many: if fields > 128 { vec![false; fields] } else { Vec::new() } }
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.many.get(at).copied().unwrap_or(at < 128 && self.few >> at & 1 == 1)
    }

    /// Notes a field; whether it was there before.
    pub(super) fn note(&mut self, at: usize) -> bool {
        let before = self.has(at);
        match self.many.get_mut(at) {
            Some(seen) => *seen = true,
            None => self.few |= 1 << at,
        }
        before
    }
}
