//! LMDB behind safe types.
//!
//!   ffi.rs    environment, read and write transactions
//!   raw.rs    a cursor in both directions
//!   tree.rs   keys of any length above keys of 511 bytes; checksums of entries
//!
//! Two environments: `data.mdb` is synced with every write transaction, so it is a whole state of the
//! past at any moment, also after a power cut. `spill.mdb` holds scratch and is made anew at each open.

mod ffi;
mod raw;
mod tree;

pub(crate) use ffi::{Env, ReadTxn, Stat, WriteTxn};
pub(crate) use raw::RawCursor;
pub(crate) use tree::{TreeCursor, delete, get, put};

use std::{ffi::CStr, path::Path, sync::Arc};

use nagi_kv::{Error, Result, Space};

/// A database within an environment; the same numbers in both environments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Db {
    Space(Space),
    /// What does not fit into a key of LMDB; see `tree.rs`.
    Long,
    /// Format, applied stamp, next node.
    Meta,
    /// Bytes by space and ident.
    Sizes,
}

impl Db {
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

/// Version of what the files hold; checked at open.
const FORMAT: u64 = 1;
const FORMAT_KEY: &[u8] = b"format";
const APPLIED_KEY: &[u8] = b"applied";

/// The newest state of both environments at some moment.
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

/// Opens `data.mdb` and checks its format; the stamp up to which it has every commit.
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

/// Opens an empty `spill.mdb`.
pub(crate) fn open_spill(files: &Path, map_bytes: u64) -> Result<Arc<Env>> {
    for name in ["spill.mdb", "spill.mdb-lock"] {
        match std::fs::remove_file(files.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Env::open(&files.join("spill.mdb"), map_bytes, false)
}

/// Notes in a write transaction that the environment has every commit up to `stamp` with it.
pub(crate) fn set_applied(txn: &mut WriteTxn, stamp: u64) -> Result<()> {
    txn.put(Db::Meta, APPLIED_KEY, &stamp.to_le_bytes())
}

fn number(value: Option<&[u8]>) -> Option<u64> {
    Some(u64::from_le_bytes(value?.try_into().ok()?))
}
