//! The source of a stream's events.

use std::{collections::VecDeque, sync::Arc};

use nagi_bson::Doc;
use nagi_error::{Code, Error, Result, bail, err};
use nagi_lang::filter::Filter;
use nagi_store::{LogDocument, LogPosition, Look, Shown, Watch};
use parking_lot::Mutex;

use super::{
    event::{Origin, token_of},
    filter::StreamFilter,
    lookup,
    operation::Operation,
    options::{Start, StreamOptions, splits, token_text},
    token::Token,
};
use crate::source::{Cx, Source, SourceStats};

/// What a stream tells of itself while it runs.
pub(crate) struct StreamState {
    watch: Arc<Watch>,
    place: Mutex<StreamPlace>,
}

#[derive(Clone, Copy)]
pub(crate) struct StreamPlace {
    /// The token of the current event; of the stream's beginning before the first.
    pub(crate) token: Token,
    /// The stream has read all up to this time, and waits.
    pub(crate) drained_at: Option<u64>,
    /// It was invalidated: no event follows the current one.
    pub(crate) ended: bool,
}

impl StreamState {
    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    pub(crate) fn place(&self) -> StreamPlace {
        *self.place.lock()
    }
}

/// The event to be lent.
enum Current {
    None,
    /// As all streams have it.
    Shared(Arc<LogDocument>, usize),
    /// In `own`.
    Own,
}

/// See the module's header.
pub(crate) struct Stream {
    options: Arc<StreamOptions>,
    state: Arc<StreamState>,
    /// The conditions of the client, as far as they can be tested here.
    filter: Option<StreamFilter>,
    /// The log does not have its beginning.
    is_lost: bool,
    position: LogPosition,
    documents: VecDeque<Arc<LogDocument>>,
    /// The operation of the first document that comes next.
    next_op: usize,
    /// The token of the event behind which the stream begins, until that was met.
    behind: Option<Token>,
    /// Events of an earlier cluster time are passed over.
    from: u64,
    /// The operation that has ended the stream, and the token of the event that tells it.
    invalidated: Option<((Arc<LogDocument>, usize), Token)>,
    ended: bool,
    /// Commits up to this stamp are known to be durable.
    durable_to: u64,
    current: Current,
    own: Vec<u8>,
    stats: SourceStats,
}

fn history_lost() -> Error {
    err!(
        Code::CHANGE_STREAM_HISTORY_LOST,
        "Resume of change stream was not possible, as the resume point may no longer be in the \
         oplog."
    )
}

fn lost(error: Error) -> Error {
    match error.code() {
        Code::CAPPED_POSITION_LOST => history_lost(),
        _ => error,
    }
}

impl Stream {
    /// Opens a stream with the conditions directly behind it. What it shows of the scope, or of the document in it that
    /// the conditions name, has been watched since before the reader's snapshot. If the log no longer has the
    /// place to begin at, the first request for events fails (286).
    pub(crate) fn open<'f>(
        options: &Arc<StreamOptions>,
        watch: Arc<Watch>,
        filters: impl Iterator<Item = &'f Filter>,
        cx: &Cx<'_>,
    ) -> Result<Stream> {
        let (store, reader) = (cx.store, &cx.reader);
        let now = reader.stamp().map_or(0, |stamp| stamp.0);
        let (token, behind) = match options.start {
            // The newest commit was before the stream.
            Start::Now => (Token::high_water(now + 1), None),
            Start::At(time) => (Token::high_water(time), None),
            Start::Behind(token) => (token, (!token.is_high_water()).then_some(token)),
        };
        let from = token.cluster_time;
        let (position, is_lost) = match store.log_position(reader, from) {
            Ok(position) => (position, false),
            Err(error) if error.code() == Code::CAPPED_POSITION_LOST => {
                (LogPosition::default(), true)
            }
            Err(error) => return Err(error),
        };
        let place = StreamPlace { token, drained_at: None, ended: false };
        let state = Arc::new(StreamState { watch, place: Mutex::new(place) });
        Ok(Stream {
            options: Arc::clone(options),
            state,
            filter: StreamFilter::new(filters, cx)?,
            is_lost,
            position,
            documents: VecDeque::new(),
            next_op: 0,
            behind,
            from,
            invalidated: None,
            ended: false,
            durable_to: 0,
            current: Current::None,
            own: Vec::new(),
            stats: SourceStats::default(),
        })
    }

    pub(crate) fn state(&self) -> &Arc<StreamState> {
        &self.state
    }

    /// Checks that a token of a fragment is followed by a pipeline that splits events.
    ///
    /// # Errors
    /// 280.
    pub(crate) fn check_split(options: &StreamOptions, pipeline_splits: bool) -> Result<()> {
        if splits(&options.start) && !pipeline_splits {
            bail!(
                Code::CHANGE_STREAM_FATAL_ERROR,
                "To resume from a split event, the $changeStream pipeline must include a \
                 $changeStreamSplitLargeEvent stage"
            );
        }
        Ok(())
    }

    /// The next operation that may be wanted, with its document.
    fn next_op(&mut self) -> Option<(Arc<LogDocument>, usize)> {
        let filter = self.filter.as_ref().filter(|_| self.behind.is_none());
        loop {
            let document = self.documents.front()?;
            while self.next_op < document.op_count() {
                let at = self.next_op;
                self.next_op += 1;
                let scope = &self.options.scope;
                if filter.is_none_or(|filter| filter.may_match(document.head(at), scope)) {
                    return Some((Arc::clone(document), at));
                }
            }
            self.documents.pop_front();
            self.next_op = 0;
        }
    }

    /// Reads more of the log. Returns false at its end.
    fn read(&mut self, cx: &Cx<'_>) -> Result<bool> {
        cx.tick()?;
        let (mut tick, mut check) = (|| cx.tick(), || cx.env.interrupt().check());
        let position = &mut self.position;
        let (filter, scope) = (self.filter.as_ref(), &self.options.scope);
        let wanted =
            |document: &LogDocument| filter.is_none_or(|filter| filter.wants(document, scope));
        // The event behind which it begins is looked for among all.
        let all = self.behind.is_some();
        let look = (!all).then_some(Look { watch: &self.state.watch, wanted: &wanted });
        let portion = cx.store.log_portion(&cx.reader, look, position, &mut tick, &mut check);
        let portion = portion.map_err(lost)?;
        if portion.drained {
            self.state.place.lock().drained_at = Some(self.position.stamp());
            return Ok(false);
        }
        self.documents = portion.documents.into();
        Ok(true)
    }

    /// True if an event is to be delivered; false if it is one up to which the client has them.
    fn passes(
        &mut self,
        token: &Token,
        invalidates: bool,
        (document, at): (&Arc<LogDocument>, usize),
    ) -> Result<bool> {
        let Some(behind) = self.behind else { return Ok(true) };
        let (here, wanted) = (token.op_of_time(), behind.op_of_time());
        if here < wanted {
            return Ok(false);
        }
        if here > wanted || token.uuid() != behind.uuid() {
            bail!(
                Code::CHANGE_STREAM_FATAL_ERROR,
                "cannot resume stream; the resume token was not found. {}",
                token_text(token)
            );
        }
        self.behind = None;
        if behind.fragment().is_some() {
            // Its later fragments were not delivered.
            return Ok(true);
        }
        if invalidates && !behind.is_invalidate() {
            self.invalidated = Some(((Arc::clone(document), at), token.invalidating()));
        }
        Ok(false)
    }

    /// Returns once all that was read up to a document is durable.
    fn make_durable(&mut self, document: &LogDocument, cx: &Cx<'_>) -> Result<()> {
        if document.cluster_time > self.durable_to {
            let last = self.documents.back().map_or(document, |last| last);
            cx.store.make_durable(last)?;
            self.durable_to = last.cluster_time;
        }
        Ok(())
    }

    /// Delivers the event of an operation, unless the conditions of the client exclude it.
    fn deliver(
        &mut self,
        (document, at): (Arc<LogDocument>, usize),
        operation: &Operation<'_>,
        token: Token,
        cx: &Cx<'_>,
    ) -> Result<bool> {
        if let Some(filter) = &self.filter
            && !filter.matches_operation(operation, cx)?
        {
            return Ok(false);
        }
        let options = &self.options;
        let shape = (options.expanded, options.raw_updates);
        let make = || Origin::of(&document).event(at, operation, shape);
        let shown = if options.expanded { Shown::Expanded } else { Shown::Plain };
        let made;
        let plain = match options.raw_updates {
            true => {
                made = make();
                Some(Doc::trusted(&made))
            }
            false => document.event(at, shown, make),
        };
        let plain = plain.unwrap_or(Doc::EMPTY);
        if let Some(filter) = &mut self.filter
            && !filter.matches_event(plain, operation.kind, options, cx)?
        {
            return Ok(false);
        }
        self.make_durable(&document, cx)?;
        let options = &self.options;
        self.own.clear();
        let extended =
            lookup::extend(plain, (&document, at), operation, options, cx, &mut self.own)?;
        if !extended && options.raw_updates {
            self.own.extend_from_slice(plain.as_bytes());
        }
        self.current = match extended || options.raw_updates {
            true => Current::Own,
            false => Current::Shared(document, at),
        };
        let mut place = self.state.place.lock();
        (place.token, place.drained_at) = (token, None);
        Ok(true)
    }

    fn deliver_invalidate(&mut self, (document, at): (&LogDocument, usize), token: Token) {
        self.own = Origin::of(document).invalidate(at, &token);
        (self.current, self.ended) = (Current::Own, true);
        let mut place = self.state.place.lock();
        *place = StreamPlace { token, drained_at: None, ended: true };
    }
}

impl Source for Stream {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.current = Current::None;
        if self.is_lost {
            return Err(history_lost());
        }
        loop {
            if self.ended {
                return Ok(false);
            }
            if let Some(((document, at), token)) = self.invalidated.take() {
                self.make_durable(&document, cx)?;
                self.deliver_invalidate((&document, at), token);
                return Ok(true);
            }
            let Some((document, at)) = self.next_op() else {
                if !self.read(cx)? {
                    return Ok(false);
                }
                continue;
            };
            cx.tick()?;
            self.stats.docs_examined += 1;
            if document.cluster_time < self.from {
                continue;
            }
            let held = Arc::clone(&document);
            let Some(operation) = Operation::parse(held.op(at)) else { continue };
            let options = &self.options;
            if !operation.is_shown(&options.scope, options.expanded, options.system) {
                continue;
            }
            let token = token_of(&document, at, &operation, false);
            let invalidates = operation.invalidates(&options.scope);
            if !self.passes(&token, invalidates, (&document, at))? {
                continue;
            }
            if invalidates {
                self.invalidated = Some(((Arc::clone(&document), at), token.invalidating()));
            }
            if self.deliver((document, at), &operation, token, cx)? {
                return Ok(true);
            }
        }
    }

    fn doc(&self) -> Doc<'_> {
        match &self.current {
            Current::None => Doc::EMPTY,
            Current::Own => Doc::trusted(&self.own),
            Current::Shared(document, at) => {
                let shown = if self.options.expanded { Shown::Expanded } else { Shown::Plain };
                document.event(*at, shown, Vec::new).unwrap_or(Doc::EMPTY)
            }
        }
    }

    fn is_at_end(&self) -> bool {
        self.ended
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }

    /// Documents that were not delivered are read again: a thousand parked streams should not hold a portion each.
    fn save(&mut self) {
        if let Some(document) = self.documents.front() {
            let delivered = self.next_op == document.op_count();
            self.position = match delivered {
                true => document.position_behind(),
                false => document.position_before(),
            };
            self.next_op = if delivered { 0 } else { self.next_op };
        }
        self.documents = VecDeque::new();
        self.current = Current::None;
        self.own = Vec::new();
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}
