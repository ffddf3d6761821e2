//! Restores a backup into an empty directory.
//!
//! All files are copied into the subdirectory `nagi.restoring` and verified. Only then are they moved to their final
//! places, the marker `nagi.storage` last. A server refuses to start on a directory that contains `nagi.restoring`.

use std::fs;
use std::path::Path;

use super::copy::{Pace, copy_file, sync_folders};
use super::manifest::Manifest;
use super::{DATA, MARKER, failed, make_empty};

pub(super) const PART: &str = nagi_host::RESTORING;

pub(super) fn restore(from: &Path, folder: &Path, pace: &mut Pace) -> Result<String, String> {
    let manifest = Manifest::read(from)?;
    if !manifest.files.iter().any(|file| file.name == MARKER) {
        return Err(format!("{}: the backup is incomplete: it has no {MARKER}", from.display()));
    }
    make_empty(folder)?;
    let part = folder.join(PART);
    fs::create_dir(&part).map_err(|error| failed(&part, &error))?;
    for file in &manifest.files {
        let source = from.join(DATA).join(&file.name);
        let (bytes, sum) = copy_file(&source, &part.join(&file.name), pace)?;
        if bytes != file.byte_count || sum != file.sha256 {
            return Err(format!(
                "{}: it is damaged: {bytes} bytes with checksum {sum} instead of {} with {}",
                source.display(),
                file.byte_count,
                file.sha256
            ));
        }
    }
    sync_folders(&part)?;
    move_into_place(&part, folder).map_err(|error| failed(folder, &error))?;
    sync_folders(folder)?;
    Ok(format!(
        "restored {} files, {} bytes in {}",
        manifest.files.len(),
        manifest.byte_count(),
        folder.display()
    ))
}

pub(super) fn move_into_place(part: &Path, folder: &Path) -> std::io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(part)? {
        names.push(entry?.file_name());
    }
    names.sort_by_key(|name| name == MARKER);
    for name in names {
        fs::rename(part.join(&name), folder.join(&name))?;
    }
    fs::remove_dir(part)
}
