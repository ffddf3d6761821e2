//! A cursor: reads pages of heads, each from one region, in the direction of travel.
//!
//! ```text
//!   range   lower |------ page ------|-- rest ------------| upper      forward
//!                 |-- rest ----------|------ page --------|            backward: the page is in descending order
//! ```
//!
//! The first page is small, because many cursors read one entry only; later ones grow up to a number of entries and
//! bytes. One of several cursors that are moved in turn has smaller pages, and may begin its first one before it is
//! waited for. Turning and seeking within the page cost no request. A group of long keys (cut.rs) is read to its end,
//! so that its keys can be sorted.

use nagi_kv::{Cursor, Error, Result, Space};

use crate::{
    at::At,
    client::{Page, Pair, Part},
    cut,
    layout::{Head, Range, has_small_values},
    page::{Entry, edge_of, entries, group_of},
    runtime::Running,
};

const ENTRIES_MIN: u32 = 32;
/// The same where values are small: a client's first batch of 101 by an index is one page.
const ENTRIES_MIN_SMALL: u32 = 128;
const ENTRIES_MAX: u32 = 512;
/// A page is estimated by the entries of the previous one, so it may be larger, up to 512 of 70 KiB.
const PAGE_BYTES: usize = 1 << 20;
/// One of several cursors has at least so many entries in its first page, and in later ones.
const SHARED_MIN: u32 = 16;
const SHARED_MAX: u32 = 32;
/// All pages of several cursors may have as many entries as so many pages of one, and four times the bytes.
const SHARED_PAGES: u32 = 2;
const SHARED_BYTES: usize = 4 << 20;
/// Bytes of keys and heads of a group.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// The sizes of pages.
#[derive(Clone, Copy)]
struct Sizes {
    first: u32,
    most: u32,
    bytes: usize,
}

/// A part of the range that is being read.
struct Begun {
    range: Range,
    forward: bool,
    running: Running<Part>,
}

/// See the module's header.
pub(crate) struct Walk {
    view: At,
    space: Space,
    /// Of stored keys. Groups at its ends are in it as a whole.
    range: Range,
    /// Of users' keys; an empty end: no bound.
    bounds: Range,
    page: Vec<Entry>,
    /// The entry of the page.
    at: Option<usize>,
    forward: bool,
    /// Where the next page begins: its first stored key, or going backward, before this key.
    rest: Option<Vec<u8>>,
    /// Entries of the next page.
    entries: u32,
    sizes: Sizes,
    /// A part that was begun.
    begun: Option<Begun>,
    /// The current value if it is in pieces.
    large: Option<Vec<u8>>,
}

impl Walk {
    /// `several`: the number of cursors that share the memory of one.
    pub(crate) fn new(view: At, several: usize, space: Space, start: &[u8], end: &[u8]) -> Walk {
        let range = view.core.layout.heads(space, start, end);
        let sizes = Sizes::of(several, space);
        Walk {
            view,
            space,
            range,
            bounds: (start.to_vec(), end.to_vec()),
            page: Vec::new(),
            at: None,
            forward: true,
            rest: None,
            entries: sizes.first,
            sizes,
            begun: None,
            large: None,
        }
    }

    fn skip(&self) -> usize {
        self.view.core.layout.skip(self.space)
    }

    /// Reverses the page and the direction.
    fn turn(&mut self) {
        self.page.reverse();
        self.forward = !self.forward;
        self.at = self.at.map(|at| self.page.len() - 1 - at);
        let (skip, has_groups) = (self.skip(), cut::is_cut_in(self.space));
        self.rest = self.page.last().map(|entry| entry.edge(skip, has_groups, self.forward));
    }

    /// The position in the page of the first entry that is not less than the key, or going backward, that is less.
    fn position(&self, key: Option<&[u8]>) -> usize {
        let skip = self.skip();
        match (key, self.forward) {
            (None, _) => 0,
            (Some(key), true) => self.page.partition_point(|entry| entry.key(skip) < key),
            (Some(key), false) => self.page.partition_point(|entry| entry.key(skip) >= key),
        }
    }

    /// Moves to the entry of the page that a seek for this key finds; false if the page does not tell.
    fn seek_in_page(&mut self, key: Option<&[u8]>, forward: bool) -> bool {
        let (Some(one), Some(other), Some(key)) = (self.page.first(), self.page.last(), key) else {
            return false;
        };
        let skip = self.skip();
        let (least, greatest) = if self.forward { (one, other) } else { (other, one) };
        let inside = match forward {
            true => least.key(skip) <= key && key <= greatest.key(skip),
            false => least.key(skip) < key && key <= greatest.key(skip),
        };
        if !inside {
            return false;
        }
        if self.forward != forward {
            self.at = None;
            self.turn();
        }
        self.at = Some(self.position(Some(key)));
        true
    }

    /// Where the page begins that is read for a seek.
    fn edge_for(&self, key: Option<&[u8]>, forward: bool) -> Vec<u8> {
        let layout = &self.view.core.layout;
        let (lower, upper) = &self.range;
        match (key, forward) {
            (Some(key), true) => layout.from(self.space, key).max(lower.clone()),
            (Some(key), false) => layout.before(self.space, key).min(upper.clone()),
            (None, true) => lower.clone(),
            (None, false) => upper.clone(),
        }
    }

    /// The range that is read from an edge on.
    fn range_from(&self, edge: Vec<u8>, forward: bool) -> Range {
        match forward {
            true => (edge, self.range.1.clone()),
            false => (self.range.0.clone(), edge),
        }
    }

    /// Begins at a key, or without one at the end of the range, in a direction.
    fn begin(&mut self, key: Option<&[u8]>, forward: bool) -> Result<bool> {
        if self.seek_in_page(key, forward) {
            return self.arrive();
        }
        self.forward = forward;
        self.entries = self.sizes.first;
        self.rest = Some(self.edge_for(key, forward));
        while self.read_page()? {
            let at = self.position(key);
            if at < self.page.len() {
                self.at = Some(at);
                return self.arrive();
            }
        }
        Ok(false)
    }

    /// Reads the next page with entries. Returns false at the end of the range.
    fn read_page(&mut self) -> Result<bool> {
        self.at = None;
        self.page.clear();
        let (skip, has_groups) = (self.skip(), cut::is_cut_in(self.space));
        while let Some(rest) = self.rest.take() {
            let (from, to) = self.range_from(rest, self.forward);
            if from >= to {
                break;
            }
            let mut found = self.read_part(from, to)?;
            if has_groups {
                self.complete(&mut found, skip)?;
            }
            let (start, end) = &self.bounds;
            self.page = entries(found, (skip, has_groups), self.forward);
            if has_groups {
                self.page.retain(|entry| {
                    let key = entry.key(skip);
                    key >= start.as_slice() && (end.is_empty() || key < end.as_slice())
                });
            }
            if !self.page.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the rest of the group in which a page ends.
    fn complete(&mut self, found: &mut Vec<Pair>, skip: usize) -> Result<()> {
        let Some(group) = found.last().and_then(|(stored, _)| group_of(stored, skip)) else {
            return Ok(());
        };
        let edge = edge_of(group, self.forward);
        while let Some(rest) = self.rest.take() {
            let (from, to) = match self.forward {
                true => (rest.clone(), edge.clone().min(self.range.1.clone())),
                false => (edge.clone().max(self.range.0.clone()), rest.clone()),
            };
            if from >= to {
                self.rest = Some(rest);
                return Ok(());
            }
            found.extend(self.read_part(from, to)?);
            let bytes: usize = found.iter().map(|(key, head)| key.len() + head.len()).sum();
            if bytes > GROUP_BYTES_MAX {
                return Err(Error::other("too many index keys begin with the same 6 KiB"));
            }
            if self.rest.is_none() {
                self.rest = Some(edge);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads entries of the first region of a range, going backward of the last one.
    fn read_part(&mut self, from: Vec<u8>, to: Vec<u8>) -> Result<Vec<Pair>> {
        let (limit, reverse) = (self.entries, !self.forward);
        let mut page = Page { from, to, limit, reverse, keys_only: false };
        let begun = self.begun.take().filter(|begun| {
            begun.forward == self.forward
                && (&begun.range.0, &begun.range.1) == (&page.from, &page.to)
        });
        let (found, beyond) = match begun {
            Some(begun) => {
                let Part { found, rest } = self.view.started(begun.running)?;
                (found, rest)
            }
            None => {
                let edge = if self.forward { &page.from } else { &page.to };
                let beyond = page.cut(&self.view.core.client.bounds(edge, reverse)?);
                (self.view.scan(page)?, beyond)
            }
        };
        self.rest = beyond;
        if found.len() >= limit as usize {
            self.rest = found.last().map(|(key, _)| key.clone());
            if self.forward
                && let Some(rest) = &mut self.rest
            {
                rest.push(0);
            }
        }
        self.entries = self.sizes.after(self.entries, &found);
        Ok(found)
    }

    /// Reads the current value if it is in pieces.
    fn arrive(&mut self) -> Result<bool> {
        let Some(entry) = self.at.and_then(|at| self.page.get(at)) else { return Ok(false) };
        match entry.head()? {
            Head::Inline(_) => self.large = None,
            Head::Large(bytes) => {
                let mut value = self.large.take().unwrap_or_default();
                let key = entry.key(self.skip());
                let read = self.view.read_pieces((self.space, key), bytes, &mut value);
                if let Err(error) = read {
                    self.at = None;
                    return Err(error);
                }
                self.large = Some(value);
            }
        }
        Ok(true)
    }

    fn step(&mut self, forward: bool) -> Result<bool> {
        if self.at.is_none() {
            return Ok(false);
        }
        if self.forward != forward {
            self.turn();
        }
        self.at = self.at.map(|at| at + 1).filter(|at| *at < self.page.len());
        if self.at.is_none() && self.read_page()? {
            self.at = Some(0);
        }
        self.arrive()
    }

    fn entry(&self) -> Option<&Entry> {
        self.at.and_then(|at| self.page.get(at))
    }
}

impl Sizes {
    fn of(several: usize, space: Space) -> Sizes {
        let first = if has_small_values(space) { ENTRIES_MIN_SMALL } else { ENTRIES_MIN };
        let several = u32::try_from(several).unwrap_or(u32::MAX).max(1);
        if several == 1 {
            return Sizes { first, most: ENTRIES_MAX, bytes: PAGE_BYTES };
        }
        let most = (SHARED_PAGES * ENTRIES_MAX / several).clamp(SHARED_MAX, ENTRIES_MAX);
        Sizes {
            first: (first / several).max(SHARED_MIN),
            most,
            bytes: PAGE_BYTES.min(SHARED_BYTES / several as usize),
        }
    }

    /// The number of entries of the page after this one.
    fn after(self, entries: u32, page: &[Pair]) -> u32 {
        let bytes: usize = page.iter().map(|(key, value)| key.len() + value.len()).sum();
        let each = bytes / page.len().max(1);
        let fitting = u32::try_from(self.bytes / each.max(1)).unwrap_or(u32::MAX);
        (entries * 4).min(fitting).clamp(1, self.most)
    }
}

impl Cursor for Walk {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.begin(Some(key), true)
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.begin((!key.is_empty()).then_some(key), false)
    }

    /// Begins to read the page of a seek, unless the present one has it.
    fn prepare(&mut self, key: &[u8], forward: bool) {
        let key = (forward || !key.is_empty()).then_some(key);
        if self.seek_in_page(key, forward) {
            return;
        }
        let (from, to) = self.range_from(self.edge_for(key, forward), forward);
        if from >= to {
            return;
        }
        let range = (from.clone(), to.clone());
        let page = Page { from, to, limit: self.sizes.first, reverse: !forward, keys_only: false };
        // An error comes again in the seek.
        let running = self.view.start_scan(page).ok();
        self.begun = running.map(|running| Begun { range, forward, running });
    }

    fn next(&mut self) -> Result<bool> {
        self.step(true)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step(false)
    }

    fn key(&self) -> &[u8] {
        self.entry().map_or(&[], |entry| entry.key(self.skip()))
    }

    fn value(&self) -> &[u8] {
        match (&self.large, self.entry().map(Entry::head)) {
            (Some(large), Some(_)) => large,
            // `arrive` has read the head.
            (None, Some(Ok(Head::Inline(value)))) => value,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_within_their_bytes() {
        let page = |entries: usize, bytes: usize| vec![(vec![0; 10], vec![0; bytes]); entries];
        let alone = Sizes::of(1, Space::Records);
        assert_eq!(alone.after(32, &page(32, 20)), 128);
        assert_eq!(alone.after(512, &page(512, 20)), ENTRIES_MAX);
        assert_eq!(alone.after(512, &page(512, 65_526)), 16);
        assert_eq!(alone.after(32, &page(1, 8 << 20)), 1);
        assert_eq!(alone.after(32, &[]), 128);
        let among = Sizes::of(16, Space::Index);
        assert_eq!((among.first, among.after(16, &page(16, 20))), (16, 64));
        assert_eq!(among.after(64, &page(64, 65_526)), 4);
    }
}
