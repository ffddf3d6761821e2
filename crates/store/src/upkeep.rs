//! Maintenance on request: durability, sizes, and freeing disk space.

use nagi_error::Result;
use nagi_kv::{KeyRange, Space};

use crate::{CachedStats, Collection, CollectionStats, Store, engine_error::engine, ident::Ident};

/// The key range of a collection or an index; bounds of a [`KeyRange`].
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

/// The key range of the records first, then those of the indexes.
fn places(collection: &Collection) -> impl Iterator<Item = Place> {
    let count = u64::try_from(collection.count()).unwrap_or(0);
    let records = match collection.is_change_log() {
        true => {
            Place { space: Space::Changes, start: [0; 4], end: [0xFF; 4], live_count: Some(count) }
        }
        false => Place::new(collection.space, collection.ident, Some(count)),
    };
    let id_index = collection.id_index().map(|index| index.ident);
    let indexes = collection.indexes.iter().map(move |index| {
        // The number of keys of other indexes is unknown: zero to thousands per document.
        let known = match index.is_of_records() {
            true => Some(0),
            false => (Some(index.ident) == id_index).then_some(count),
        };
        Place::new(Space::Index, index.ident, known)
    });
    std::iter::once(records).chain(indexes)
}

/// A short key and a record number.
const INDEX_ENTRY_BYTES: i64 = 16;

impl Store {
    /// Makes every acknowledged write durable. One sync of the log.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush().map_err(engine)
    }

    /// The store is closed within seconds: work in the background ends that need not be done.
    pub fn begin_close(&self) {
        self.engine.begin_close();
    }

    /// Keeps the data files unchanged until `release_files`: commits wait until then, also those of background work. An
    /// error of `watch` cancels the wait for that.
    pub fn hold_files(&self, watch: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        // On a disk that stands still this waits, and commits go on meanwhile: it may not be wanted any more then.
        self.hold_files_of_engine(watch)?;
        // A node among others has no files, and must answer the others.
        if self.members.is_some() {
            return Ok(());
        }
        let held = self.held.hold(watch);
        if held.is_err() {
            self.engine.release_files().map_err(engine)?;
        }
        held
    }

    fn hold_files_of_engine(&self, watch: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut ended = Ok(());
        let mut ask = |_, _| {
            ended = watch();
            ended.is_ok()
        };
        let held = self.engine.hold_files(&mut ask).map_err(engine)?;
        match (held, ended) {
            (true, Err(error)) => self.engine.release_files().map_err(engine).and(Err(error)),
            (_, ended) => ended,
        }
    }

    /// Undoes one `hold_files`.
    pub fn release_files(&self) -> Result<()> {
        self.let_commits_go_on();
        self.engine.release_files().map_err(engine)
    }

    /// Commits go on although the files are held: the server is being stopped.
    pub fn let_commits_go_on(&self) {
        self.held.release();
    }

    /// Writes a consistent copy of all data to the new folder `folder`, with hard links where possible.
    pub fn checkpoint(&self, folder: &std::path::Path) -> Result<()> {
        self.engine.checkpoint(folder).map_err(engine)
    }

    /// Size figures of a collection.
    pub fn stats(&self, collection: &Collection) -> Result<CollectionStats> {
        Ok(self.stats_of(&[collection])?.pop().unwrap_or_default())
    }

    /// Size figures of many collections, in the given order. The engine's file metadata is read once for all.
    pub fn stats_of(&self, collections: &[&Collection]) -> Result<Vec<CollectionStats>> {
        let places: Vec<_> = collections.iter().flat_map(|one| places(one)).collect();
        let ranges: Vec<_> = places.iter().map(Place::range).collect();
        let sizes = self.engine.range_sizes(&ranges).map_err(engine)?;
        let mut sizes = sizes.into_iter().map(|size| {
            let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            (signed(size.bytes), signed(size.reclaimable_bytes))
        });
        // The engine's estimate of few entries in memory may be 0. They are not compressed there.
        let in_memory = |bytes: i64, entries: i64| if bytes > 0 { bytes } else { entries };
        let counts = self.counts_of(collections)?;
        let stats = collections.iter().zip(counts).map(|(collection, (count, data_bytes))| {
            let (storage_bytes, free_bytes) = sizes.next().unwrap_or_default();
            let storage_bytes = in_memory(storage_bytes, data_bytes);
            let mut stats = CollectionStats {
                count,
                data_bytes,
                storage_bytes,
                free_bytes,
                ..CollectionStats::default()
            };
            for index in &collection.indexes {
                let (bytes, free_bytes) = sizes.next().unwrap_or_default();
                let bytes = in_memory(bytes, count * INDEX_ENTRY_BYTES);
                stats.index_bytes.push((index.spec.name.clone(), bytes));
                stats.index_free_bytes.push(free_bytes);
            }
            stats
        });
        Ok(stats.collect())
    }

    /// What of a collection's documents, and then of each of its indexes, is in the caches; `None` if the engine has no
    /// cache of its own. May take milliseconds for each gigabyte of the caches.
    pub fn cached(&self, collection: &Collection) -> Result<Option<Vec<CachedStats>>> {
        let places: Vec<_> = places(collection).collect();
        let ranges: Vec<_> = places.iter().map(Place::range).collect();
        let Some(sizes) = self.engine.cached_sizes(&ranges).map_err(engine)? else {
            return Ok(None);
        };
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let stats = sizes.iter().map(|size| CachedStats {
            bytes: signed(size.file_bytes.saturating_add(size.unwritten_bytes)),
            dirty_bytes: signed(size.unwritten_bytes),
        });
        let mut stats: Vec<_> = stats.collect();
        if let (Some(cache), Some(records)) = (&self.cache, stats.first_mut()) {
            records.bytes += signed(cache.bytes_of(collection.ident) as u64);
        }
        Ok(Some(stats))
    }

    /// Rewrites a collection and its indexes so that the space of deleted documents is freed. May take long; reads
    /// and writes continue. `watch` receives the bytes done and the total; an error from it ends the work, and the
    /// parts rewritten by then stay rewritten.
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
                // In bytes of this range, as measured at the beginning.
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

    /// Checks the files on disk against their checksums. A file contains parts of many collections, so all
    /// collections are checked. Returns the findings, each with file and position. An error of `watch` ends the
    /// check.
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
