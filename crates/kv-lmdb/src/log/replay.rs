//! Replays the log after a start.
//!
//! Records are read in the order of segments and stamps until one is not whole or a stamp is missing. The rest was
//! never durable as a whole (a power cut lost a part of the log's tail), unless a later record says that the
//! missing one had been synced. Then the log is damaged, and replay returns an error instead of losing acknowledged
//! writes silently. A repair continues with the records after the damage: each is whole, and its changes are
//! absolute values.

use std::path::{Path, PathBuf};

use nagi_kv::{CommitStamp, Error, Result, Space};

use super::{
    Change, PREFIX, numbered,
    segment::{Found, Opened, Reader},
};

/// The callback of a replay: called with the stamps and the changes of a record.
pub(crate) type Take<'t> =
    &'t mut dyn FnMut((u64, u64), &mut dyn Iterator<Item = (Space, Change<'_>)>) -> Result<()>;

/// Calls `take` with the first and last stamp and the changes of each record beyond `applied`. Returns the stamp up
/// to which the store is complete. If `salvage`, damage is skipped, and the second result describes what was lost.
pub(crate) fn replay(
    dir: &Path,
    applied: u64,
    salvage: bool,
    take: Take<'_>,
) -> Result<(u64, Option<String>)> {
    let mut state = State {
        applied,
        last: applied,
        whole: applied,
        synced: 0,
        end: None,
        gap: None,
        salvage,
        take,
    };
    for (number, path) in numbered(dir, PREFIX)? {
        match Reader::open(&path, number)? {
            Opened::Segment(reader) => state.read(reader)?,
            Opened::Unused => state.found_gap(&path, 0),
            Opened::Damaged => {
                state.found_gap(&path, 0);
                // A head is written only when a record follows at once.
                state.synced = state.synced.max(state.last + 1);
            }
        }
    }
    let State { last, whole, synced, gap, end, .. } = state;
    let Some((path, offset)) = gap.or(end).filter(|_| synced > whole) else {
        return Ok((last, None));
    };
    let what = format!(
        "{} is damaged at offset {offset}: commits after {} up to {} had been written to disk, and \
         some cannot be read",
        path.display(),
        CommitStamp(whole),
        CommitStamp(synced)
    );
    if !salvage {
        return Err(Error::Corrupt(what));
    }
    log::warn!(target: "STORAGE", id = 7_703_001, error = what;
        "The journal is damaged; the readable records after the damage are used");
    Ok((last, Some(what)))
}

struct State<'t> {
    applied: u64,
    /// The newest commit replayed.
    last: u64,
    /// Every commit up to this stamp was replayed.
    whole: u64,
    /// The newest durable stamp stored in any record.
    synced: u64,
    /// The end of the previous segment.
    end: Option<(PathBuf, u64)>,
    /// The first place where something is missing.
    gap: Option<(PathBuf, u64)>,
    salvage: bool,
    take: Take<'t>,
}

impl State<'_> {
    fn found_gap(&mut self, path: &Path, offset: u64) {
        self.gap.get_or_insert_with(|| (path.to_owned(), offset));
    }

    fn read(&mut self, mut reader: Reader) -> Result<()> {
        if reader.head().first_stamp > self.last + 1 {
            let (path, offset) = self.end.take().unwrap_or((reader.path().to_owned(), 0));
            self.found_gap(&path, offset);
        }
        // The end of the segment's records, or the position of a damaged one; a later segment may show which.
        let mut end = None;
        loop {
            let position = reader.position();
            let Found::Record(head) = reader.next()? else {
                end.get_or_insert(position);
                match reader.skip()? {
                    true => {
                        self.found_gap(reader.path(), position);
                        continue;
                    }
                    false => break,
                }
            };
            self.synced = self.synced.max(head.synced);
            if head.last <= self.last {
                continue;
            }
            if head.first > self.last + 1 {
                self.found_gap(reader.path(), position);
            }
            if self.gap.is_some() && !self.salvage {
                continue;
            }
            if head.last > self.applied {
                (self.take)((head.first, head.last), &mut reader.changes())?;
                self.last = head.last;
            }
            if self.gap.is_none() {
                self.whole = self.last;
            }
        }
        self.end = end.map(|end| (reader.path().to_owned(), end));
        Ok(())
    }
}
