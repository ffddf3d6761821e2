//! A snapshot: reads at one timestamp.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use nagi_kv::{CommitStamp, Cursor, Read, Result, Snapshot, Space};

use crate::{
    at::At,
    core::Core,
    cursor::Walk,
    cut,
    layout::{Head, head_of},
    stamps::stamp_of,
};

/// Keys of one batch: at most 16 MiB of heads.
pub(crate) const BATCH_KEYS: usize = 256;

/// See the module's header.
pub(crate) struct View(At);

impl View {
    /// See [`At::new`].
    pub(crate) fn new(core: &Arc<Core>, version: u64, asked: Instant) -> View {
        View(At::new(core, version, asked))
    }

    /// At a timestamp that is taken now.
    pub(crate) fn now(core: &Arc<Core>) -> Result<View> {
        let asked = Instant::now();
        Ok(View::new(core, core.client.timestamp()?, asked))
    }

    /// See [`At::of_past`].
    pub(crate) fn of_past(core: &Arc<Core>, version: u64, age: Duration) -> Result<View> {
        At::of_past(core, version, age).map(View)
    }

    /// See [`At::check`].
    pub(crate) fn check(&self) -> Result<()> {
        self.0.check()
    }

    fn visit_batch(
        &self,
        space: Space,
        (first, keys): (usize, &[&[u8]]),
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let heads: Vec<Vec<u8>> =
            keys.iter().map(|key| self.0.core.layout.head(space, key)).collect();
        let mut different = heads.clone();
        different.sort_unstable();
        different.dedup();
        let found = self.0.get_many(different)?;
        let found: HashMap<Vec<u8>, Vec<u8>> = found.into_iter().collect();
        let mut large = Vec::new();
        for (at, (head, key)) in heads.iter().zip(keys).enumerate() {
            if let Some(head) = found.get(head) {
                cut::check_found(space, key, head)?;
            }
            match found.get(head).map(|head| head_of(head)).transpose()? {
                None => visit(first + at, None),
                Some(Head::Inline(value)) => visit(first + at, Some(value)),
                Some(Head::Large(bytes)) => {
                    self.0.read_pieces((space, key), bytes, &mut large)?;
                    visit(first + at, Some(&large));
                }
            }
        }
        Ok(())
    }
}

impl Read for View {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let head = self.0.core.layout.head(space, key);
        let Some(head) = self.0.get(head)? else { return Ok(None) };
        cut::check_found(space, key, &head)?;
        match head_of(&head)? {
            Head::Inline(value) => {
                buf.clear();
                buf.extend_from_slice(value);
            }
            Head::Large(bytes) => self.0.read_pieces((space, key), bytes, buf)?,
        }
        Ok(Some(buf))
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        for (number, batch) in keys.chunks(BATCH_KEYS).enumerate() {
            self.visit_batch(space, (number * BATCH_KEYS, batch), visit)?;
        }
        Ok(())
    }

    fn keys_at_once(&self) -> usize {
        BATCH_KEYS
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        self.cursor_among(1, space, start, end)
    }

    fn cursor_among(
        &self,
        several: usize,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(Walk::new(self.0.clone(), several, space, start, end)))
    }
}

impl Snapshot for View {
    fn stamp(&self) -> CommitStamp {
        stamp_of(self.0.version)
    }
}
