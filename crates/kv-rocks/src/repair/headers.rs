//! Repairs the headers of encrypted files, as far as that is possible: a single wrong bit.
//!
//! A header has a checksum, and the key in it is authenticated, so a header that is valid is the right one. Without it
//! the content of a file cannot be read by anybody.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::Path,
    time::{Duration, Instant},
};

use nagi_encryption::{HEADER_BYTES, Keys};
use nagi_kv::Result;

use crate::{encrypted, found::IDENTITY};

/// The time limit for all headers of a folder. One takes a tenth of a second: if hundreds are wrong, it is no single
/// bit.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Repairs the headers of RocksDB's files in a folder, and describes the repairs. Files may be hard links to originals
/// that must not change, so a file is copied before it is changed.
pub(super) fn repair(work: &Path, keys: &Keys) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let until = Instant::now() + TIME_MAX;
    for entry in fs::read_dir(work)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.file_type()?.is_file() || !is_encrypted(&name) {
            continue;
        }
        let path = entry.path();
        let mut header = Vec::with_capacity(HEADER_BYTES);
        // What the disk cannot read is no single bit.
        let read = File::open(&path)?.take(HEADER_BYTES as u64).read_to_end(&mut header);
        let mended = match Instant::now() < until {
            true => read.ok().and_then(|_| encrypted::mended(&header, keys)),
            false => None,
        };
        if let Some(mended) = mended {
            let copy = work.join("header.copy");
            write_with(&mended, &path, &copy)?;
            fs::rename(&copy, &path)?;
            findings.push(format!("{name} had a wrong bit in its header"));
        } else if name == IDENTITY && keys.open_file(&header).is_err() {
            fs::remove_file(&path)?;
            findings.push(format!("{name} cannot be read, and is made anew"));
        }
    }
    Ok(findings)
}

/// The files that RocksDB needs.
fn is_encrypted(name: &str) -> bool {
    let ends = [".sst", ".blob", ".log"];
    name == "CURRENT"
        || name == IDENTITY
        || name.starts_with("MANIFEST-")
        || ends.iter().any(|end| name.ends_with(end))
}

fn write_with(header: &[u8], path: &Path, copy: &Path) -> Result<()> {
    fs::copy(path, copy)?;
    let mut file = File::options().write(true).open(copy)?;
    file.write_all(header)?;
    Ok(file.sync_all()?)
}
