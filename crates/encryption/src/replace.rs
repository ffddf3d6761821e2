//! Replaces a file such that a crash at any moment leaves the old content or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What is done, in order; a test stops before each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    Write,
    Sync,
    Rename,
    SyncFolder,
}

/// Writes `bytes` to `folder/name`. The caller holds the lock of the folder: a temporary file that is there was left
/// by a crash. `before` is called before each step; its error ends the work.
pub(crate) fn replace(
    folder: &Path,
    name: &str,
    bytes: &[u8],
    before: &dyn Fn(Step) -> io::Result<()>,
) -> io::Result<()> {
    let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    before(Step::Create)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    before(Step::Write)?;
    file.write_all(bytes)?;
    before(Step::Sync)?;
    file.sync_all()?;
    before(Step::Rename)?;
    fs::rename(&new, &path)?;
    before(Step::SyncFolder)?;
    File::open(folder)?.sync_all()
}
