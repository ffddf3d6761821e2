//! The feed of change streams: the newest documents of the log, decoded once for all streams.
//!
//! ```text
//!   log     ... | 91 | 92 | 93 | 94 | 95 | 96 |          snapshot of a stream: 96
//!   feed              [ 92 | 93 | 94 ]                   from 91, to 94; the stream that needs 95 reads it for all
//!   streams       A: after 90     B: after 94            A reads 91 itself, B reads 95 and 96 through the feed
//! ```
//!
//! Documents that enter the feed also mark the scopes that they touch. So a stream whose scope was not touched since
//! its position continues at the feed's end without looking at the documents between.

mod document;
mod ids;
mod watch;

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use nagi_bson::Doc;
use nagi_budget::{Budget, Charge, Pool, meter};
use nagi_error::{Code, Result};
use nagi_kv::CommitStamp;
use parking_lot::{Mutex, MutexGuard};

use self::document::Begun;
use super::{Lists, first_of, listed::check_kept, read::LogReader};
use crate::{Collection, Store, catalog::ImageAge, engine_error::engine, store::reader::Reader};

pub use document::{LogDocument, OpHead, Shown};
pub(crate) use ids::ChangedIds;
pub use ids::IdHash;
pub(crate) use watch::Watches;
pub use watch::{ChangeScope, Watch};

/// Limits of the documents that a stream gets at once.
pub(super) const PORTION_DOCUMENTS_MAX: usize = 256;
pub(super) const PORTION_BYTES_MAX: usize = 2 << 20;
/// Limit of the documents that a stream looks at while it has the feed for itself.
const LOOKED_AT_MAX: usize = 4096;
/// Limit of the feed's documents.
const FEED_BYTES_MAX: usize = 40 << 20;
/// A feed that is so far behind a new stream begins anew. [`Store::refresh_feed`] is to be called more often.
const BEHIND_SECONDS_MAX: u64 = 10;
/// How often a stream that waits for the feed looks if it is to stop.
const LOCK_LOOK: Duration = Duration::from_millis(50);

/// See the module's header.
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    /// How long pre-images are kept.
    pub(crate) image_age: ImageAge,
    pub(crate) watches: Arc<Watches>,
}

struct Ring {
    documents: VecDeque<Arc<LogDocument>>,
    /// It has the documents after `from`, up to `to`.
    from: u64,
    to: u64,
    /// The documents after this stamp have marked the scopes that they touch.
    marked_from: u64,
    begun: Option<Begun>,
    bytes: usize,
    /// The part of `bytes` whose documents have no charge of their own.
    small_bytes: usize,
    charge: Charge,
    budget: Arc<Budget>,
}

/// How far a stream has read.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogPosition {
    /// All documents up to this stamp were read.
    after: u64,
    /// The transaction in whose middle it is.
    begun: Option<Begun>,
}

/// What a stream looks for in the log.
pub struct Look<'l> {
    pub watch: &'l Watch,
    /// False for documents that it need not see.
    pub wanted: &'l dyn Fn(&LogDocument) -> bool,
}

/// The next documents for a stream.
pub struct Portion {
    pub documents: Vec<Arc<LogDocument>>,
    /// The stream has read all that its snapshot has.
    pub drained: bool,
}

impl LogPosition {
    pub fn stamp(&self) -> u64 {
        self.after
    }
}

impl Feed {
    /// `announces`: streams are woken when their changes are in the feed, not by the commits of this process.
    pub(crate) fn new(budget: &Arc<Budget>, announces: bool) -> Feed {
        let ring = Ring {
            documents: VecDeque::new(),
            from: 0,
            to: 0,
            marked_from: 0,
            begun: None,
            bytes: 0,
            small_bytes: 0,
            charge: Charge::empty(budget, Pool::ChangeStreams),
            budget: Arc::clone(budget),
        };
        let watches = Arc::new(Watches::new(announces));
        Feed { ring: Mutex::new(ring), image_age: ImageAge::default(), watches }
    }
}

/// Where the documents come from.
enum Source {
    /// The log by stamps, and the collection that shows it.
    Stamps(Arc<Collection>),
    /// That of nodes that list their commits.
    Lists(Arc<Lists>),
}

impl Source {
    /// The stamp up to which a reader at a position may read.
    fn up_to(&self, reader: &Reader<'_>, after: u64) -> Result<Option<u64>> {
        match self {
            Source::Stamps(_) => Ok(reader.stamp().map(|stamp| stamp.0)),
            Source::Lists(lists) => lists.up_to(reader, after).map(Some),
        }
    }

    /// Reads documents after `position` up to a stamp, and moves the position; to `up_to` if there are no more.
    fn read_some(
        &self,
        reader: &Reader<'_>,
        position: &mut LogPosition,
        up_to: u64,
        tick: &mut dyn FnMut() -> Result<()>,
        put: &mut dyn FnMut(LogDocument),
    ) -> Result<()> {
        match self {
            Source::Stamps(shown) => read_stamps(reader, shown, position, up_to, tick, put),
            Source::Lists(lists) => {
                let (after, mut reached) = (position.after, position.after);
                let done = lists.read_some(reader, (after, up_to), tick, &mut |document| {
                    reached = document.stamp;
                    put(document);
                });
                // What was put before an error is not read again.
                position.after = *done.as_ref().unwrap_or(&reached);
                done.map(drop)
            }
        }
    }
}

fn read_stamps(
    reader: &Reader<'_>,
    shown: &Collection,
    position: &mut LogPosition,
    up_to: u64,
    tick: &mut dyn FnMut() -> Result<()>,
    put: &mut dyn FnMut(LogDocument),
) -> Result<()> {
    let mut log = LogReader::open(reader.read, true, &shown.state)?;
    log.resume_after(position.after);
    let (mut count, mut bytes) = (0, 0);
    while count < PORTION_DOCUMENTS_MAX && bytes < PORTION_BYTES_MAX {
        tick()?;
        if !log.skip()? || log.stamp > up_to {
            check_kept(first_of(&shown.state), position.after)?;
            position.after = up_to;
            return Ok(());
        }
        check_kept(first_of(&shown.state), position.after)?;
        let last_of = &mut |stamp| LogReader::last_of_transaction(reader.read, stamp);
        let document = LogDocument::read(&mut log, &mut position.begun, last_of)?;
        position.after = document.stamp;
        count += 1;
        bytes += document.memory_bytes();
        put(document);
    }
    Ok(())
}

impl Ring {
    fn begin_at(&mut self, stamp: u64) {
        self.documents.clear();
        (self.from, self.to, self.marked_from, self.begun) = (stamp, stamp, stamp, None);
        (self.bytes, self.small_bytes) = (0, 0);
        self.charge.shrink_to(0);
    }

    fn push(&mut self, mut document: LogDocument, watches: &Watches) {
        for at in 0..document.op_count() {
            watches.touch(document.op(at), document.head(at).id, document.stamp);
        }
        self.to = document.stamp;
        if document.is_large() {
            while !document.charge(&self.budget) {
                if !self.pop_oldest() {
                    // Each stream reads it for itself, and waits for that memory.
                    self.from = document.stamp;
                    return;
                }
            }
        } else {
            self.small_bytes += document.memory_bytes();
        }
        self.bytes += document.memory_bytes();
        document.share();
        self.documents.push_back(Arc::new(document));
        while self.bytes > FEED_BYTES_MAX || !self.charge.try_cover(self.small_bytes as u64, 1) {
            if !self.pop_oldest() {
                break;
            }
        }
        self.charge.shrink_to(self.small_bytes as u64);
    }

    /// Returns false if there is none.
    fn pop_oldest(&mut self) -> bool {
        let Some(oldest) = self.documents.pop_front() else { return false };
        self.bytes -= oldest.memory_bytes();
        if !oldest.is_large() {
            self.small_bytes -= oldest.memory_bytes();
        }
        self.from = oldest.stamp;
        true
    }

    /// Reads a portion more.
    fn extend(
        &mut self,
        reader: &Reader<'_>,
        source: &Source,
        up_to: u64,
        watches: &Watches,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut position = LogPosition { after: self.to, begun: self.begun };
        let done = source.read_some(reader, &mut position, up_to, tick, &mut |document| {
            self.push(document, watches);
        });
        (self.to, self.begun) = (position.after, position.begun);
        done
    }

    /// Its wanted documents after a position, up to a stamp, and how far it has looked.
    fn portion(
        &self,
        after: u64,
        up_to: u64,
        wanted: &dyn Fn(&LogDocument) -> bool,
    ) -> (Vec<Arc<LogDocument>>, LogPosition) {
        let first = self.documents.partition_point(|document| document.stamp <= after);
        let end = match self.to <= up_to {
            true => LogPosition { after: self.to, begun: self.begun },
            false => LogPosition { after: up_to, begun: None },
        };
        let (mut some, mut bytes) = (Vec::new(), 0);
        let rest = self.documents.range(first..).take_while(|document| document.stamp <= up_to);
        for (looked_at, document) in rest.enumerate() {
            let full = some.len() == PORTION_DOCUMENTS_MAX || bytes >= PORTION_BYTES_MAX;
            if full || looked_at == LOOKED_AT_MAX {
                return (some, document.position_before());
            }
            if wanted(document) {
                bytes += document.memory_bytes();
                some.push(Arc::clone(document));
            }
        }
        (some, end)
    }
}

impl Store {
    fn log_source(&self) -> Option<Source> {
        match &self.lists {
            Some(lists) => Some(Source::Lists(Arc::clone(lists))),
            None => self.shown_change_log().map(Source::Stamps),
        }
    }

    /// The stamp up to which the feed would have read everything now.
    fn feed_begin(&self) -> u64 {
        let Some(lists) = &self.lists else { return self.last_stamp().0 };
        let looked = self.snapshot().and_then(|snapshot| lists.look(&snapshot.reader()));
        looked.map_or(lists.horizon(), |status| status.horizon)
    }

    /// Watches a scope, or the document in it with an id, for as long as the handle exists. To be called before the
    /// first snapshot of a stream is taken.
    pub fn watch_changes(&self, scope: &ChangeScope, id: Option<IdHash>) -> Arc<Watch> {
        let feed = &self.feed;
        let begin = if feed.watches.is_empty() { self.feed_begin() } else { 0 };
        let mut ring = feed.ring.lock();
        if feed.watches.is_empty() {
            let begin = begin.max(ring.to);
            ring.begin_at(begin);
        }
        feed.watches.get(scope, id, ring.to)
    }

    /// Sets how long pre-images are kept after their changes; 0 for as long as the log.
    pub fn keep_pre_images(&self, seconds: u64) {
        self.feed.image_age.set(seconds);
    }

    /// The document before an operation, if it was recorded and is not kept longer than wanted. It takes space until
    /// the log is cut.
    pub fn kept_pre_image<'d>(&self, document: &'d LogDocument, at: usize) -> Option<Doc<'d>> {
        let image = document.pre_image(at)?;
        self.feed.image_age.keeps(document.wall_ms(at)).then_some(image)
    }

    /// Returns once the commits up to a document are durable: a stream must not show what a crash may undo.
    pub fn make_durable(&self, document: &LogDocument) -> Result<()> {
        self.sync_commits(CommitStamp(document.cluster_time))
    }

    /// Returns once the commits up to a stamp are durable. Costs nothing if they are.
    pub fn sync_commits(&self, up_to: CommitStamp) -> Result<()> {
        self.engine.sync(up_to).map_err(engine)
    }

    /// The position before the first document whose events have at least this cluster time.
    ///
    /// # Errors
    /// 136 if such documents were removed from the log.
    pub fn log_position(&self, reader: &Reader<'_>, cluster_time: u64) -> Result<LogPosition> {
        let (first, kept_from) = match self.log_source().ok_or_else(no_log)? {
            Source::Stamps(shown) => {
                let first = LogReader::first_of_transaction(reader.read, cluster_time)?;
                (first, first_of(&shown.state))
            }
            Source::Lists(lists) => {
                lists.look(reader)?;
                (cluster_time, lists.first())
            }
        };
        let after = first.saturating_sub(1);
        check_kept(kept_from, after)?;
        Ok(LogPosition { after, begun: None })
    }

    /// The next documents after a position, which it moves, as far as they are wanted; without `look` all are. `tick`
    /// is called for each document that is read, and `check` while the feed is locked: it must not wait.
    ///
    /// # Errors
    /// 136 if documents after the position were removed from the log.
    pub fn log_portion(
        &self,
        reader: &Reader<'_>,
        look: Option<Look<'_>>,
        position: &mut LogPosition,
        tick: &mut dyn FnMut() -> Result<()>,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Portion> {
        let source = self.log_source().ok_or_else(no_log)?;
        let up_to = source.up_to(reader, position.after)?.ok_or_else(no_log)?;
        if position.after >= up_to {
            return Ok(Portion { documents: Vec::new(), drained: true });
        }
        let mut documents = Vec::new();
        let all = |_: &LogDocument| true;
        // Others may wait for that memory while they have the feed.
        meter::release_read();
        let mut ring = self.feed.lock(check)?;
        let behind = (position.after >> 32).saturating_sub(ring.to >> 32);
        if behind > BEHIND_SECONDS_MAX && position.begun.is_none() {
            ring.begin_at(position.after);
        }
        while ring.to <= position.after && ring.to < up_to {
            ring.extend(reader, &source, up_to, &self.feed.watches, check)?;
            // Others may need the feed meanwhile.
            drop(ring);
            tick()?;
            ring = self.feed.lock(check)?;
        }
        let untouched = look.as_ref().is_some_and(|Look { watch, .. }| {
            position.after >= ring.marked_from.max(watch.since)
                && watch.touched_at.load(SeqCst) <= position.after
        });
        if untouched {
            *position = match ring.to <= up_to {
                true => LogPosition { after: ring.to, begun: ring.begun },
                false => LogPosition { after: up_to, begun: None },
            };
        } else if position.after >= ring.from {
            let wanted = look.map_or(&all as &dyn Fn(&LogDocument) -> bool, |look| look.wanted);
            (documents, *position) = ring.portion(position.after, up_to, wanted);
        } else {
            drop(ring);
            let before = *position;
            let done = source.read_some(reader, position, up_to, tick, &mut |document| {
                documents.push(Arc::new(document));
            });
            if done.is_err() {
                // What was read until then is dropped.
                *position = before;
            }
            done?;
        }
        let drained = documents.is_empty() && position.after >= up_to;
        Ok(Portion { documents, drained })
    }

    /// Reads what was logged since the last call into the feed, so that the scopes of streams that wait are marked;
    /// empties it if there are no streams.
    pub fn refresh_feed(&self, check: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let Some(source) = self.log_source() else { return Ok(()) };
        if self.feed.watches.is_empty() {
            let mut ring = self.feed.lock(check)?;
            if !ring.documents.is_empty() {
                let to = ring.to;
                ring.begin_at(to);
            }
            return Ok(());
        }
        let snapshot = self.snapshot()?;
        let reader = snapshot.reader();
        let to = self.feed.lock(check)?.to;
        let Some(up_to) = source.up_to(&reader, to)? else { return Ok(()) };
        loop {
            check()?;
            let mut ring = self.feed.lock(check)?;
            if ring.to >= up_to {
                return Ok(());
            }
            ring.extend(&reader, &source, up_to, &self.feed.watches, check)?;
        }
    }
}

impl Feed {
    /// Waits for the feed; the interrupt check runs meanwhile.
    fn lock(&self, check: &mut dyn FnMut() -> Result<()>) -> Result<MutexGuard<'_, Ring>> {
        loop {
            if let Some(ring) = self.ring.try_lock_for(LOCK_LOOK) {
                return Ok(ring);
            }
            check()?;
        }
    }
}

fn no_log() -> nagi_error::Error {
    nagi_error::err!(
        Code::Location(40573),
        "The $changeStream stage is only supported on replica sets"
    )
}
