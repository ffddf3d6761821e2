//! The master key as text: in a file, in the environment, or in a credential of systemd.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nagi_encryption::MasterKey;
use zeroize::Zeroizing;

use super::raw;
use crate::options::{KeyPlace, KeySource, Options};
use crate::paths::{self, too_open};

/// A key has at most 44 characters.
const FILE_BYTES_MAX: u64 = 1024;

/// Takes the keys that are in environment variables, and removes these. Called while the process has one thread.
///
/// # Errors
/// If a variable is not set.
pub(crate) fn take_variables(options: &mut Options) -> Result<(), String> {
    let Some(chosen) = &mut options.encryption else { return Ok(()) };
    let from = match &mut chosen.from {
        KeySource::Place(place) => Some(place),
        KeySource::Kmip(_) => None,
    };
    let taken = from.into_iter().chain(&mut chosen.old).try_for_each(take);
    taken.map_err(|error| format!("Unable to acquire the encryption key: {error}"))
}

/// The same for one place.
pub(super) fn take(place: &mut KeyPlace) -> Result<(), String> {
    let KeyPlace::Variable(name) = place else { return Ok(()) };
    let text = raw::take_variable(name).ok_or_else(|| {
        format!("the environment variable {name}, which has the encryption key, is not set")
    })?;
    *place = KeyPlace::Taken(std::mem::take(name), text);
    Ok(())
}

/// The key of a place.
///
/// # Errors
/// A text that names the place, and nothing of the key.
pub(super) fn read(place: &KeyPlace) -> Result<MasterKey, String> {
    let text = match place {
        KeyPlace::File(path) => file(path, 0o077)?,
        KeyPlace::Credential(name) => file(&credential(name)?, 0o007)?,
        KeyPlace::Taken(_, text) => text.clone(),
        KeyPlace::Variable(name) => {
            return Err(format!("the environment variable {name} was not read"));
        }
    };
    MasterKey::from_base64(&text).map_err(|error| format!("{place:?}: {error}"))
}

fn credential(name: &str) -> Result<PathBuf, String> {
    match std::env::var_os("CREDENTIALS_DIRECTORY") {
        Some(folder) => Ok(Path::new(&folder).join(name)),
        None => Err(format!(
            "credential:{name}: systemd has passed no credentials (LoadCredentialEncrypted={name}:FILE in the unit)"
        )),
    }
}

/// The text of a file. `open_to`: the bits of its mode that must not be set. Systemd lets the group read credentials.
fn file(path: &Path, open_to: u32) -> Result<Zeroizing<String>, String> {
    let shown = path.display();
    let unreadable =
        |error| format!("error opening encryption key file: {}", paths::explained(path, &error));
    // A pipe would wait for a writer.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(unreadable)?;
    // Of the open file, so that it is the one that is read.
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() || about.len() > FILE_BYTES_MAX {
        return Err(format!("{shown} is not an encryption key file"));
    }
    if about.mode() & open_to != 0 {
        return Err(too_open(path, about.mode()));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize));
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = str::from_utf8(&bytes).map_err(|_| {
        format!(
            "{shown}: the encryption key is not a base64 string but other bytes (openssl rand -base64 32 makes one)"
        )
    })?;
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n";

    #[test]
    fn key_files_are_checked() {
        let path = std::env::temp_dir().join(format!("nagi-encryption-key-{}", std::process::id()));
        let read_text = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read(&KeyPlace::File(path.clone())).map(|key| key.id())
        };
        let id = read_text(KEY, 0o600).unwrap();
        assert_eq!(read_text(KEY.trim(), 0o400), Ok(id.clone()));
        assert_eq!(
            read(&KeyPlace::Taken("K".into(), Zeroizing::new(KEY.into()))).unwrap().id(),
            id
        );
        for (text, mode, says) in [
            (KEY, 0o640, "too open"),
            ("", 0o600, "has 0 bytes, must be between 16 and 32"),
            ("AAAA", 0o600, "has 3 bytes"),
            ("not base64!", 0o600, "not a base64 string"),
            ("0\u{fffd}1", 0o600, "not a base64 string"),
            (&"A".repeat(2000), 0o600, "not an encryption key file"),
        ] {
            let error = read_text(text, mode).unwrap_err();
            assert!(error.contains(says) && error.contains(path.to_str().unwrap()), "{error}");
        }
        let open = read_text(KEY, 0o644).unwrap_err();
        assert!(open.contains("has mode 644") && open.contains("chmod 600"), "{open}");
        // Raw bytes, as `openssl rand 32` makes them.
        fs::write(&path, [0xff; 32]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let raw = read(&KeyPlace::File(path.clone())).unwrap_err();
        assert!(raw.contains("not a base64 string"), "{raw}");
        fs::remove_file(&path).unwrap();
        // Without a writer a pipe would block.
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let pipe = read(&KeyPlace::File(path.clone())).unwrap_err();
        assert!(pipe.contains("not an encryption key file"), "{pipe}");
        fs::remove_file(&path).unwrap();
        let gone = read(&KeyPlace::File(path.clone())).unwrap_err();
        assert!(gone.contains("error opening encryption key file"), "{gone}");
    }
}
