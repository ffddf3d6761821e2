//! LMDB behind safe types.
//!
//!   ffi.rs    environment, read and write transactions
//!   raw.rs    a cursor in both directions
//!   pages.rs  reads the file's pages without LMDB, for a repair
//!   tree.rs   keys of any length on top of LMDB keys of at most 511 bytes; checksums of entries
//!   fault/    ends the process in order when a mapped file cannot be read
//!
//! There are two environments. `data.mdb` is synced with every write transaction, so at any moment, also after a
//! power cut, it is a consistent snapshot of the past. `spill.mdb` holds scratch data and is created anew at each
//! open.

mod fault;
mod ffi;
mod pages;
mod raw;
mod tree;

pub(crate) use ffi::{Env, ReadTxn, Stat, WriteTxn};
use pages::Pages;
pub(crate) use raw::RawCursor;
pub(crate) use tree::{TreeCursor, delete, get, put};

use std::{ffi::CStr, path::Path, sync::Arc};

use nagi_kv::{Error, Result, Space};

/// A database within an environment. The numbers are the same in both environments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Db {
    Space(Space),
    /// The rest of keys that do not fit into a key of LMDB; see `tree.rs`.
    Long,
    /// Format, applied stamp, next node number.
    Meta,
    /// Bytes by space and ident.
    Sizes,
}

impl Db {
    fn by_name(name: &[u8]) -> Option<Db> {
        let spaces = Space::CORE.into_iter().map(Db::Space);
        let mut all = spaces.chain([Db::Long, Db::Meta, Db::Sizes]);
        all.find(|db| NAMES[db.index()].to_bytes() == name)
    }

    fn index(self) -> usize {
        match self {
            Db::Space(space) => space.table() as usize,
            Db::Long => Space::CORE.len(),
            Db::Meta => Space::CORE.len() + 1,
            Db::Sizes => Space::CORE.len() + 2,
        }
    }
}

const NAMES: [&CStr; 9] = [
    c"catalog",
    c"records",
    c"index",
    c"changes",
    c"counters",
    c"spill",
    c"long",
    c"meta",
    c"sizes",
];

/// Version of the file format; checked at open.
const FORMAT: u64 = 1;
/// The key limit with which LMDB was compiled.
const KEY_BYTES_MAX: usize = 511;
const FORMAT_KEY: &[u8] = b"format";
const APPLIED_KEY: &[u8] = b"applied";

/// One snapshot of both environments.
pub(crate) struct Base {
    pub(crate) data: Arc<ReadTxn>,
    pub(crate) spill: Arc<ReadTxn>,
}

impl Base {
    pub(crate) fn of(&self, space: Space) -> &Arc<ReadTxn> {
        match space {
            Space::Spill => &self.spill,
            _ => &self.data,
        }
    }
}

/// Opens `data.mdb` and checks its format. Returns the stamp up to which it contains every commit.
pub(crate) fn open_data(files: &Path, map_bytes: u64) -> Result<(Arc<Env>, u64)> {
    let env = Env::open(&files.join("data.mdb"), map_bytes, true)?;
    let mut txn = env.write()?;
    match number(txn.get(Db::Meta, FORMAT_KEY)?) {
        Some(FORMAT) => {}
        None if txn.is_empty(Db::Space(Space::Catalog))? => {
            txn.put(Db::Meta, FORMAT_KEY, &FORMAT.to_le_bytes())?;
        }
        other => {
            return Err(Error::Corrupt(format!(
                "{} has format {}, this version reads {FORMAT}",
                files.join("data.mdb").display(),
                other.map_or("unknown".to_owned(), |format| format.to_string())
            )));
        }
    }
    let applied = number(txn.get(Db::Meta, APPLIED_KEY)?).unwrap_or(0);
    txn.commit()?;
    Ok((env, applied))
}

/// Checks that the root page of each tree is in `data.mdb`. Returns the damage found.
///
/// # Errors
/// `Corrupt` if not even the list of trees can be read.
pub(crate) fn check_roots(path: &Path) -> Result<Vec<String>> {
    let mut pages = Pages::open(path)?;
    pages.check_roots()?;
    Ok(pages.findings)
}

/// Walks all trees of `data.mdb` without LMDB, which no process may have open. Returns the inconsistencies found.
///
/// # Errors
/// The same as for [`check_roots`].
pub(crate) fn check_pages(path: &Path) -> Result<Vec<String>> {
    let mut pages = Pages::open(path)?;
    for (_, tree) in pages.trees()? {
        pages.entries(tree, &mut |_, _| Ok(()))?;
    }
    pages.check_free()?;
    Ok(pages.findings)
}

/// Creates a new file from the readable entries of a broken one. Entries are copied as they are stored; their
/// checksums are checked when they are read.
///
/// # Errors
/// `Corrupt` if the file does not contain the stamp up to which it has the commits.
pub(crate) fn copy_pages(from: &Path, to: &Path, map_bytes: u64) -> Result<()> {
    let env = Env::open(to, map_bytes, true)?;
    let mut pages = Pages::open(from)?;
    for (name, tree) in pages.trees()? {
        let Some(db) = Db::by_name(&name) else { continue };
        let mut txn = env.write()?;
        pages.entries(tree, &mut |key, value| match key.len() {
            // Keys that LMDB accepts.
            1..=KEY_BYTES_MAX => txn.put(db, key, value),
            _ => Ok(()),
        })?;
        txn.commit()?;
    }
    let txn = env.read()?;
    let known = |key| Ok::<_, Error>(number(txn.get(Db::Meta, key)?));
    if known(FORMAT_KEY)? != Some(FORMAT) || known(APPLIED_KEY)?.is_none() {
        return Err(Error::Corrupt(format!(
            "{}: the page that states which commits the file contains cannot be read",
            from.display()
        )));
    }
    Ok(())
}

/// Creates an empty `spill.mdb`.
pub(crate) fn open_spill(files: &Path, map_bytes: u64) -> Result<Arc<Env>> {
    for name in ["spill.mdb", "spill.mdb-lock"] {
        match std::fs::remove_file(files.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Env::open(&files.join("spill.mdb"), map_bytes, false)
}

/// Stores that the environment contains every commit up to `stamp`, once the write transaction is committed.
pub(crate) fn set_applied(txn: &mut WriteTxn, stamp: u64) -> Result<()> {
    txn.put(Db::Meta, APPLIED_KEY, &stamp.to_le_bytes())
}

fn number(value: Option<&[u8]>) -> Option<u64> {
    Some(u64::from_le_bytes(value?.try_into().ok()?))
}
