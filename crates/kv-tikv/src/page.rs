//! The entries of a cursor's page, in the order of their whole keys.

use nagi_kv::Result;

use crate::{
    client::Pair,
    cut,
    layout::{Head, after, head_of},
};

/// See the module's header.
pub(crate) struct Entry {
    stored: Vec<u8>,
    /// The user's key if it is cut.
    whole: Option<Vec<u8>>,
    head: Vec<u8>,
}

impl Entry {
    /// `skip`: see `Layout::skip`.
    pub(crate) fn key(&self, skip: usize) -> &[u8] {
        self.whole.as_deref().unwrap_or(&self.stored[skip..])
    }

    pub(crate) fn head(&self) -> Result<Head<'_>> {
        head_of(&self.head)
    }

    /// Where the keys behind this entry begin, or with `forward` false, where those before it end. If it is in a group,
    /// the others of it are in the page.
    pub(crate) fn edge(&self, skip: usize, has_groups: bool, forward: bool) -> Vec<u8> {
        let group = group_of(&self.stored, skip).filter(|_| has_groups);
        match (group, forward) {
            (Some(group), _) => edge_of(group, forward),
            (None, true) => [&self.stored[..], &[0]].concat(),
            (None, false) => self.stored.clone(),
        }
    }
}

/// The beginning of a stored key that is in a group.
pub(crate) fn group_of(stored: &[u8], skip: usize) -> Option<&[u8]> {
    let group = cut::group(stored.get(skip..)?)?;
    Some(&stored[..skip + group.len()])
}

/// The end of a group, or its beginning.
pub(crate) fn edge_of(group: &[u8], forward: bool) -> Vec<u8> {
    if forward { after(group.to_vec()) } else { [group, &[0]].concat() }
}

/// Sorts what was read in the order of stored keys, or against it. Groups must be complete.
pub(crate) fn entries(
    found: Vec<Pair>,
    (skip, has_groups): (usize, bool),
    forward: bool,
) -> Vec<Entry> {
    let entry = |(stored, head): Pair| {
        let is_long = has_groups && group_of(&stored, skip).is_some();
        let whole = if is_long { cut::whole(&stored[skip..], &head) } else { None };
        Entry { stored, whole, head }
    };
    let mut entries: Vec<Entry> = found.into_iter().map(entry).collect();
    if !has_groups {
        return entries;
    }
    let same = |one: &Entry, other: &Entry| {
        let group = group_of(&one.stored, skip);
        group.is_some() && group == group_of(&other.stored, skip)
    };
    for group in entries.chunk_by_mut(same).filter(|group| group.len() > 1) {
        group.sort_unstable_by(|one, other| {
            let order = one.key(skip).cmp(other.key(skip));
            if forward { order } else { order.reverse() }
        });
    }
    entries
}
