//! Merges a cursor over an engine's snapshot with the staged writes of a transaction.
//!
//! The base cursor is moved until its key is not hidden by the overlay. The overlay is searched by key (binary
//! search), and only again when it has changed or its head was passed. Both heads are compared, and the nearer one
//! is current.
//!
//! Deleted keys are skipped; `Add` is merged with the base's counter.

use std::{cmp::Ordering, sync::Arc};

use super::{Op, Overlay, counter};
use crate::contract::step_through;
use crate::{Batch, Cursor, Result, Space, sync::Mutex};

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Nowhere,
    Base,
    Head,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Back,
}

/// The overlay's nearest write in the direction of travel.
#[derive(Default)]
struct Head {
    present: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    deleted: bool,
    adds: bool,
}

/// A cursor over an engine's snapshot and a transaction's staged writes. See the module's header.
pub struct Merged {
    base: Box<dyn Cursor>,
    overlay: Arc<Mutex<Overlay>>,
    space: Space,
    start: Vec<u8>,
    end: Vec<u8>,
    head: Head,
    at: At,
    direction: Direction,
    base_valid: bool,
    /// Buffer for the current key while the direction is reversed.
    turn: Vec<u8>,
}

impl Merged {
    /// `base` has the same range.
    pub fn new(
        base: Box<dyn Cursor>,
        overlay: Arc<Mutex<Overlay>>,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> Merged {
        Merged {
            base,
            overlay,
            space,
            start: start.to_vec(),
            end: end.to_vec(),
            head: Head::default(),
            at: At::Nowhere,
            direction: Direction::Forward,
            base_valid: false,
            turn: Vec::new(),
        }
    }

    /// Reads the overlay's next write from `key` on (`after`: beyond it).
    fn load_head(&mut self, key: &[u8], after: bool) {
        let overlay = self.overlay.lock();
        self.head.present = false;
        if !overlay.has(self.space) {
            return;
        }
        let write = match self.direction {
            Direction::Forward if key < self.start.as_slice() => {
                overlay.following(self.space, &self.start, false)
            }
            Direction::Forward => overlay.following(self.space, key, after),
            Direction::Back
                if !self.end.is_empty() && (key.is_empty() || key > self.end.as_slice()) =>
            {
                overlay.preceding(self.space, &self.end)
            }
            Direction::Back => overlay.preceding(self.space, key),
        };
        let Some(write) = write else { return };
        let outside = match self.direction {
            Direction::Forward => !self.end.is_empty() && write.key >= self.end.as_slice(),
            Direction::Back => write.key < self.start.as_slice(),
        };
        if outside {
            return;
        }
        let head = &mut self.head;
        head.present = true;
        head.key.clear();
        head.key.extend_from_slice(write.key);
        head.value.clear();
        (head.deleted, head.adds) = match write.op {
            Op::Delete => (true, false),
            Op::Put(value) | Op::Append { value, .. } => {
                head.value.extend_from_slice(value);
                (false, false)
            }
            Op::Add(value) => {
                head.value.extend_from_slice(value);
                (false, true)
            }
        };
    }

    fn advance_head(&mut self) {
        let key = std::mem::take(&mut self.head.key);
        self.load_head(&key, true);
        if !self.head.present {
            self.head.key = key;
        }
    }

    fn step_base(&mut self) -> Result<()> {
        self.base_valid = match self.direction {
            Direction::Forward => self.base.next()?,
            Direction::Back => self.base.prev()?,
        };
        Ok(())
    }

    /// Selects the nearer of both heads; skips deleted keys.
    fn settle(&mut self) -> Result<bool> {
        loop {
            let order = match (self.base_valid, self.head.present) {
                (false, false) => {
                    self.at = At::Nowhere;
                    return Ok(false);
                }
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (true, true) => match self.direction {
                    Direction::Forward => self.base.key().cmp(&self.head.key),
                    Direction::Back => self.head.key.as_slice().cmp(self.base.key()),
                },
            };
            match order {
                Ordering::Less => {
                    self.at = At::Base;
                    return Ok(true);
                }
                Ordering::Equal => {
                    if self.head.adds {
                        let mut sum = self.base.value().to_vec();
                        counter::add_counters(&mut sum, &self.head.value);
                        self.head.value = sum;
                        self.head.adds = false;
                    }
                    self.step_base()?;
                }
                Ordering::Greater => {}
            }
            if !self.head.deleted {
                self.at = At::Head;
                return Ok(true);
            }
            self.advance_head();
        }
    }

    fn forward(&mut self, key: &[u8], after: bool) -> Result<bool> {
        self.direction = Direction::Forward;
        self.base_valid = self.base.seek(key)?;
        if after && self.base_valid && self.base.key() == key {
            self.base_valid = self.base.next()?;
        }
        self.load_head(key, after);
        self.settle()
    }

    fn back(&mut self, key: &[u8]) -> Result<bool> {
        self.direction = Direction::Back;
        self.base_valid = self.base.seek_back(key)?;
        self.load_head(key, true);
        self.settle()
    }

    fn step(&mut self, direction: Direction) -> Result<bool> {
        if self.at == At::Nowhere {
            return Ok(false);
        }
        if self.direction != direction {
            let mut key = std::mem::take(&mut self.turn);
            key.clear();
            key.extend_from_slice(self.key());
            let found = match direction {
                Direction::Forward => self.forward(&key, true),
                Direction::Back => self.back(&key),
            };
            self.turn = key;
            return found;
        }
        match self.at {
            At::Base => self.step_base()?,
            At::Head | At::Nowhere => self.advance_head(),
        }
        self.settle()
    }

    /// Returns true if no staged write lies ahead, so that only the base has further entries.
    fn is_base_only(&self, direction: Direction) -> bool {
        self.at == At::Base && self.direction == direction && !self.head.present
    }

    /// Takes over the position of the base.
    fn follow_base(&mut self, moved: Result<bool>) -> Result<bool> {
        self.base_valid = matches!(moved, Ok(true));
        self.at = if self.base_valid { At::Base } else { At::Nowhere };
        moved
    }
}

impl Cursor for Merged {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.forward(key, false)
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.back(key)
    }

    fn prepare(&mut self, key: &[u8], forward: bool) {
        self.base.prepare(key, forward);
    }

    fn next(&mut self) -> Result<bool> {
        self.step(Direction::Forward)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step(Direction::Back)
    }

    fn next_batch(&mut self, entries: usize, bytes: usize, batch: &mut Batch) -> Result<bool> {
        if !self.is_base_only(Direction::Forward) {
            return step_through(self, batch, true, entries, bytes);
        }
        let moved = self.base.next_batch(entries, bytes, batch);
        self.follow_base(moved)
    }

    fn prev_batch(&mut self, entries: usize, bytes: usize, batch: &mut Batch) -> Result<bool> {
        if !self.is_base_only(Direction::Back) {
            return step_through(self, batch, false, entries, bytes);
        }
        let moved = self.base.prev_batch(entries, bytes, batch);
        self.follow_base(moved)
    }

    fn key(&self) -> &[u8] {
        match self.at {
            At::Nowhere => &[],
            At::Base => self.base.key(),
            At::Head => &self.head.key,
        }
    }

    fn value(&self) -> &[u8] {
        match self.at {
            At::Nowhere => &[],
            At::Base => self.base.value(),
            At::Head => &self.head.value,
        }
    }
}
