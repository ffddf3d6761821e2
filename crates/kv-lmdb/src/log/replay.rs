//! Reading the log after a start.
//!
//! Records are read in order of segments and stamps until one is not whole, or a stamp is missing: what
//! follows was never on disk as a whole (a power cut lost a part of the log's tail), unless a later record
//! knows that the missing one had been synced. Then the log is damaged, and that is said instead of
//! losing acknowledged writes quietly.

use std::path::{Path, PathBuf};

use nagi_kv::{Error, Result, Space};

use super::{
    Change, PREFIX, numbered,
    segment::{Found, Reader},
};

/// Calls `take` with the first and last stamp and the changes of each record beyond `applied`. The
/// stamp up to which the store is complete then. `salvage`: a damaged record ends the log, and what is
/// behind it is given up; what that was is the second result.
pub(crate) fn replay(
    dir: &Path,
    applied: u64,
    salvage: bool,
    take: &mut dyn FnMut((u64, u64), &mut dyn Iterator<Item = (Space, Change<'_>)>) -> Result<()>,
) -> Result<(u64, Option<String>)> {
    let mut last = applied;
    let mut gap: Option<(PathBuf, u64)> = None;
    let mut synced = 0;
    for (number, path) in numbered(dir, PREFIX)? {
        let Some(mut reader) = Reader::open(&path, number)? else {
            gap.get_or_insert((path, 0));
            continue;
        };
        if reader.head().first_stamp > last + 1 {
            gap.get_or_insert((path, 0));
        }
        loop {
            let position = reader.position();
            let Found::Record(head) = reader.next()? else { break };
            if head.last <= applied {
                continue;
            }
            synced = synced.max(head.synced);
            if gap.is_some() || head.first > last + 1 {
                gap.get_or_insert((reader.path().to_owned(), position));
                continue;
            }
            take((head.first, head.last), &mut reader.changes())?;
            last = last.max(head.last);
        }
        synced = synced.max(reader.synced_behind()?);
        if gap.is_none() && synced > last {
            gap = Some((reader.path().to_owned(), reader.position()));
        }
    }
    let Some((path, offset)) = gap.filter(|_| synced > last) else { return Ok((last, None)) };
    let what = format!(
        "{} is damaged at offset {offset}: commits {} to {synced} had been written to disk and cannot \
         be read",
        path.display(),
        last + 1
    );
    if !salvage {
        return Err(Error::Corrupt(what));
    }
    log::warn!(target: "STORAGE", id = 7_703_001, error = what;
        "The journal is damaged, later commits are given up");
    Ok((last, Some(what)))
}
