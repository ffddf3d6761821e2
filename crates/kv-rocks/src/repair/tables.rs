//! Repairs tables that cannot be opened although their data may be intact: extra bytes after the end, or a flipped
//! bit in the metadata.
//!
//! ```text
//!   data blocks | filter | index | properties | list of blocks | footer, ends with a magic number | junk
//! ```
//!
//! A table is read from its end. Extra bytes after it hide the footer, so each occurrence of the magic number is
//! tried as the end, the last one first. Otherwise each bit near the end is tried as the flipped one. Everything
//! read by an open has 32-bit checksums, so a table that opens is correct. The repair works on copies.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use nagi_encryption::Keys;
use nagi_kv::Result;

use crate::{
    db::table_opens,
    encrypted::{Content, Environment},
};

/// The last bytes of a table, `kBlockBasedTableMagicNumber` of RocksDB.
const MAGIC: [u8; 8] = 0x88e2_41b7_85f4_cff7_u64.to_le_bytes();
/// Bytes before the magic number in the smallest footer.
const END_MIN: u64 = 48;
/// Limit of positions that are tried as the end of a table.
const ENDS_MAX: usize = 64;
/// Bytes at the end whose bits are tried, the time limit for a table, and that for all tables of a folder: a wrong bit
/// is a rare damage, and many tables that cannot be opened have another cause.
const TAIL_BYTES: u64 = 64 << 10;
const BITS_TIME_MAX: Duration = Duration::from_secs(20);
const ALL_BITS_TIME_MAX: Duration = Duration::from_secs(60);
const PIECE_BYTES: usize = 1 << 20;

/// Repairs the tables of a folder whose ends are damaged, and describes the repairs. The files are hard links to
/// originals that must not change, so a table is copied before it is changed.
pub(super) fn repair(
    work: &Path,
    keys: Option<&Keys>,
    environment: Option<&Environment>,
) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let until = Instant::now() + ALL_BITS_TIME_MAX;
    for entry in fs::read_dir(work)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_table = name.ends_with(".sst") && entry.file_type()?.is_file();
        if !is_table || table_opens(&entry.path(), environment) {
            continue;
        }
        let copy = work.join("table.copy.sst");
        if let Some(what) = repair_one(&entry.path(), &copy, keys, environment, until)? {
            fs::rename(&copy, entry.path())?;
            findings.push(format!("{name} {what}"));
        } else {
            super::files::remove_file(&copy)?;
        }
    }
    Ok(findings)
}

/// Makes `copy` a table that can be opened; none if no attempt succeeds.
fn repair_one(
    path: &Path,
    copy: &Path,
    keys: Option<&Keys>,
    environment: Option<&Environment>,
    until: Instant,
) -> Result<Option<String>> {
    let read = |to: &Path| fs::copy(path, to).map(drop);
    if read(copy).is_err() {
        // The disk cannot read all of it.
        return Ok(None);
    }
    let Ok(content) = Content::open(copy, keys) else {
        // Without its header an encrypted table cannot be read.
        return Ok(None);
    };
    let file = File::options().read(true).write(true).open(copy)?;
    let length = file.metadata()?.len();
    for end in ends(&content, content.len()?)? {
        let end = content.begin() + end;
        file.set_len(end)?;
        if table_opens(copy, environment) {
            file.sync_all()?;
            return Ok(Some(format!(
                "had {} bytes after its end at {end}, which are left out",
                length - end
            )));
        }
    }
    let until = until.min(Instant::now() + BITS_TIME_MAX);
    if Instant::now() >= until {
        return Ok(None);
    }
    read(copy)?;
    let file = File::options().read(true).write(true).open(copy)?;
    Ok(wrong_bit(&file, length, until, &|| table_opens(copy, environment))?
        .map(|at| format!("had a wrong bit in byte {at} of {length}")))
}

/// Ends of the magic number's occurrences before the end of the file, the last one first.
fn ends(content: &Content, length: u64) -> io::Result<Vec<u64>> {
    let overlap = MAGIC.len() - 1;
    let (mut found, mut piece, mut at) = (Vec::new(), vec![0; PIECE_BYTES + overlap], length);
    while at > 0 && found.len() < ENDS_MAX {
        let start = at.saturating_sub(PIECE_BYTES as u64);
        let bytes = (length - start).min((at - start) + overlap as u64) as usize;
        content.read_exact_at(&mut piece[..bytes], start)?;
        let places = piece[..bytes].windows(MAGIC.len()).enumerate().rev();
        let ends = places
            .filter(|(_, window)| **window == MAGIC)
            .map(|(index, _)| start + (index + MAGIC.len()) as u64);
        found.extend(ends.filter(|end| *end < length && *end >= END_MIN));
        at = start;
    }
    found.truncate(ENDS_MAX);
    Ok(found)
}

/// Flips the bit near the end that makes the table valid. Returns the offset of its byte. A bit of an encrypted table
/// is the same bit of its content.
fn wrong_bit(
    file: &File,
    length: u64,
    until: Instant,
    opens: &dyn Fn() -> bool,
) -> io::Result<Option<u64>> {
    for at in (length.saturating_sub(TAIL_BYTES)..length).rev() {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        for bit in 0..8 {
            file.write_all_at(&[byte[0] ^ (1 << bit)], at)?;
            if opens() {
                file.sync_all()?;
                return Ok(Some(at));
            }
        }
        file.write_all_at(&byte, at)?;
        if Instant::now() > until {
            break;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_magic_number_are_found_across_pieces() {
        let path = std::env::temp_dir().join(format!("nagi-ends-{}", std::process::id()));
        let mut bytes = vec![0_u8; 2 * PIECE_BYTES + 100];
        let edge = bytes.len() - PIECE_BYTES;
        let places = [60, edge - 4, edge + 20, bytes.len() - 9];
        for at in places {
            bytes[at..at + 8].copy_from_slice(&MAGIC);
        }
        fs::write(&path, &bytes).expect("writes");
        let content = Content::open(&path, None).expect("is there");
        let found = ends(&content, bytes.len() as u64).expect("reads");
        let _ = fs::remove_file(&path);
        let expected: Vec<u64> = places.iter().rev().map(|at| (at + 8) as u64).collect();
        assert_eq!(found, expected);
    }
}
