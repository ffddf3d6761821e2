//! Encryption at rest: the master key from its place, and the keys of the data directory from the master key.
//!
//! ```text
//!   options --> source.rs: file, environment, credential --\
//!           \-> kmip/: a server that has keys ---------------> master key --> keys of the directory --> engine
//! ```
//!
//! The environment is read before the first thread starts, everything else once the data directory is locked.

mod kmip;
mod raw;
mod source;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use nagi_encryption::{Keys, KeysError, MasterKey};
use nagi_host::EngineKind;
use zeroize::Zeroizing;

use crate::failure::{Failure, exit, not_opened};
use crate::options::{KeyPlace, KeySource, KmipOptions, Options, not_with};
pub(crate) use source::take_variables;

/// The environment variable with the key, for commands that take no options of a server.
pub(crate) const VARIABLE: &str = "NAGI_ENCRYPTION_KEY";

/// Opens the keys of the data directory, which this process has locked; `None` without encryption.
///
/// # Errors
/// If the master key cannot be read, or is not that of the directory, or the directory's data is not encrypted.
pub(crate) fn open(options: &Options) -> Result<Option<Arc<Keys>>, Failure> {
    let folder = Path::new(&options.db_path);
    let Some(chosen) = &options.encryption else { return Ok(None) };
    if options.engine != EngineKind::Embedded {
        return Err(not_opened(not_with(options.engine), exit::DATA_FOLDER));
    }
    let fresh = nagi_kv_disk::marker::engine_of(folder)
        .map_err(|error| not_opened(error.to_string(), exit::DATA_FOLDER))?
        .is_none();
    if !has_keys(folder) {
        // Before a key is read: it would not help. Also without a marker, because new keys would read nothing.
        if nagi_host::has_encrypted_files(folder) {
            return Err(refused(&lost(folder)));
        }
        if !fresh {
            return Err(refused(&KeysError::NotEncrypted(folder.to_owned())));
        }
    }
    let keys = match (&chosen.from, &chosen.old) {
        (KeySource::Kmip(kmip), None) if kmip.rotates => rotate(folder, kmip)?,
        (from, Some(old)) if !fresh => change(folder, from, old)?,
        (from, _) => {
            let master = master(from, folder, false)?;
            Keys::open(folder, &master, fresh).map_err(|error| refused(&error))?
        }
    };
    log::info!(target: "STORAGE", id = 8_200_200, keyId = keys.master_key_id(),
        kmipKeyId = keys.master_key_name(), generation = keys.generation();
        "The data files are encrypted");
    Ok(Some(Arc::new(keys)))
}

/// True if the start only changes the master key, as mongod's does.
pub(crate) fn ends_after_rotation(options: &Options) -> bool {
    let from = options.encryption.as_ref().map(|encryption| &encryption.from);
    matches!(from, Some(KeySource::Kmip(kmip)) if kmip.rotates)
}

/// The value of [`VARIABLE`] in a process that is no server.
static TAKEN: OnceLock<Zeroizing<String>> = OnceLock::new();

/// Takes the key and, under the given name, a password out of the environment of a command that is no server, whether
/// it needs them or not: `/proc/PID/environ` shows them as long as the command runs. Called while the process has one
/// thread. Returns the password.
pub(crate) fn take_for_command(password: &str) -> Option<Zeroizing<Vec<u8>>> {
    if let Some(key) = raw::take_variable(VARIABLE) {
        // Set once: there is one command.
        let _ = TAKEN.set(key);
    }
    raw::take_bytes(password)
}

/// The master keys for a command that is no server: from files, separated by commas, or from the environment. Empty if
/// there is neither.
///
/// # Errors
/// A text for the user.
pub(crate) fn for_command(key_files: Option<&str>) -> Result<Vec<MasterKey>, String> {
    let read = |mut place: KeyPlace| {
        source::take(&mut place)?;
        source::read(&place)
    };
    match key_files {
        Some(files) => files.split(',').map(|file| read(KeyPlace::File(file.into()))).collect(),
        None => match TAKEN.get() {
            Some(key) => Ok(vec![read(KeyPlace::Taken(VARIABLE.to_owned(), key.clone()))?]),
            None => Ok(Vec::new()),
        },
    }
}

/// The keys of a data directory for a command that is no server; `None` if the directory is not encrypted.
///
/// # Errors
/// A text for the user.
pub(crate) fn of_folder(folder: &Path, masters: &[MasterKey]) -> Result<Option<Arc<Keys>>, String> {
    let text = |error: KeysError| error.to_string();
    let Some(summary) = nagi_encryption::summary(folder).map_err(text)? else {
        return match nagi_host::has_encrypted_files(folder) {
            true => Err(lost(folder).to_string()),
            false => Ok(None),
        };
    };
    let fitting = masters.iter().find(|master| master.id() == summary.master_key_id);
    let Some(master) = fitting.or(masters.first()) else {
        return Err(format!(
            "{}: the data files are encrypted: --encryptionKeyFile FILE, or {VARIABLE} in the environment, must have \
             the master key {}",
            folder.display(),
            summary.master_key_id
        ));
    };
    Keys::open(folder, master, false).map(|keys| Some(Arc::new(keys))).map_err(text)
}

/// The error of an encrypted directory without its keys.
fn lost(folder: &Path) -> KeysError {
    KeysError::Lost(folder.join(nagi_encryption::FILE_NAME))
}

/// True if the directory has a file of keys, whatever is in it.
pub(crate) fn has_keys(folder: &Path) -> bool {
    folder.join(nagi_encryption::FILE_NAME).symlink_metadata().is_ok()
}

/// The configured master key. `replaces`: it may be a new one, because the one until now is known, too.
fn master(from: &KeySource, folder: &Path, replaces: bool) -> Result<MasterKey, Failure> {
    let kmip = match from {
        KeySource::Place(place) => return source::read(place).map_err(unreadable),
        KeySource::Kmip(kmip) => kmip,
    };
    let named = named(folder)?;
    match kmip.key_id.as_deref().or(named.as_deref()) {
        Some(id) => kmip::get(kmip, id).map_err(unreadable),
        None if replaces || !has_keys(folder) => kmip::create(kmip).map_err(unreadable),
        None => Err(unreadable(
            "the keys of the data directory are wrapped with the key of a file: name it with \
             security.encryptionKeyFile, or with security.encryptionOldKeyFile to replace it"
                .to_owned(),
        )),
    }
}

/// Wraps the keys with the configured master key instead of `old`, unless an earlier start has done so.
fn change(folder: &Path, from: &KeySource, old: &KeyPlace) -> Result<Keys, Failure> {
    let text = |error: KeysError| refused(&error);
    let new = master(from, folder, true)?;
    let now = nagi_encryption::summary(folder).map_err(text)?.map(|summary| summary.master_key_id);
    if now == Some(new.id()) {
        return Keys::open(folder, &new, false).map_err(text);
    }
    let old = source::read(old).map_err(unreadable)?;
    let keys = Keys::change_master(folder, &old, &new).map_err(text)?;
    log::info!(target: "STORAGE", id = 8_200_201, keyId = keys.master_key_id(), before = old.id();
        "The keys of the data directory are wrapped with the new master key");
    Ok(keys)
}

/// Wraps the keys with a new master key of the KMIP server.
fn rotate(folder: &Path, kmip: &KmipOptions) -> Result<Keys, Failure> {
    let Some(before) = named(folder)? else {
        return Err(unreadable(
            "security.kmip.rotateMasterKey: the data directory has no master key of a KMIP server"
                .to_owned(),
        ));
    };
    let old = kmip::get(kmip, &before).map_err(unreadable)?;
    // Refused before a key is made that nothing would use.
    Keys::open(folder, &old, false).map_err(|error| refused(&error))?;
    let new = match &kmip.key_id {
        Some(id) => kmip::get(kmip, id),
        None => kmip::create(kmip),
    };
    let new = new.map_err(unreadable)?;
    let keys = Keys::change_master(folder, &old, &new).map_err(|error| refused(&error))?;
    log::info!(target: "STORAGE", id = 8_200_202, kmipKeyId = new.name(), before = before.as_str();
        "The master key was rotated; the server ends as it was told");
    Ok(keys)
}

/// What the KMIP server calls the master key of a directory.
fn named(folder: &Path) -> Result<Option<String>, Failure> {
    let summary = nagi_encryption::summary(folder).map_err(|error| refused(&error))?;
    Ok(summary.map(|summary| summary.master_key_name).filter(|name| !name.is_empty()))
}

/// A master key that cannot be had.
fn unreadable(error: String) -> Failure {
    Failure {
        code: exit::FAILURE,
        id: 8_200_203,
        message: "Unable to acquire the encryption key",
        error,
    }
}

/// Keys that cannot be used.
fn refused(error: &KeysError) -> Failure {
    let code = if error.is_damage() { exit::UNRECOVERABLE } else { exit::DATA_FOLDER };
    not_opened(error.to_string(), code)
}
