//! Tables that cannot be opened although their data may be whole: junk after the end, a wrong bit in what
//! stands there.
//!
//! ```text
//!   data blocks | filter | index | properties | list of blocks | footer, ends with a magic number | junk
//! ```
//!
//! A table is read from its end. Bytes after it hide the footer, so the places where the magic number stands are
//! tried as the end, the last first. Else each bit near the end is tried as the wrong one. All that opening reads
//! has checksums of 32 bits, so what opens is right. Works on copies.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use nagi_kv::Result;

use crate::db::table_opens;

/// The last bytes of a table, `kBlockBasedTableMagicNumber` of RocksDB.
const MAGIC: [u8; 8] = 0x88e2_41b7_85f4_cff7_u64.to_le_bytes();
/// What is before the magic number in the smallest footer.
const END_MIN: u64 = 48;
/// Places that are tried as the end of a table.
const ENDS_MAX: usize = 64;
/// Bytes at the end whose bits are tried, and how long.
const TAIL_BYTES: u64 = 64 << 10;
const BITS_TIME_MAX: Duration = Duration::from_secs(20);
const PIECE_BYTES: usize = 1 << 20;

/// Makes tables of a folder readable whose ends are damaged; what was done, in words. The files are hard links
/// to what must stay as it is: one that is changed is copied first.
pub(super) fn mend(work: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for entry in fs::read_dir(work)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_table = name.ends_with(".sst") && entry.file_type()?.is_file();
        if !is_table || table_opens(&entry.path()) {
            continue;
        }
        let copy = work.join("table.copy.sst");
        if let Some(what) = mend_one(&entry.path(), &copy)? {
            fs::rename(&copy, entry.path())?;
            findings.push(format!("{name} {what}"));
        } else {
            super::files::remove_file(&copy)?;
        }
    }
    Ok(findings)
}

/// Makes `copy` a table that can be opened; none if that is beyond what is tried.
fn mend_one(path: &Path, copy: &Path) -> Result<Option<String>> {
    let read = |to: &Path| fs::copy(path, to).map(drop);
    if read(copy).is_err() {
        // The disk cannot read all of it.
        return Ok(None);
    }
    let file = File::options().read(true).write(true).open(copy)?;
    let length = file.metadata()?.len();
    for end in ends(&file, length)? {
        file.set_len(end)?;
        if table_opens(copy) {
            file.sync_all()?;
            return Ok(Some(format!(
                "had {} bytes after its end at {end}, which are left out",
                length - end
            )));
        }
    }
    read(copy)?;
    let file = File::options().read(true).write(true).open(copy)?;
    Ok(wrong_bit(&file, length, copy)?
        .map(|at| format!("had a wrong bit in byte {at} of {length}")))
}

/// Where the magic number ends before the file does, the last place first.
fn ends(file: &File, length: u64) -> io::Result<Vec<u64>> {
    let overlap = MAGIC.len() - 1;
    let (mut found, mut piece, mut at) = (Vec::new(), vec![0; PIECE_BYTES + overlap], length);
    while at > 0 && found.len() < ENDS_MAX {
        let start = at.saturating_sub(PIECE_BYTES as u64);
        let bytes = (length - start).min((at - start) + overlap as u64) as usize;
        file.read_exact_at(&mut piece[..bytes], start)?;
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

/// Turns the bit near the end that makes the table one that opens; its byte.
fn wrong_bit(file: &File, length: u64, path: &Path) -> io::Result<Option<u64>> {
    let until = Instant::now() + BITS_TIME_MAX;
    for at in (length.saturating_sub(TAIL_BYTES)..length).rev() {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        for bit in 0..8 {
            file.write_all_at(&[byte[0] ^ (1 << bit)], at)?;
            if table_opens(path) {
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
        let file = File::open(&path).expect("is there");
        let found = ends(&file, bytes.len() as u64).expect("reads");
        let _ = fs::remove_file(&path);
        let expected: Vec<u64> = places.iter().rev().map(|at| (at + 8) as u64).collect();
        assert_eq!(found, expected);
    }
}
