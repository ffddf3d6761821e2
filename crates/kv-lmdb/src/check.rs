//! Verification and repair: reads every entry of the data file and removes damaged entries.
//!
//! LMDB has no page checksums and trusts its pages, so a repair first walks them without LMDB (`db/pages.rs`). If a
//! page is inconsistent, the repair builds a new file from the entries of the readable pages.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nagi_kv::{Error, Result, Space, Watch};

use crate::{
    Options,
    core::Core,
    db::{self, Db, TreeCursor},
    engine::{ENGINE, JOURNAL, open_files},
};

/// Entries between two interrupt checks.
const LOOK_EACH: u64 = 4096;
/// Damaged entries that are reported one by one.
const FINDINGS_MAX: usize = 1000;

/// Findings and results of a repair.
#[derive(Clone, Debug, Default)]
pub struct Repair {
    /// The damage found, in sentences that name files; empty if there was none.
    pub findings: Vec<String>,
    /// The folder with the files as they were before the repair; none if nothing was damaged.
    pub kept: Option<PathBuf>,
    /// Keys that were removed because their entry was damaged, and the damage of each.
    pub lost: Vec<(Space, Vec<u8>, String)>,
    /// Number of entries after the repair.
    pub entries: u64,
}

type Lost = Vec<(Space, Vec<u8>, String)>;

/// Reads every entry. Returns the damaged ones and the number of sound ones, or none if `watch` cancelled it.
fn damaged(core: &Core, watch: &mut dyn FnMut(u64) -> bool) -> Result<Option<(Lost, u64)>> {
    let view = core.views.load_full();
    let (mut lost, mut count) = (Lost::new(), 0_u64);
    for space in Space::CORE.into_iter().filter(|space| *space != Space::Spill) {
        let mut cursor = TreeCursor::open(view.base.of(space), Db::Space(space), &[], &[])?;
        let mut found = cursor.seek(&[]);
        loop {
            match found {
                Ok(true) => count += 1,
                Ok(false) => break,
                Err(Error::Corrupt(what)) if cursor.key().is_empty() => {
                    return Err(Error::Corrupt(what));
                }
                Err(Error::Corrupt(what)) => lost.push((space, cursor.key().to_vec(), what)),
                Err(error) => return Err(error),
            }
            if (count + lost.len() as u64).is_multiple_of(LOOK_EACH) && !watch(count) {
                return Ok(None);
            }
            found = cursor.next();
        }
    }
    Ok(Some((lost, count)))
}

/// Implements `Engine::verify`.
pub(crate) fn verify(core: &Core, watch: &mut Watch<'_>) -> Result<Option<Vec<String>>> {
    let view = core.views.load_full();
    let mut all = 0;
    for space in Space::CORE {
        all += view.base.of(space).stat(Db::Space(space))?.entries;
    }
    let Some((lost, _)) = damaged(core, &mut |count| watch(count, all))? else { return Ok(None) };
    Ok(Some(lost.into_iter().map(|(_, _, what)| what).take(FINDINGS_MAX).collect()))
}

/// Repairs the data directory `dir`, which no process may have open. A damaged log is read past the damage, and
/// damaged entries are removed. The damaged files are kept in a folder `damaged-<seconds>`.
///
/// # Errors
/// The same as for `open`; `Corrupt` if nothing of the file can be read.
pub fn repair(dir: &Path, options: &Options) -> Result<Repair> {
    let files = dir.join(ENGINE);
    let aside = dir.join(format!("damaged-{}", seconds()));
    keep(&dir.join(JOURNAL), &aside.join(JOURNAL))?;
    let broken = rebuild(&files, &aside, options.map(dir))?;
    let (engine, given_up) = open_files(dir, &Options { salvage: true, ..options.clone() })?;
    let core = &engine.core;
    let Some((lost, entries)) = damaged(core, &mut |_| true)? else {
        unreachable!("no caller cancels it")
    };
    let rebuilt = !broken.is_empty();
    let mut findings = broken;
    findings.extend(given_up);
    findings.extend(lost.iter().take(FINDINGS_MAX).map(|(_, _, what)| what.clone()));
    if findings.is_empty() {
        fs::remove_dir_all(&aside)?;
        return Ok(Repair { entries, ..Repair::default() });
    }
    if !lost.is_empty() && !rebuilt {
        fs::copy(files.join("data.mdb"), aside.join("data.mdb"))?;
        fs::File::open(aside.join("data.mdb"))?.sync_all()?;
    }
    if !lost.is_empty() {
        let _files = core.files.lock();
        for part in lost.chunks(LOOK_EACH as usize) {
            core.delete_all(&mut part.iter().map(|(space, key, _)| (*space, key.as_slice())))?;
        }
    }
    Ok(Repair { findings, kept: Some(aside), lost, entries })
}

/// If the trees of the data file are broken, keeps the file in `aside` and replaces it by a new one made from the
/// readable pages. Returns the damage found.
fn rebuild(files: &Path, aside: &Path, map_bytes: u64) -> Result<Vec<String>> {
    let data = files.join("data.mdb");
    if !data.exists() {
        return Ok(Vec::new());
    }
    let mut broken = db::check_pages(&data)?;
    if broken.is_empty() {
        return Ok(broken);
    }
    broken.push(format!("{} is made anew from the pages that can be read", data.display()));
    fs::copy(&data, aside.join("data.mdb"))?;
    fs::File::open(aside.join("data.mdb"))?.sync_all()?;
    let new = files.join("repair.mdb");
    remove(&new)?;
    db::copy_pages(&data, &new, map_bytes)?;
    fs::rename(&new, &data)?;
    for lock in ["repair.mdb-lock", "data.mdb-lock"] {
        remove(&files.join(lock))?;
    }
    fs::File::open(files)?.sync_all()?;
    Ok(broken)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| time.as_secs())
}

/// Copies the log's segments to `aside`. They are durable on return.
fn keep(journal: &Path, aside: &Path) -> Result<()> {
    fs::create_dir_all(aside)?;
    let entries = match fs::read_dir(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(name) = name.filter(|name| name.starts_with("j._")) {
            fs::copy(&path, aside.join(&name))?;
            fs::File::open(aside.join(&name))?.sync_all()?;
        }
    }
    Ok(fs::File::open(aside)?.sync_all()?)
}
