//! The changes of a multi-document statement, in groups of documents.
//!
//! ```text
//!   gather   up to a hundred documents that match, copied from the snapshot of a new transaction
//!   change   claims each record, changes it
//!   commit   the group; then the next one begins
//! ```
//!
//! A document that no other client has changed since the snapshot need not be read again: the claim of its record
//! proves it. The other ones are passed over, and changed in a transaction that reads them again, in which they may no
//! longer match ([`in_chunks`]). The same happens to the whole group after any other conflict.
//!
//! A collection scan continues from group to group, each with a new snapshot. Other plans could meet their own changes,
//! so the ids of all documents are collected first, from one snapshot.
//!
//! No record is claimed while documents are being found, and a group is small: other writers wait a millisecond at
//! most, what is staged stays in the processor's cache, and after an error the groups before it stay committed.

use std::time::{Duration, Instant};

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::{Code, Error, Result};
use nagi_lang::filter::MatchInfo;
use nagi_store::{
    Durability, KeysWritten, RecordBuf, RecordId, RecordKey, Snapshot, Store, WriteTxn,
};

use super::{How, Run, Tally, ends_command, in_chunks, rest};
use crate::{
    plan::{self, FindSpec},
    source::{Cx, Source, renew},
};

/// Limits of a group: more would save little, and leave the processor's second-level cache.
const GROUP_RECORDS: usize = 100;
const GROUP_BYTES: usize = 128 << 10;

/// The change of one document.
pub(super) trait Change {
    /// True if `change` needs to know how the document matches, beyond that it does.
    fn needs_position(&self) -> bool {
        false
    }

    fn change(
        &mut self,
        txn: &mut WriteTxn<'_>,
        record: (RecordKey<'_>, Doc<'_>, MatchInfo),
        arena: &Bump,
    ) -> Result<Tally>;

    /// Called after the commit of a group, with the changed documents and the bytes of all, with how many of them are
    /// to be read again, and with the time that it took.
    fn committed(&self, _: &Store, _: (u64, u64), _refetched: u64, _: Duration) {}
}

/// Documents that match, as one snapshot has them.
#[derive(Default)]
struct Group {
    ids: Vec<RecordId>,
    bytes: Vec<u8>,
    /// Where each document ends in `bytes`.
    ends: Vec<usize>,
}

impl Group {
    fn push(&mut self, id: RecordId, doc: Doc<'_>) {
        self.ids.push(id);
        self.bytes.extend_from_slice(doc.as_bytes());
        self.ends.push(self.bytes.len());
    }

    fn is_full(&self) -> bool {
        self.ids.len() >= GROUP_RECORDS || self.bytes.len() >= GROUP_BYTES
    }

    fn clear(&mut self) {
        // One large document must not stay in memory for the rest of the statement.
        self.bytes.clear();
        self.bytes.shrink_to(2 * GROUP_BYTES);
        self.ids.clear();
        self.ends.clear();
    }

    fn iter(&self) -> impl Iterator<Item = (&RecordId, Doc<'_>)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let docs = starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end]);
        self.ids.iter().zip(docs.map(Doc::trusted))
    }
}

/// Changes all documents that match.
///
/// # Errors
/// The first error of a change; the documents before it stay changed. Those that end the command.
pub(super) fn change_all(run: &Run<'_>, by: &mut dyn Change) -> Result<Tally> {
    let examined = run.env.work().stats.docs_examined;
    let durability = run.how.durability;
    if run.store.is_bound() {
        let ids = run.all()?;
        return in_chunks(run, (&ids, examined), by);
    }
    // The log keeps the order of commits: only the last one waits for the disk.
    let how = How { durability: Durability::Buffered, ..run.how };
    let mut groups = Groups {
        run: &Run { how, collection: run.collection.clone(), ..*run },
        by,
        group: Group::default(),
        tally: Tally::default(),
        examined,
    };
    let done = groups.all();
    let tally = groups.tally;
    if durability == Durability::Synced && tally.modified > 0 {
        run.store.sync()?;
    }
    done.map(|()| tally)
}

struct Groups<'g, 'r> {
    run: &'g Run<'r>,
    by: &'g mut dyn Change,
    group: Group,
    tally: Tally,
    /// Documents that the request had examined before.
    examined: u64,
}

/// Fills the group from a snapshot. Returns true if there are more documents.
type Fill<'f> = dyn FnMut(&Snapshot, &mut Group) -> Result<bool> + 'f;

impl Groups<'_, '_> {
    fn all(&mut self) -> Result<()> {
        let Run { store, ref collection, vars, env, selection, .. } = *self.run;
        let snapshot = store.snapshot()?;
        let mut cx = Cx { store, reader: snapshot.reader(), vars, env };
        let spec = selection.spec(Some(collection.clone()), false);
        // A scan lends its documents in any case.
        let spec = FindSpec { needed: Some(Vec::new()), ..spec };
        let mut plan = plan::plan(&spec, &mut cx)?;
        let mut source = plan.start_top(env);
        if source.is_steady() {
            source.save();
            drop(snapshot);
            let done = self.by_scan(&mut *source);
            env.note_run(&plan, &mut *source);
            return done;
        }
        let ids = rest(&mut *source, &mut cx);
        env.note_run(&plan, &mut *source);
        drop((source, snapshot));
        self.run.check_whole(Some(&plan))?;
        self.by_ids(&ids?)
    }

    /// Goes through a scan, with a new snapshot for each group.
    fn by_scan(&mut self, source: &mut dyn Source) -> Result<()> {
        let run = self.run;
        let Run { store, vars, env, .. } = *run;
        let mut fill = |snapshot: &Snapshot, group: &mut Group| {
            let mut cx = Cx { store, reader: snapshot.reader(), vars, env };
            source.restore(&mut cx)?;
            let more = gather(source, group, &mut cx);
            source.save();
            run.check_whole(None)?;
            more
        };
        while self.next(&mut fill)? {}
        Ok(())
    }

    /// Reads the records again, some at a time.
    fn by_ids(&mut self, ids: &[RecordId]) -> Result<()> {
        let Run { ref collection, env, .. } = *self.run;
        let (run, examined) = (self.run, self.examined);
        let (mut buf, mut arena, mut read) = (RecordBuf::default(), Bump::new(), 0);
        for ids in ids.chunks(GROUP_RECORDS) {
            read += ids.len() as u64;
            self.next(&mut |snapshot, group| {
                env.interrupt().check()?;
                let mut done = Ok(());
                snapshot.reader().records(collection, ids, &mut buf, &mut |at, doc| {
                    let Some(doc) = doc.filter(|_| done.is_ok()) else { return };
                    renew(&mut arena);
                    let matches = env.changing(doc.len()).and_then(|()| run.matching(doc, &arena));
                    done = matches.map(|matches| {
                        if matches.is_some() {
                            group.push(ids[at].clone(), doc);
                        }
                    });
                })?;
                env.note_reread(examined, read);
                run.check_whole(None)?;
                done.map(|()| false)
            })?;
        }
        Ok(())
    }

    /// Changes the next group. Returns true if there are more documents.
    fn next(&mut self, fill: &mut Fill<'_>) -> Result<bool> {
        let env = self.run.env;
        let (mut passed_over, mut more) = (Vec::new(), Ok(false));
        self.group.clear();
        // Nothing is held here.
        env.interrupt().between_groups()?;
        match self.try_next(fill, &mut passed_over, &mut more) {
            Ok((tally, error)) => {
                self.tally.add(tally);
                self.again(&passed_over)?;
                error.map_or(more, Err)
            }
            Err(error) if error.code() == Code::WRITE_CONFLICT => {
                env.note_attempt(true, KeysWritten::default());
                let ids = std::mem::take(&mut self.group.ids);
                self.again(&ids)?;
                more
            }
            Err(error) => Err(error),
        }
    }

    /// Changes records that somebody else has changed since they were read, or is changing.
    fn again(&mut self, ids: &[RecordId]) -> Result<()> {
        if !ids.is_empty() {
            let tally = in_chunks(self.run, (ids, self.examined), self.by)?;
            self.tally.add(tally);
        }
        Ok(())
    }

    /// One transaction. Returns also the error of the document at which it stopped.
    fn try_next(
        &mut self,
        fill: &mut Fill<'_>,
        passed_over: &mut Vec<RecordId>,
        more: &mut Result<bool>,
    ) -> Result<(Tally, Option<Error>)> {
        let Run { store, how, env, .. } = *self.run;
        let (run, by, group) = (self.run, &mut *self.by, &mut self.group);
        let check = || env.interrupt().check();
        let options = how.options(&check);
        let mut keys = KeysWritten::default();
        let begin = Instant::now();
        let done = store.write_once(options, &mut |txn| {
            // It is released before the commit, which then need not be remembered on its account.
            *more = fill(&txn.snapshot()?, group);
            match std::mem::replace(more, Ok(false)) {
                Err(error) if ends_command(&error) => return Err(error),
                filled => *more = filled,
            }
            txn.enter(&run.collection)?;
            let done = change(run, txn, by, group, passed_over);
            keys = txn.keys_written();
            done
        });
        if let Ok(written) = &done
            && !self.group.ids.is_empty()
        {
            env.note_yield();
            env.note_attempt(false, keys);
            let size = (written.value.0.modified, self.group.bytes.len() as u64);
            self.by.committed(store, size, passed_over.len() as u64, begin.elapsed());
        }
        done.map(|written| written.value)
    }
}

/// Collects the next documents of a scan. Returns true if there may be more.
fn gather(source: &mut dyn Source, group: &mut Group, cx: &mut Cx<'_>) -> Result<bool> {
    while !group.is_full() {
        if !source.advance(cx)? {
            return Ok(false);
        }
        let doc = source.doc();
        cx.env.changing(doc.len())?;
        if let Some(id) = source.record_id() {
            group.push(id.to_id(), doc);
        }
    }
    Ok(true)
}

/// Changes the documents of the group. Returns also the error of the document at which it stopped.
fn change(
    run: &Run<'_>,
    txn: &mut WriteTxn<'_>,
    by: &mut dyn Change,
    group: &Group,
    passed_over: &mut Vec<RecordId>,
) -> Result<(Tally, Option<Error>)> {
    let (mut tally, mut arena) = (Tally::default(), Bump::new());
    for (id, doc) in group.iter() {
        run.env.pass()?;
        if !txn.claim(&run.collection, id.key())? {
            passed_over.push(id.clone());
            continue;
        }
        renew(&mut arena);
        let info = match by.needs_position() {
            true => run.matching(doc, &arena)?.unwrap_or_default(),
            false => MatchInfo::default(),
        };
        match txn.attempt(|txn| by.change(txn, (id.key(), doc, info), &arena)) {
            Ok(one) => tally.add(one),
            Err(error) if error.code() == Code::WRITE_CONFLICT => return Err(error),
            Err(error) => return Ok((tally, Some(error))),
        }
    }
    Ok((tally, None))
}
