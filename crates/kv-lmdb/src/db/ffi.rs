//! Environments and transactions over LMDB's C interface.
//!
//! A read transaction is shared by threads. LMDB does not bind it to a thread (`MDB_NOTLS`), and reading modifies
//! it only once for each database, when the database's root is looked up. `Env::read` does that before any other
//! thread has the transaction. After that, gets and cursors only read it.
#![expect(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_int, c_uint},
    mem::MaybeUninit,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::Arc,
};

use lmdb_master_sys as ffi;
use nagi_kv::{Error, Result};

use super::{Db, NAMES, fault::Watched};

/// Limit of read transactions at once. Each published view has one, and a view lives as long as a reader uses it.
const READERS_MAX: c_uint = 4096;
const MAP_BYTES_MIN: u64 = 1 << 30;

/// Converts an error code of LMDB or of the system to an error.
pub(super) fn checked(code: c_int) -> Result<()> {
    if code == ffi::MDB_SUCCESS {
        return Ok(());
    }
    // SAFETY: LMDB returns a string that lives as long as the process.
    let text = unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) }.to_string_lossy();
    Err(match code {
        ffi::MDB_MAP_FULL => Error::Full,
        ffi::MDB_CORRUPTED | ffi::MDB_PAGE_NOTFOUND | ffi::MDB_INVALID | ffi::MDB_PANIC => {
            Error::Corrupt(text.into_owned())
        }
        code if code > 0 => std::io::Error::from_raw_os_error(code).into(),
        _ => Error::other(text),
    })
}

pub(super) fn value(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

/// The bytes that LMDB lends. They are valid until the transaction finishes (a read transaction) or writes again.
///
/// # Safety
/// `value` was filled by LMDB, and `'a` is within that time.
pub(super) unsafe fn bytes<'a>(value: &ffi::MDB_val) -> &'a [u8] {
    if value.mv_size == 0 {
        return &[];
    }
    // SAFETY: LMDB gave address and length of memory it keeps for that time.
    unsafe { std::slice::from_raw_parts(value.mv_data.cast(), value.mv_size) }
}

/// An environment of LMDB: one file with several databases.
pub(crate) struct Env {
    env: *mut ffi::MDB_env,
    dbs: [ffi::MDB_dbi; NAMES.len()],
    name: String,
    /// Dropped before the environment is unmapped.
    watched: Option<Watched>,
}

// SAFETY: LMDB locks what threads share of an environment.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

/// Sizes of an environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    pub(crate) map_bytes: u64,
    /// Bytes up to the last page in use.
    pub(crate) used_bytes: u64,
}

/// Sizes of a database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Env {
    /// Opens or creates the file `path`. If `synced`, each write transaction is durable when it is committed. If
    /// the system refuses that much address space, less is requested.
    pub(crate) fn open(path: &Path, map_bytes: u64, synced: bool) -> Result<Arc<Env>> {
        let mut map_bytes = map_bytes.max(MAP_BYTES_MIN);
        loop {
            match Env::open_with(path, map_bytes, synced) {
                Err(Error::Io(error))
                    if error.raw_os_error() == Some(libc::ENOMEM) && map_bytes > MAP_BYTES_MIN =>
                {
                    map_bytes = (map_bytes / 2).max(MAP_BYTES_MIN);
                }
                Err(Error::Corrupt(what)) => {
                    return Err(Error::Corrupt(format!("{}: {what}", path.display())));
                }
                result => return result,
            }
        }
    }

    fn open_with(path: &Path, map_bytes: u64, synced: bool) -> Result<Arc<Env>> {
        let file = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| Error::other("the path has a zero byte"))?;
        let mut flags = ffi::MDB_NOSUBDIR | ffi::MDB_NOTLS | ffi::MDB_NORDAHEAD;
        if !synced {
            flags |= ffi::MDB_NOSYNC;
        }
        let mut env = Env {
            env: ptr::null_mut(),
            dbs: [0; NAMES.len()],
            name: path.display().to_string(),
            watched: None,
        };
        // SAFETY: `mdb_env_create` fills the handle, which `Drop` closes whatever comes after; the
        // calls before `mdb_env_open` are those that must come before it.
        unsafe {
            checked(ffi::mdb_env_create(&raw mut env.env))?;
            checked(ffi::mdb_env_set_mapsize(env.env, map_bytes as usize))?;
            checked(ffi::mdb_env_set_maxdbs(env.env, NAMES.len() as ffi::MDB_dbi))?;
            checked(ffi::mdb_env_set_maxreaders(env.env, READERS_MAX))?;
            checked(ffi::mdb_env_open(env.env, file.as_ptr(), flags, 0o644))?;
            let mut txn = ptr::null_mut();
            checked(ffi::mdb_txn_begin(env.env, ptr::null_mut(), 0, &raw mut txn))?;
            for (name, db) in NAMES.iter().zip(&mut env.dbs) {
                let opened = ffi::mdb_dbi_open(txn, name.as_ptr(), ffi::MDB_CREATE, db);
                if let Err(error) = checked(opened) {
                    ffi::mdb_txn_abort(txn);
                    return Err(error);
                }
            }
            checked(ffi::mdb_txn_commit(txn))?;
        }
        env.watched = Some(Watched::new(path));
        Ok(Arc::new(env))
    }

    pub(super) fn db(&self, db: Db) -> ffi::MDB_dbi {
        self.dbs[db.index()]
    }

    /// The file's path.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Begins a read transaction on the newest committed snapshot.
    pub(crate) fn read(self: &Arc<Env>) -> Result<ReadTxn> {
        let mut txn = ptr::null_mut();
        // SAFETY: the environment is open; the handle is filled on success.
        unsafe {
            checked(ffi::mdb_txn_begin(self.env, ptr::null_mut(), ffi::MDB_RDONLY, &raw mut txn))?;
        }
        let txn = ReadTxn { txn, env: Arc::clone(self) };
        // Looks up every root, so that later reads do not modify the transaction.
        for index in 0..NAMES.len() {
            txn.stat_of(index)?;
        }
        Ok(txn)
    }

    /// Begins the one write transaction; waits until another thread's has finished.
    pub(crate) fn write(self: &Arc<Env>) -> Result<WriteTxn> {
        let mut txn = ptr::null_mut();
        // SAFETY: the environment is open; the handle is filled on success.
        unsafe { checked(ffi::mdb_txn_begin(self.env, ptr::null_mut(), 0, &raw mut txn))? };
        Ok(WriteTxn { txn, env: Arc::clone(self) })
    }

    /// Writes a compacted copy of the newest snapshot, without free pages.
    pub(crate) fn copy(&self, path: &Path) -> Result<()> {
        let file = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| Error::other("the path has a zero byte"))?;
        // SAFETY: the environment is open; the path is zero-terminated.
        checked(unsafe { ffi::mdb_env_copy2(self.env, file.as_ptr(), ffi::MDB_CP_COMPACT) })
    }

    pub(crate) fn info(&self) -> Result<Info> {
        let mut info = MaybeUninit::<ffi::MDB_envinfo>::uninit();
        let mut stat = MaybeUninit::<ffi::MDB_stat>::uninit();
        // SAFETY: both structures are filled by calls that succeeded.
        let (info, stat) = unsafe {
            checked(ffi::mdb_env_info(self.env, info.as_mut_ptr()))?;
            checked(ffi::mdb_env_stat(self.env, stat.as_mut_ptr()))?;
            (info.assume_init(), stat.assume_init())
        };
        Ok(Info {
            map_bytes: info.me_mapsize as u64,
            used_bytes: (info.me_last_pgno as u64 + 1) * u64::from(stat.ms_psize),
        })
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        self.watched = None;
        if !self.env.is_null() {
            // SAFETY: transactions hold a reference to the environment, so none is left.
            unsafe { ffi::mdb_env_close(self.env) };
        }
    }
}

/// A read transaction: one snapshot of an environment.
pub(crate) struct ReadTxn {
    txn: *mut ffi::MDB_txn,
    env: Arc<Env>,
}

// SAFETY: with `MDB_NOTLS` a read transaction belongs to no thread.
unsafe impl Send for ReadTxn {}
// SAFETY: after `Env::read` has looked up every root, gets and cursors only read the transaction; it is aborted
// when the last owner drops it.
unsafe impl Sync for ReadTxn {}

impl ReadTxn {
    pub(super) fn raw(&self) -> *mut ffi::MDB_txn {
        self.txn
    }

    pub(crate) fn env(&self) -> &Arc<Env> {
        &self.env
    }

    pub(crate) fn get(&self, db: Db, key: &[u8]) -> Result<Option<&[u8]>> {
        // SAFETY: the transaction is alive as long as `self`, and so are the bytes it lends.
        unsafe { get(self.txn, self.env.db(db), key) }
    }

    pub(crate) fn stat(&self, db: Db) -> Result<Stat> {
        self.stat_of(db.index())
    }

    fn stat_of(&self, index: usize) -> Result<Stat> {
        let mut stat = MaybeUninit::<ffi::MDB_stat>::uninit();
        // SAFETY: the structure is filled by a call that succeeded.
        let stat = unsafe {
            checked(ffi::mdb_stat(self.txn, self.env.dbs[index], stat.as_mut_ptr()))?;
            stat.assume_init()
        };
        let pages = stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
        Ok(Stat { entries: stat.ms_entries as u64, bytes: pages as u64 * u64::from(stat.ms_psize) })
    }
}

impl Drop for ReadTxn {
    fn drop(&mut self) {
        // SAFETY: no other owner has the transaction.
        unsafe { ffi::mdb_txn_abort(self.txn) };
    }
}

/// A write transaction. If it is dropped without `commit`, its writes are discarded.
pub(crate) struct WriteTxn {
    txn: *mut ffi::MDB_txn,
    env: Arc<Env>,
}

impl WriteTxn {
    pub(crate) fn get(&self, db: Db, key: &[u8]) -> Result<Option<&[u8]>> {
        // SAFETY: the lent bytes live until the next write, which needs `&mut self`.
        unsafe { get(self.txn, self.env.db(db), key) }
    }

    pub(crate) fn put(&mut self, db: Db, key: &[u8], bytes: &[u8]) -> Result<()> {
        let (mut key, mut bytes) = (value(key), value(bytes));
        // SAFETY: LMDB copies both before it returns.
        checked(unsafe { ffi::mdb_put(self.txn, self.env.db(db), &raw mut key, &raw mut bytes, 0) })
    }

    /// Puts a value made of two parts.
    pub(crate) fn put_parts(&mut self, db: Db, key: &[u8], parts: [&[u8]; 2]) -> Result<()> {
        let mut key = value(key);
        let total = parts[0].len() + parts[1].len();
        let mut place = ffi::MDB_val { mv_size: total, mv_data: ptr::null_mut() };
        // SAFETY: with `MDB_RESERVE` LMDB gives `total` bytes to be filled before the next call.
        unsafe {
            let flags = ffi::MDB_RESERVE;
            let dbi = self.env.db(db);
            checked(ffi::mdb_put(self.txn, dbi, &raw mut key, &raw mut place, flags))?;
            let start: *mut u8 = place.mv_data.cast();
            ptr::copy_nonoverlapping(parts[0].as_ptr(), start, parts[0].len());
            ptr::copy_nonoverlapping(parts[1].as_ptr(), start.add(parts[0].len()), parts[1].len());
        }
        Ok(())
    }

    /// Removes a key. Returns true if it existed.
    pub(crate) fn delete(&mut self, db: Db, key: &[u8]) -> Result<bool> {
        let mut key = value(key);
        // SAFETY: the transaction is alive.
        let code =
            unsafe { ffi::mdb_del(self.txn, self.env.db(db), &raw mut key, ptr::null_mut()) };
        match code {
            ffi::MDB_NOTFOUND => Ok(false),
            code => checked(code).map(|()| true),
        }
    }

    /// Returns true if the database has a key that begins with `prefix`.
    pub(crate) fn has_prefix(&self, db: Db, prefix: &[u8]) -> Result<bool> {
        let (mut key, mut found) = (value(prefix), value(&[]));
        let mut cursor = ptr::null_mut();
        // SAFETY: the cursor is closed before anything else uses the transaction; the key is copied
        // out of LMDB's memory before that.
        unsafe {
            checked(ffi::mdb_cursor_open(self.txn, self.env.db(db), &raw mut cursor))?;
            let op = if prefix.is_empty() { ffi::MDB_FIRST } else { ffi::MDB_SET_RANGE };
            let code = ffi::mdb_cursor_get(cursor, &raw mut key, &raw mut found, op);
            let has = code == ffi::MDB_SUCCESS && bytes(&key).starts_with(prefix);
            ffi::mdb_cursor_close(cursor);
            match code {
                ffi::MDB_NOTFOUND => Ok(false),
                code => checked(code).map(|()| has),
            }
        }
    }

    pub(crate) fn is_empty(&self, db: Db) -> Result<bool> {
        Ok(!self.has_prefix(db, &[])?)
    }

    /// Makes the writes visible, and durable if the environment is synced.
    pub(crate) fn commit(mut self) -> Result<()> {
        let txn = std::mem::replace(&mut self.txn, ptr::null_mut());
        // SAFETY: LMDB frees the transaction whatever the result.
        checked(unsafe { ffi::mdb_txn_commit(txn) })
    }
}

impl Drop for WriteTxn {
    fn drop(&mut self) {
        if !self.txn.is_null() {
            // SAFETY: the transaction was not committed.
            unsafe { ffi::mdb_txn_abort(self.txn) };
        }
    }
}

/// # Safety
/// The transaction is alive for `'t`, and does not write within it.
unsafe fn get<'t>(
    txn: *mut ffi::MDB_txn,
    db: ffi::MDB_dbi,
    key: &[u8],
) -> Result<Option<&'t [u8]>> {
    let (mut key, mut found) = (value(key), value(&[]));
    // SAFETY: as the caller promised.
    unsafe {
        match ffi::mdb_get(txn, db, &raw mut key, &raw mut found) {
            ffi::MDB_NOTFOUND => Ok(None),
            code => checked(code).map(|()| Some(bytes(&found))),
        }
    }
}
