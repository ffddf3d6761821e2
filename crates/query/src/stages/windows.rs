//! The running `$setWindowFields`: partition by partition, each window moves over the documents.
//!
//! ```text
//!   documents   d0 d1 d2 d3 d4 d5 ...          window of a function at d3: [d2, d4]
//!                     [--------]
//!   dropped <-- d0 | read by all functions, returned
//! ```
//!
//! Every function reads the partition on its own, as far ahead as its window reaches. A document is dropped once
//! all functions have read it and it was returned. Documents beyond the memory limit are spilled to runs, where the
//! readers continue. States of functions stay in memory; too large ones are an error.

use std::collections::VecDeque;
use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_bson::compare;
use nagi_lang::expr::Metadata;
use nagi_lang::window::{Argument, Bound, Bounds, RangeBounds, WindowFunction, WindowState};

use super::{prelude::*, set_window_fields::Plan};
use crate::source::{
    OperatorMemory, Partition, PartitionReader, SourceStats, document, metadata, read_meta,
};

/// A smaller part of the memory is not worth a run.
const RUN_SHARE_MIN: usize = 16;

pub(super) struct Running {
    feed: Feed,
    windows: Vec<Window>,
    reader: PartitionReader,
    /// Position of the document to return next.
    next: u64,
    /// The current document with its metadata.
    here: Vec<u8>,
    out: Vec<u8>,
    arena: Bump,
}

/// The documents of the current partition, as they are read from the input.
struct Feed {
    input: Box<dyn Source>,
    plan: Arc<Plan>,
    docs: Partition,
    key: ValueBuf,
    /// The first document of the next partition, and its key.
    pending: Option<(Box<[u8]>, ValueBuf)>,
    /// True if all documents of the partition were read.
    complete: bool,
    /// True if the input is exhausted.
    ended: bool,
    states_bytes: usize,
    held: OperatorMemory,
    stats: SourceStats,
    copy: Vec<u8>,
    arena: Bump,
}

/// The window of one function.
struct Window {
    state: Box<dyn WindowState>,
    reader: PartitionReader,
    /// Positions of the first document in the window, and of the first one after it.
    start: u64,
    end: u64,
    /// Sort keys of the documents in the window, if documents leave it by their keys.
    keys: VecDeque<ValueBuf>,
    keys_bytes: usize,
    /// The sort key of the document at `end`, once it was read.
    peeked: Option<ValueBuf>,
    /// The result, as the only field of a document.
    result: Vec<u8>,
    /// True if `result` is valid for the whole partition.
    settled: bool,
}

impl Running {
    pub(super) fn boxed(input: Box<dyn Source>, plan: Arc<Plan>) -> Box<dyn Source> {
        let feed = Feed {
            input,
            plan,
            docs: Partition::default(),
            key: ValueBuf::new(Value::Null),
            pending: None,
            complete: true,
            ended: false,
            states_bytes: 0,
            held: OperatorMemory::default(),
            stats: SourceStats::default(),
            copy: Vec::new(),
            arena: Bump::new(),
        };
        Box::new(Running {
            feed,
            windows: Vec::new(),
            reader: PartitionReader::default(),
            next: 0,
            here: Vec::new(),
            out: Vec::new(),
            arena: Bump::new(),
        })
    }

    /// Moves to the next partition. Returns false at the end of the input.
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.feed.begin(cx)? {
            return Ok(false);
        }
        self.windows = self.feed.plan.functions.iter().map(Window::new).collect();
        self.reader = PartitionReader::default();
        self.next = 0;
        Ok(true)
    }

    /// The sort key of the current document, if a window needs it.
    fn current_key(&self, cx: &Cx<'_>) -> Result<Option<ValueBuf>> {
        match &self.feed.plan.key {
            Some(key) if self.feed.plan.has_ranges() => {
                let eval = cx.eval(document(&self.here), &self.arena);
                Ok(Some(ValueBuf::new(key.eval(&eval)?)))
            }
            _ => Ok(None),
        }
    }

    fn compute(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let key = self.current_key(cx)?;
        let key = key.as_ref().map_or(Value::Missing, ValueBuf::value);
        let plan = self.feed.plan.clone();
        for (window, function) in self.windows.iter_mut().zip(&plan.functions) {
            let before = window.bytes();
            match function.bounds() {
                Bounds::Documents(lower, upper) => {
                    window.move_by_documents(
                        function,
                        self.next,
                        (lower, upper),
                        &mut self.feed,
                        cx,
                    )?;
                }
                Bounds::Range(range) => {
                    window.move_by_key(function, self.next, key, range, &mut self.feed, cx)?;
                }
            }
            window.write(function, self.next)?;
            self.feed.states_changed(before, window.bytes(), cx)?;
        }
        let results: Vec<Value<'_>> = self
            .windows
            .iter()
            .map(|window| {
                Doc::trusted(&window.result).first().map_or(Value::Missing, |e| e.value())
            })
            .collect();
        plan.write(document(&self.here), &results, &self.arena, cx.env.now_ms(), &mut self.out)
    }
}

impl Feed {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.docs.note_spill(&mut self.stats);
        self.docs = Partition::default();
        self.states_bytes = 0;
        self.held.keep(0);
        let (doc, key) = match self.pending.take() {
            Some(pending) => pending,
            None if self.ended => return Ok(false),
            None => match self.read(cx)? {
                Some(read) => read,
                None => return Ok(false),
            },
        };
        self.docs.push(&doc);
        self.key = key;
        self.complete = false;
        Ok(true)
    }

    /// The next document of the input, with its partition key.
    fn read(&mut self, cx: &mut Cx<'_>) -> Result<Option<(Box<[u8]>, ValueBuf)>> {
        if !self.input.advance(cx)? {
            self.ended = true;
            return Ok(None);
        }
        let doc = self.input.doc();
        let key = ValueBuf::new(self.plan.partition.key(&cx.eval(doc, &self.arena))?);
        self.plan.partition.copy(doc, &mut self.copy);
        let meta = self.input.meta();
        if !meta.is_empty() {
            self.copy.extend_from_slice(meta.as_bytes());
        }
        renew(&mut self.arena);
        Ok(Some((self.copy.as_slice().into(), key)))
    }

    /// Returns true if the partition has a document at `at`; reads up to that position.
    fn has(&mut self, at: u64, cx: &mut Cx<'_>) -> Result<bool> {
        while self.docs.len() <= at {
            if self.complete {
                return Ok(false);
            }
            match self.read(cx)? {
                None => self.complete = true,
                Some((doc, key)) if self.plan.same_partition(&self.key, key.value()) => {
                    self.docs.push(&doc);
                    self.check_memory(cx)?;
                }
                Some(pending) => {
                    self.pending = Some(pending);
                    self.complete = true;
                }
            }
        }
        Ok(true)
    }

    fn states_changed(&mut self, before: usize, after: usize, cx: &Cx<'_>) -> Result<()> {
        self.states_bytes = (self.states_bytes + after).saturating_sub(before);
        self.check_memory(cx)
    }

    fn check_memory(&mut self, cx: &Cx<'_>) -> Result<()> {
        let most = self.plan.memory_bytes_max;
        let bytes = self.docs.bytes() + self.states_bytes;
        self.stats.bytes_held = self.stats.bytes_held.max(bytes as u64);
        if bytes <= most && self.held.fits(cx, bytes) {
            return Ok(());
        }
        if self.states_bytes > most {
            bail!(
                Code::Location(5_414_201),
                "Exceeded memory limit in DocumentSourceSetWindowFields, used {bytes} bytes but \
                 max allowed is {most}"
            );
        }
        if !self.plan.allow_disk_use {
            if bytes <= most {
                return Err(self.held.full());
            }
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Exceeded max memory. Current memory: {bytes} bytes. Max allowed memory: {most} \
                 bytes. Set 'allowDiskUse: true' to allow spilling to disk."
            );
        }
        if self.docs.bytes() >= most / RUN_SHARE_MIN {
            self.docs.write_out(cx.store)?;
            self.held.keep(self.states_bytes);
        }
        Ok(())
    }
}

impl Window {
    fn new(function: &WindowFunction) -> Window {
        Window {
            state: function.new_state(),
            reader: PartitionReader::default(),
            start: 0,
            end: 0,
            keys: VecDeque::new(),
            keys_bytes: 0,
            peeked: None,
            result: Vec::new(),
            settled: false,
        }
    }

    fn bytes(&self) -> usize {
        self.state.bytes() + self.keys_bytes + self.result.capacity()
    }

    /// Adds the document at the window's end, or passes it by if `skip`.
    fn take(
        &mut self,
        function: &WindowFunction,
        skip: bool,
        feed: &mut Feed,
        cx: &Cx<'_>,
    ) -> Result<()> {
        if !skip {
            let bytes = feed.docs.doc(self.end, &mut self.reader)?;
            let (doc, meta) = (document(bytes), metadata(bytes));
            match function.argument() {
                Argument::Expr(expr) => {
                    let mut eval = cx.eval(doc, &feed.arena);
                    eval.meta = read_meta(meta, &feed.arena);
                    self.state.add(expr.eval(&eval)?)?;
                }
                Argument::SortKey => {
                    let mut key = Vec::new();
                    if let Some(sort) = &feed.plan.sort {
                        sort.key_with(doc, &Metadata::read(meta), &mut key)?;
                    }
                    self.state.add(Value::Doc(Doc::trusted(&key)))?;
                }
            }
            renew(&mut feed.arena);
        } else {
            self.start = self.end + 1;
        }
        self.end += 1;
        self.peeked = None;
        Ok(())
    }

    fn move_by_documents(
        &mut self,
        function: &WindowFunction,
        current: u64,
        (lower, upper): (&Bound<i64>, &Bound<i64>),
        feed: &mut Feed,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let start = match lower {
            Bound::Unbounded => 0,
            Bound::Current => current,
            Bound::By(by) => current.saturating_add_signed(*by),
        };
        let end = match upper {
            Bound::Unbounded => u64::MAX,
            Bound::Current => current + 1,
            Bound::By(by) => (current + 1).saturating_add_signed(*by),
        };
        while self.end < end && feed.has(self.end, cx)? {
            self.take(function, self.end < start, feed, cx)?;
        }
        while self.start < start.min(self.end) {
            self.state.remove();
            self.start += 1;
        }
        while self.state.needs_more(current) && feed.has(self.end, cx)? {
            self.take(function, false, feed, cx)?;
        }
        Ok(())
    }

    fn move_by_key(
        &mut self,
        function: &WindowFunction,
        current: u64,
        key: Value<'_>,
        range: &RangeBounds,
        feed: &mut Feed,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        range.check(key)?;
        let lowest = match &range.lower {
            Bound::By(by) => Some(range.end(key, by)?),
            _ => None,
        };
        let highest = match &range.upper {
            Bound::By(by) => Some(range.end(key, by)?),
            _ => None,
        };
        let below = |key: Value<'_>, end: &ValueBuf| compare::values(key, end.value()).is_lt();
        loop {
            if matches!(range.upper, Bound::Current) && self.end > current {
                break;
            }
            if !feed.has(self.end, cx)? {
                break;
            }
            let mut skip = matches!(range.lower, Bound::Current) && self.end < current;
            let mut taken = None;
            if lowest.is_some() || highest.is_some() {
                let here = self.peek(feed, cx)?;
                if highest.as_ref().is_some_and(|end| below(end.value(), &here)) {
                    self.peeked = Some(here);
                    break;
                }
                skip |= lowest.as_ref().is_some_and(|end| below(here.value(), end));
                taken = Some(here);
            }
            // Only documents before the window are passed by.
            let skip = skip && self.start == self.end;
            self.take(function, skip, feed, cx)?;
            if let (Some(_), Some(taken), false) = (&lowest, taken, skip) {
                self.keys_bytes += taken.heap_bytes() + size_of::<ValueBuf>();
                self.keys.push_back(taken);
            }
        }
        match &lowest {
            None => {
                let start = if matches!(range.lower, Bound::Current) { current } else { 0 };
                while self.start < start.min(self.end) {
                    self.state.remove();
                    self.start += 1;
                }
            }
            Some(lowest) => {
                while self.keys.front().is_some_and(|first| below(first.value(), lowest)) {
                    let first = self.keys.pop_front();
                    self.keys_bytes -=
                        first.map_or(0, |key| key.heap_bytes() + size_of::<ValueBuf>());
                    self.state.remove();
                    self.start += 1;
                }
            }
        }
        Ok(())
    }

    /// The sort key of the document at the window's end.
    fn peek(&mut self, feed: &Feed, cx: &Cx<'_>) -> Result<ValueBuf> {
        if let Some(peeked) = self.peeked.take() {
            return Ok(peeked);
        }
        let arena = Bump::new();
        let doc = document(feed.docs.doc(self.end, &mut self.reader)?);
        let eval = cx.eval(doc, &arena);
        match &feed.plan.key {
            Some(key) => Ok(ValueBuf::new(key.eval(&eval)?)),
            None => Ok(ValueBuf::new(Value::Missing)),
        }
    }

    fn write(&mut self, function: &WindowFunction, current: u64) -> Result<()> {
        if self.settled {
            return Ok(());
        }
        self.result.clear();
        self.state.write(current, DocWriter::new(&mut self.result).slot(""))?;
        self.settled = function.bounds().is_whole() && function.name() != "$minMaxScaler";
        Ok(())
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        renew(&mut self.arena);
        cx.pass()?;
        if !self.feed.has(self.next, cx)? && !self.begin(cx)? {
            return Ok(false);
        }
        self.here.clear();
        self.here.extend_from_slice(self.feed.docs.doc(self.next, &mut self.reader)?);
        self.compute(cx)?;
        self.next += 1;
        let needed = self.windows.iter().map(|window| window.end).fold(self.next, u64::min);
        self.feed.docs.forget(needed);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn meta(&self) -> Doc<'_> {
        metadata(&self.here)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.feed.input)
    }

    fn save(&mut self) {
        self.feed.held.park();
        self.feed.input.save();
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.feed.held.resume();
        if self.feed.ended { Ok(()) } else { self.feed.input.restore(cx) }
    }

    fn stats(&self) -> SourceStats {
        let mut stats = self.feed.stats;
        self.feed.docs.note_spill(&mut stats);
        stats
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        let stats = self.stats();
        out.put("maxTotalMemoryUsageBytes", stats.bytes_held as i64);
        stats.show_spills(out);
    }
}
