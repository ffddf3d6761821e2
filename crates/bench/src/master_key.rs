//! The master key of servers with encryption at rest.
use crate::args::{Outcome, failed};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Any 32 bytes, in base64 as `--encryptionKeyFile` wants them.
const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n";

/// Writes the key to a file, which must not be in the data directory, and returns the options of the server.
pub(crate) fn options(file: &Path) -> Outcome<Vec<String>> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(failed("creating the folder of the master key"))?;
    }
    fs::write(file, KEY).map_err(failed("writing the master key"))?;
    let only_owner = fs::Permissions::from_mode(0o600);
    fs::set_permissions(file, only_owner).map_err(failed("the master key's permissions"))?;
    let file = file.to_string_lossy().into_owned();
    Ok(vec!["--enableEncryption".to_owned(), "--encryptionKeyFile".to_owned(), file])
}
