//! Upkeep on request: make durable, tell sizes, give space back.

use nagi_error::Result;
use nagi_kv::{KeyRange, Space};

use crate::{Collection, CollectionStats, Store, engine_error::engine, ident::Ident};

/// Where a collection or an index lies; bounds of a [`KeyRange`].
struct Place {
    space: Space,
    start: [u8; 4],
    end: [u8; 4],
    live_count: Option<u64>,
}

impl Place {
    fn new(space: Space, ident: Ident, live_count: Option<u64>) -> Place {
        Place { space, start: ident.bytes(), end: ident.end(), live_count }
    }

    fn range(&self) -> KeyRange<'_> {
        let Place { space, start, end, live_count } = self;
        KeyRange { space: *space, start, end, live_count: *live_count }
    }
}

/// The records first, then each index.
fn places(collection: &Collection) -> impl Iterator<Item = Place> {
    let count = u64::try_from(collection.count()).unwrap_or(0);
    let records = Place::new(collection.space, collection.ident, Some(count));
    let id_index = collection.id_index().map(|index| index.ident);
    let indexes = collection.indexes.iter().map(move |index| {
        // Of other indexes no one knows how many keys there are: zero to thousands a document.
        let known = match index.is_of_records() {
            true => Some(0),
            false => (Some(index.ident) == id_index).then_some(count),
        };
        Place::new(Space::Index, index.ident, known)
    });
    std::iter::once(records).chain(indexes)
}

impl Store {
    /// Makes every write that was acknowledged before durable. One sync of the log.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush().map_err(engine)
    }

    /// Lets the data's files be as they are until `release_files`; `watch` may end the wait for that
    /// with an error.
    pub fn hold_files(&self, watch: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut ended = Ok(());
        let mut ask = |_, _| {
            ended = watch();
            ended.is_ok()
        };
        let held = self.engine.hold_files(&mut ask).map_err(engine)?;
        match (held, ended) {
            (true, Err(error)) => self.release_files().and(Err(error)),
            (_, ended) => ended,
        }
    }

    /// Undoes one `hold_files`.
    pub fn release_files(&self) -> Result<()> {
        self.engine.release_files().map_err(engine)
    }

    /// Writes a consistent copy of everything to the new folder `folder`, by hard links where it can.
    pub fn checkpoint(&self, folder: &std::path::Path) -> Result<()> {
        self.engine.checkpoint(folder).map_err(engine)
    }

    /// Figures of a collection.
    pub fn stats(&self, collection: &Collection) -> Result<CollectionStats> {
        Ok(self.stats_of(&[collection])?.pop().unwrap_or_default())
    }

    /// Figures of many collections, in their order. One look at the engine's files for all.
    pub fn stats_of(&self, collections: &[&Collection]) -> Result<Vec<CollectionStats>> {
        let places: Vec<_> = collections.iter().flat_map(|one| places(one)).collect();
        let ranges: Vec<_> = places.iter().map(Place::range).collect();
        let sizes = self.engine.range_sizes(&ranges).map_err(engine)?;
        let mut sizes = sizes.into_iter().map(|size| {
            let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            (signed(size.bytes), signed(size.reclaimable_bytes))
        });
        let stats = collections.iter().map(|collection| {
            let (storage_bytes, free_bytes) = sizes.next().unwrap_or_default();
            let mut stats = CollectionStats {
                count: collection.count(),
                data_bytes: collection.data_bytes(),
                storage_bytes,
                free_bytes,
                ..CollectionStats::default()
            };
            for index in &collection.indexes {
                let (bytes, free_bytes) = sizes.next().unwrap_or_default();
                stats.index_bytes.push((index.spec.name.clone(), bytes));
                stats.index_free_bytes.push(free_bytes);
            }
            stats
        });
        Ok(stats.collect())
    }

    /// Rewrites a collection and its indexes so that deleted documents give their space back.
    /// May take long; reads and writes continue. `watch` is told bytes done and in all, and may end the
    /// work with an error; what was rewritten by then stays so.
    pub fn compact(
        &self,
        collection: &Collection,
        watch: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        let places: Vec<_> = places(collection).collect();
        let ranges: Vec<_> = places.iter().map(Place::range).collect();
        let sizes = self.engine.range_sizes(&ranges).map_err(engine)?;
        let total: u64 = sizes.iter().map(|size| size.bytes).sum();
        let mut before = 0;
        for (range, size) in ranges.into_iter().zip(sizes) {
            let mut ended = Ok(());
            let mut ask = |done: u64, of: u64| {
                // In bytes of this range as they were when all began.
                let done = size.bytes as f64 * (done as f64 / of.max(1) as f64).min(1.0);
                ended = watch(before + done as u64, total);
                ended.is_ok()
            };
            self.engine.compact_watched(range, &mut ask).map_err(engine)?;
            ended?;
            before += size.bytes;
        }
        Ok(())
    }

    /// Checks what is on disk against its checksums: files hold parts of many collections, so all
    /// of them. The findings, each with file and place. `watch` may end it with an error.
    pub fn verify_files(&self, watch: &mut dyn FnMut() -> Result<()>) -> Result<Vec<String>> {
        let mut ended = Ok(());
        let mut ask = |_, _| {
            ended = watch();
            ended.is_ok()
        };
        let found = self.engine.verify(&mut ask).map_err(engine)?;
        ended?;
        Ok(found.unwrap_or_default())
    }
}
