//! Change streams.

use std::time::{Duration, Instant};

use nagi_bson::{Doc, DocBuf, Value};

use crate::cursor::Cursor;
use crate::scope::Scope;
use crate::{Error, ErrorKind, Result};

/// One wait within the database; longer waits consist of several.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The code of a cursor that does not exist any more.
const CURSOR_NOT_FOUND: i32 = 43;
const RESUMABLE: &str = "ResumableChangeStreamError";
/// The options that say where a stream begins: a resumed one has its own.
const BEGINNINGS: [&str; 3] = ["resumeAfter", "startAfter", "startAtOperationTime"];

/// The changes of a collection, a database or everything, in the order of their commits.
///
/// As an iterator it waits for the next event without a limit, until the database is closed or the stream is
/// invalidated. [`ChangeStream::next_within`] waits for a limited time, and [`ChangeStream::events_within`] is an
/// iterator that ends when nothing has happened for a time.
///
/// ```
/// # use nagi::{Database, Options, doc};
/// use std::time::Duration;
/// let db = Database::in_memory_with(Options::new().replica_set("rs0"))?;
/// let orders = db.database("shop").collection("orders");
/// let mut changes = orders.watch()?;
/// orders.insert_many((0..3).map(|n| doc! { "_id": n }))?;
/// let events: Vec<_> =
///     changes.events_within(Duration::from_millis(200)).collect::<Result<_, _>>()?;
/// assert_eq!(events.len(), 3);
/// // A later stream continues there.
/// let options = doc! { "resumeAfter": (changes.resume_token().expect("has read").as_doc()) };
/// let mut later = orders.watch_with(Vec::<nagi::DocBuf>::new(), options)?;
/// assert!(later.next_within(Duration::from_millis(10))?.is_none());
/// # Ok::<(), nagi::Error>(())
/// ```
#[derive(Debug)]
pub struct ChangeStream {
    cursor: Cursor,
    source: Source,
    token: Option<DocBuf>,
}

/// What a stream watches, to open it again.
#[derive(Debug)]
struct Source {
    scope: Scope,
    db: String,
    collection: Option<String>,
    stages: Vec<DocBuf>,
    options: DocBuf,
}

impl Source {
    /// Opens the stream, after a token if there is one.
    fn open(&self, after: Option<&DocBuf>) -> Result<Cursor> {
        let target = self.collection.as_deref().map_or(Value::Int32(1), Value::String);
        let options = DocBuf::build(|out| {
            let kept = |name: &str| after.is_none() || !BEGINNINGS.contains(&name);
            let options = self.options.as_doc();
            options.iter().filter(|e| kept(e.name())).for_each(|e| out.put_element(e));
            if let Some(token) = after {
                out.put("resumeAfter", token);
            }
        });
        let first = DocBuf::build(|out| out.put("$changeStream", &options));
        let stages = std::iter::once(&first).chain(&self.stages);
        crate::pipeline::aggregate(&self.scope, &self.db, target, stages, Doc::EMPTY)
    }
}

impl ChangeStream {
    pub(crate) fn open(
        scope: Scope,
        db: &str,
        collection: Option<&str>,
        stages: Vec<DocBuf>,
        options: DocBuf,
    ) -> Result<ChangeStream> {
        let collection = collection.map(str::to_owned);
        let source = Source { scope, db: db.to_owned(), collection, stages, options };
        let cursor = source.open(None)?;
        let mut stream = ChangeStream { cursor, source, token: None };
        stream.note_batch();
        Ok(stream)
    }

    /// Waits up to `time` for the next event; `None` if there is none, or no more after an invalidation.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the database is closed; 286 if the oplog no longer has the next event.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<DocBuf>> {
        let until = Instant::now().checked_add(time);
        loop {
            if let Some(event) = self.buffered()? {
                return Ok(Some(event));
            }
            if self.cursor.is_exhausted() {
                return Ok(None);
            }
            let left =
                until.map_or(WAIT_MAX, |until| until.saturating_duration_since(Instant::now()));
            let wait = left.min(WAIT_MAX);
            self.fetch(i64::try_from(wait.as_millis()).unwrap_or(1).max(1))?;
            if left.is_zero() && self.cursor.buffered() == 0 {
                return Ok(None);
            }
        }
    }

    /// An iterator that ends when there has been no event for `quiet`. The stream can be used afterwards.
    pub fn events_within(&mut self, quiet: Duration) -> impl Iterator<Item = Result<DocBuf>> + '_ {
        std::iter::from_fn(move || self.next_within(quiet).transpose())
    }

    /// The token after which a later stream continues (`resumeAfter`): that of the last event that was returned, or a
    /// newer one if there were no more events.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory_with(nagi::Options::new().replica_set("rs0"))?;
    /// let changes = db.watch()?;
    /// assert!(changes.resume_token().is_some());
    /// # Ok::<(), nagi::Error>(())
    /// ```
    pub fn resume_token(&self) -> Option<&DocBuf> {
        self.token.as_ref()
    }

    /// The next event of the batch.
    fn buffered(&mut self) -> Result<Option<DocBuf>> {
        let Some(at) = self.cursor.step() else { return Ok(None) };
        let event = self.cursor.at(at)?.to_buf();
        self.token = event.get("_id").as_doc().map(|token| token.to_buf());
        if self.cursor.buffered() == 0 {
            self.note_batch();
        }
        Ok(Some(event))
    }

    /// Takes the token after the batch, once it was read.
    fn note_batch(&mut self) {
        if self.cursor.buffered() == 0
            && let Value::Doc(token) = self.cursor.field("postBatchResumeToken")
        {
            self.token = Some(token.to_buf());
        }
    }

    /// Fetches a batch. A stream that the database has dropped is opened again after the last event.
    fn fetch(&mut self, wait_ms: i64) -> Result<()> {
        match self.cursor.fetch(Some(wait_ms)) {
            Ok(_) => {}
            Err(error) if is_resumable(&error) => {
                self.cursor = self.source.open(self.token.as_ref())?;
            }
            Err(error) => return Err(error),
        }
        self.note_batch();
        Ok(())
    }
}

fn is_resumable(error: &Error) -> bool {
    error.kind() == ErrorKind::Command
        && (error.code() == CURSOR_NOT_FOUND || error.has_label(RESUMABLE))
}

impl Iterator for ChangeStream {
    type Item = Result<DocBuf>;

    fn next(&mut self) -> Option<Result<DocBuf>> {
        self.next_within(Duration::MAX).transpose()
    }
}
