//! A cursor: reads pages of heads, each from one region, in the direction of travel.
//!
//! ```text
//!   range   lower |------ page ------|-- rest ------------| upper      forward
//!                 |-- rest ----------|------ page --------|            backward: the page is in descending order
//! ```
//!
//! The first page is small, because many cursors read one entry only; later ones grow up to a number of entries and
//! bytes. Turning and seeking within the page cost no request.

use nagi_kv::{Cursor, Result, Space};

use crate::{
    at::At,
    client::{Page, Pair},
    layout::{Head, Range, has_small_values, head_of},
};

const ENTRIES_MIN: u32 = 32;
/// The same where values are small: a client's first batch of 101 by an index is one page.
const ENTRIES_MIN_SMALL: u32 = 128;
const ENTRIES_MAX: u32 = 512;
/// A page is estimated by the entries of the previous one, so it may be larger, up to 512 of 70 KiB.
const PAGE_BYTES: usize = 1 << 20;

/// See the module's header. All keys in it are stored keys.
pub(crate) struct Walk {
    view: At,
    space: Space,
    range: Range,
    page: Vec<Pair>,
    /// The entry of the page.
    at: Option<usize>,
    forward: bool,
    /// Where the next page begins: its first key, or going backward, before this key.
    rest: Option<Vec<u8>>,
    /// Entries of the next page.
    entries: u32,
    /// The current value if it is in pieces.
    large: Option<Vec<u8>>,
}

impl Walk {
    pub(crate) fn new(view: At, space: Space, start: &[u8], end: &[u8]) -> Walk {
        let range = view.core.layout.heads(space, start, end);
        Walk {
            view,
            space,
            range,
            page: Vec::new(),
            at: None,
            forward: true,
            rest: None,
            entries: first_entries(space),
            large: None,
        }
    }

    /// Reverses the page and the direction.
    fn turn(&mut self) {
        self.page.reverse();
        self.forward = !self.forward;
        self.at = self.at.map(|at| self.page.len() - 1 - at);
        self.rest = self.page.last().map(|(key, _)| key.clone());
        if self.forward
            && let Some(rest) = &mut self.rest
        {
            rest.push(0);
        }
    }

    /// Moves to the entry of the page that a seek for this key finds; false if the page does not tell.
    fn seek_in_page(&mut self, key: &[u8], forward: bool) -> bool {
        let (Some(one), Some(other)) = (self.page.first(), self.page.last()) else { return false };
        let (least, greatest) = if self.forward { (one, other) } else { (other, one) };
        let inside = match forward {
            true => least.0.as_slice() <= key && key <= greatest.0.as_slice(),
            false => least.0.as_slice() < key && key <= greatest.0.as_slice(),
        };
        if !inside {
            return false;
        }
        if self.forward != forward {
            self.at = None;
            self.turn();
        }
        let at = match forward {
            true => self.page.partition_point(|(at, _)| at.as_slice() < key),
            false => self.page.partition_point(|(at, _)| at.as_slice() >= key),
        };
        self.at = Some(at);
        true
    }

    /// Begins at a key, in a direction.
    fn begin(&mut self, key: Vec<u8>, forward: bool) -> Result<bool> {
        if self.seek_in_page(&key, forward) {
            return self.arrive();
        }
        self.forward = forward;
        self.entries = first_entries(self.space);
        self.rest = Some(key);
        self.read_page()
    }

    /// Reads the next page with entries, and moves to its first one.
    fn read_page(&mut self) -> Result<bool> {
        self.at = None;
        self.page.clear();
        while let Some(rest) = self.rest.take() {
            let (from, to) = match self.forward {
                true => (rest, self.range.1.clone()),
                false => (self.range.0.clone(), rest),
            };
            if from >= to {
                break;
            }
            self.read_part(from, to)?;
            if !self.page.is_empty() {
                self.at = Some(0);
                return self.arrive();
            }
        }
        Ok(false)
    }

    /// Reads entries of the first region of a range, going backward of the last one.
    fn read_part(&mut self, mut from: Vec<u8>, mut to: Vec<u8>) -> Result<()> {
        let edge = if self.forward { &from } else { &to };
        let bounds = self.view.core.client.bounds(edge, !self.forward)?;
        let mut beyond = None;
        if self.forward {
            if let Some(end) = bounds.end.filter(|end| *end < to) {
                to.clone_from(&end);
                beyond = Some(end);
            }
        } else if bounds.start > from {
            from.clone_from(&bounds.start);
            beyond = Some(bounds.start);
        }
        let limit = self.entries;
        let page = Page { from, to, limit, reverse: !self.forward, keys_only: false };
        self.page = self.view.core.client.scan(self.view.to_read()?, page)?;
        self.rest = beyond;
        if self.page.len() >= limit as usize {
            self.rest = self.page.last().map(|(key, _)| key.clone());
            if self.forward
                && let Some(rest) = &mut self.rest
            {
                rest.push(0);
            }
        }
        self.entries = next_entries(self.entries, &self.page);
        Ok(())
    }

    /// Reads the current value if it is in pieces.
    fn arrive(&mut self) -> Result<bool> {
        let Some((stored, head)) = self.at.and_then(|at| self.page.get(at)) else {
            return Ok(false);
        };
        match head_of(head)? {
            Head::Inline(_) => self.large = None,
            Head::Large(bytes) => {
                let mut value = self.large.take().unwrap_or_default();
                let key = &stored[self.view.core.layout.skip(self.space)..];
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
        let next = self.at.map(|at| at + 1).filter(|at| *at < self.page.len());
        match next {
            Some(_) => {
                self.at = next;
                self.arrive()
            }
            None => self.read_page(),
        }
    }

    fn entry(&self) -> Option<&Pair> {
        self.at.and_then(|at| self.page.get(at))
    }
}

fn first_entries(space: Space) -> u32 {
    if has_small_values(space) { ENTRIES_MIN_SMALL } else { ENTRIES_MIN }
}

/// The number of entries of the page after this one.
fn next_entries(entries: u32, page: &[Pair]) -> u32 {
    let bytes: usize = page.iter().map(|(key, value)| key.len() + value.len()).sum();
    let each = bytes / page.len().max(1);
    let fitting = u32::try_from(PAGE_BYTES / each.max(1)).unwrap_or(u32::MAX);
    (entries * 4).min(fitting).clamp(1, ENTRIES_MAX)
}

impl Cursor for Walk {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let key = self.view.core.layout.head(self.space, key).max(self.range.0.clone());
        self.begin(key, true)
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        let key = match key {
            [] => self.range.1.clone(),
            key => self.view.core.layout.head(self.space, key).min(self.range.1.clone()),
        };
        self.begin(key, false)
    }

    fn next(&mut self) -> Result<bool> {
        self.step(true)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step(false)
    }

    fn key(&self) -> &[u8] {
        let skip = self.view.core.layout.skip(self.space);
        self.entry().map_or(&[], |(key, _)| &key[skip..])
    }

    fn value(&self) -> &[u8] {
        match (&self.large, self.entry()) {
            (_, None) => &[],
            (Some(large), _) => large,
            // The mark of the head; `arrive` has read it.
            (None, Some((_, head))) => head.get(1..).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_within_their_bytes() {
        let page = |entries: usize, bytes: usize| vec![(vec![0; 10], vec![0; bytes]); entries];
        assert_eq!(next_entries(32, &page(32, 20)), 128);
        assert_eq!(next_entries(512, &page(512, 20)), ENTRIES_MAX);
        assert_eq!(next_entries(512, &page(512, 65_526)), 16);
        assert_eq!(next_entries(32, &page(1, 8 << 20)), 1);
        assert_eq!(next_entries(32, &[]), 128);
    }
}
