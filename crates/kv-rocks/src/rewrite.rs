//! Long operations on table files with progress and cancellation: rewriting a range, verifying everything.
//!
//! RocksDB's calls return only when they are done. So they run on a thread of their own, while the caller's thread
//! calls the watcher every few milliseconds; a compaction that is no longer wanted is cancelled.

use std::{
    ffi::OsString,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use nagi_kv::{Error, KeyRange, Result, Watch};

use crate::{capacity::TRASH_SUFFIX, db::Db, layout};

const LOOK_EACH: Duration = Duration::from_millis(10);

/// Rewrites the range piece by piece. Returns false if the watcher cancelled it.
///
/// # Errors
/// `Corrupt` if a compaction met damage in the meantime.
pub(crate) fn compact(db: &Arc<Db>, range: &KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
    let pieces = layout::pieces(&db.live_files(), range);
    let total = pieces.iter().map(|piece| piece.byte_count).sum();
    let mut done = 0;
    let failures = db.damaged().failures();
    for piece in pieces {
        if !watch(done, total) {
            return Ok(false);
        }
        let finished = thread::scope(|scope| {
            let (sender, receiver) = channel();
            let work = || {
                let sender = sender;
                db.rewrite(range.space, &piece.start, &piece.last);
                // The receiver waits for this.
                let _ = sender.send(());
            };
            thread::Builder::new().name("compact".to_owned()).spawn_scoped(scope, work)?;
            loop {
                match receiver.recv_timeout(LOOK_EACH) {
                    Err(RecvTimeoutError::Timeout) if watch(done, total) => {}
                    Err(RecvTimeoutError::Timeout) => {
                        db.interrupt_compacting();
                        // Waits until it has stopped, because the suspension must last that long.
                        let _ = receiver.recv();
                        db.allow_compacting();
                        return Ok::<_, Error>(false);
                    }
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(true),
                }
            }
        })?;
        if !finished {
            return Ok(false);
        }
        if db.damaged().failures() != failures {
            return Err(Error::Corrupt(db.damaged().last()));
        }
        done += piece.byte_count;
    }
    Ok(watch(done, total))
}

/// Cancels and suspends compactions. Returns once none is running, no memtable is being written, and the files that are
/// not needed any more are removed; or false if the watcher cancelled the wait.
pub(crate) fn hold(db: &Db, files: &Path, watch: &mut Watch<'_>) -> Result<bool> {
    db.interrupt_compacting();
    let held = db.set_compacts_by_itself(false).and_then(|()| {
        while db.compactions_running() + db.flushes_running() > 0 || has_trash(files)? {
            if !watch(0, 0) {
                return Ok(false);
            }
            thread::sleep(LOOK_EACH);
        }
        Ok(true)
    });
    if !matches!(held, Ok(true)) {
        release(db)?;
    }
    held
}

/// True if RocksDB is still removing files, which it does at a limited rate: whoever copies the folder would miss them
/// in the middle of that.
fn has_trash(files: &Path) -> Result<bool> {
    let is_trash = |name: OsString| name.as_encoded_bytes().ends_with(TRASH_SUFFIX.as_bytes());
    for entry in fs::read_dir(files)? {
        if is_trash(entry?.file_name()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Allows compactions again.
pub(crate) fn release(db: &Db) -> Result<()> {
    db.allow_compacting();
    db.set_compacts_by_itself(true)
}

/// Only one verification runs at a time, because it reads everything.
static VERIFYING: AtomicBool = AtomicBool::new(false);

/// Verifies all files; none if the watcher cancelled the wait. RocksDB cannot cancel it: it then continues in the
/// background, and another one waits until it has finished.
pub(crate) fn verify(db: &Arc<Db>, watch: &mut Watch<'_>) -> Result<Option<Vec<String>>> {
    while VERIFYING.swap(true, Ordering::SeqCst) {
        if !watch(0, 0) {
            return Ok(None);
        }
        thread::sleep(LOOK_EACH);
    }
    let (sender, receiver) = channel();
    let own = Arc::clone(db);
    let work = move || {
        let result = own.verify();
        VERIFYING.store(false, Ordering::SeqCst);
        // The receiver may have stopped waiting.
        let _ = sender.send(result);
    };
    if let Err(error) = thread::Builder::new().name("verify".to_owned()).spawn(work) {
        VERIFYING.store(false, Ordering::SeqCst);
        return Err(error.into());
    }
    loop {
        match receiver.recv_timeout(LOOK_EACH) {
            Ok(result) => return Ok(Some(result?.into_iter().collect())),
            Err(RecvTimeoutError::Timeout) if watch(0, 0) => {}
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::other("the check has died")),
        }
    }
}
