//! One cursor over layers and file.
//!
//! Each source is positioned at its nearest key in the direction of travel. The nearest of all is current; if
//! several sources have it, the newest layer wins. Deleted keys, and keys in a range that a newer layer dropped,
//! are skipped; a dropped range is skipped with one seek.

use std::{cmp::Ordering, sync::Arc};

use nagi_kv::{
    Cursor, Result, Space,
    table::{Scan, Table},
};

use crate::{
    db::TreeCursor,
    view::{Kept, Layer},
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Back,
}

struct Shared(Arc<Layer>);

impl AsRef<Table> for Shared {
    fn as_ref(&self) -> &Table {
        &self.0.table
    }
}

enum Source {
    Layer(Scan<Shared>),
    Base(TreeCursor),
}

impl Source {
    fn step(&mut self, direction: Direction) -> Result<bool> {
        match (self, direction) {
            (Source::Layer(scan), Direction::Forward) => Ok(scan.next()),
            (Source::Layer(scan), Direction::Back) => Ok(scan.prev()),
            (Source::Base(cursor), Direction::Forward) => cursor.next(),
            (Source::Base(cursor), Direction::Back) => cursor.prev(),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        match self {
            Source::Layer(scan) => Ok(scan.seek(key)),
            Source::Base(cursor) => cursor.seek(key),
        }
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        match self {
            Source::Layer(scan) => Ok(scan.seek_back(key)),
            Source::Base(cursor) => cursor.seek_back(key),
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            Source::Layer(scan) => scan.key(),
            Source::Base(cursor) => cursor.key(),
        }
    }

    fn value(&self) -> Option<&[u8]> {
        match self {
            Source::Layer(scan) => scan.value(),
            Source::Base(cursor) => Some(cursor.value()),
        }
    }
}

pub(crate) struct Merge {
    /// Newest first, the file last; each with true if it has a position.
    sources: Vec<(Source, bool)>,
    layers: Vec<Arc<Layer>>,
    space: Space,
    at: Option<usize>,
    direction: Direction,
    /// Buffer for the current key while the direction is reversed.
    turn: Vec<u8>,
    _kept: Kept,
}

impl Merge {
    pub(crate) fn new(
        layers: &[Arc<Layer>],
        base: TreeCursor,
        kept: Kept,
        stamp: u64,
        (space, start, end): (Space, &[u8], &[u8]),
    ) -> Merge {
        let scan = |layer: &Arc<Layer>| {
            let shared = Shared(Arc::clone(layer));
            (Source::Layer(Scan::new(shared, stamp, space, start, end)), false)
        };
        let mut sources: Vec<_> = layers.iter().map(scan).collect();
        sources.push((Source::Base(base), false));
        let (layers, at, direction) = (layers.to_vec(), None, Direction::Forward);
        Merge { sources, layers, space, at, direction, turn: Vec::new(), _kept: kept }
    }

    /// The source with the nearest key.
    fn nearest(&self) -> Option<usize> {
        let mut nearest: Option<usize> = None;
        for (index, (source, valid)) in self.sources.iter().enumerate() {
            if !*valid {
                continue;
            }
            let nearer = nearest.is_none_or(|other| {
                let order = source.key().cmp(self.sources[other].0.key());
                order
                    == if self.direction == Direction::Forward {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    }
            });
            if nearer {
                nearest = Some(index);
            }
        }
        nearest
    }

    fn settle(&mut self) -> Result<bool> {
        self.at = None;
        while let Some(index) = self.nearest() {
            // Skips older versions of the key in the sources below.
            for below in index + 1..self.sources.len() {
                let same = self.sources[below].1
                    && self.sources[below].0.key() == self.sources[index].0.key();
                if same {
                    self.step_one(below)?;
                }
            }
            let key = self.sources[index].0.key();
            let newer = &self.layers[..index.min(self.layers.len())];
            let dropped = newer.iter().find_map(|layer| layer.dropped(self.space, key));
            if let Some((start, end)) = dropped {
                let (source, valid) = &mut self.sources[index];
                *valid = match self.direction {
                    Direction::Forward if end.is_empty() => false,
                    Direction::Forward => source.seek(&end)?,
                    // No key comes before the empty key; as an argument it would mean the last key.
                    Direction::Back if start.is_empty() => false,
                    Direction::Back => source.seek_back(&start)?,
                };
                continue;
            }
            if self.sources[index].0.value().is_some() {
                self.at = Some(index);
                return Ok(true);
            }
            self.step_one(index)?;
        }
        Ok(false)
    }

    fn step_one(&mut self, index: usize) -> Result<()> {
        let (source, valid) = &mut self.sources[index];
        *valid = source.step(self.direction)?;
        Ok(())
    }

    fn step(&mut self, direction: Direction) -> Result<bool> {
        let Some(index) = self.at else { return Ok(false) };
        if self.direction == direction {
            self.step_one(index)?;
            return self.settle();
        }
        let mut key = std::mem::take(&mut self.turn);
        key.clear();
        key.extend_from_slice(self.sources[index].0.key());
        let found = match direction {
            Direction::Forward => {
                // The first key after this one.
                key.push(0);
                self.seek(&key)
            }
            Direction::Back => self.seek_back(&key),
        };
        self.turn = key;
        found
    }
}

impl Cursor for Merge {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.direction = Direction::Forward;
        for (source, valid) in &mut self.sources {
            *valid = source.seek(key)?;
        }
        self.settle()
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.direction = Direction::Back;
        for (source, valid) in &mut self.sources {
            *valid = source.seek_back(key)?;
        }
        self.settle()
    }

    fn next(&mut self) -> Result<bool> {
        self.step(Direction::Forward)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step(Direction::Back)
    }

    fn key(&self) -> &[u8] {
        self.at.map_or(&[], |index| self.sources[index].0.key())
    }

    fn value(&self) -> &[u8] {
        self.at.and_then(|index| self.sources[index].0.value()).unwrap_or_default()
    }
}
