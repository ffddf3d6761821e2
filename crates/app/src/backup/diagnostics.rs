//! `nagi diagnostics`: copies the files of diagnostic data, decrypted, for MongoDB's tools.
//!
//! A file of a server with encryption at rest has a header, and then MongoDB's records (docs/format.md, "Diagnostic
//! data"). The copy has the records alone. The server may run meanwhile: what it is about to write is left out.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use nagi_bson::Doc;
use nagi_encryption::{FileCipher, HEADER_BYTES, Keys, is_encrypted};

use super::flags::Flags;
use super::{failed, is_folder, make_empty};
use crate::encryption;

/// The folder in a data directory.
const FOLDER: &str = "diagnostic.data";
const PREFIX: &str = "metrics.";
const UNFINISHED: &str = "metrics.interim.temp";
/// The largest record that is copied: those of servers have some hundred KB.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Copies the files to `out`, which is new or empty. Returns what was done, or what could not be read.
pub(super) fn export(data: &Path, out: &Path, flags: &Flags) -> Result<String, String> {
    let from = flags.from.as_ref().map_or_else(|| data.join(FOLDER), PathBuf::from);
    is_folder(data)?;
    is_folder(&from)?;
    let keys = encryption::of_folder(data, &flags.masters)?;
    make_empty(out)?;
    let (mut copied, mut records, mut damaged) = (0, 0, Vec::new());
    for name in names(&from)? {
        let (path, copy) = (from.join(&name), out.join(&name));
        match copy_file(&path, &copy, keys.as_deref()) {
            // The server has removed it meanwhile, because it was the oldest, or it has no record yet.
            Ok(0) => fs::remove_file(&copy).map_err(|error| failed(&copy, &error))?,
            Ok(found) => (copied, records) = (copied + 1, records + found),
            Err(error) => {
                damaged.push(error);
                if fs::metadata(&copy).is_ok_and(|found| found.len() == 0) {
                    fs::remove_file(&copy).map_err(|error| failed(&copy, &error))?;
                }
            }
        }
    }
    let done = format!("{records} records of {copied} files in {}", out.display());
    match damaged.is_empty() {
        true => Ok(done),
        false => Err(format!("{}\n{done}", damaged.join("\n"))),
    }
}

/// The names of the files, sorted by time.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, &error))? {
        let entry = entry.map_err(|error| failed(folder, &error))?;
        // A link or a pipe is no file of a server.
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if let Ok(name) = entry.file_name().into_string()
            && is_file
            && name.starts_with(PREFIX)
            && name != UNFINISHED
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Copies the complete records of a file; returns their number.
fn copy_file(path: &Path, copy: &Path, keys: Option<&Keys>) -> Result<usize, String> {
    let unread = |error: io::Error| failed(path, &error);
    let unwritten = |error: io::Error| failed(copy, &error);
    let mut to = BufWriter::new(File::create_new(copy).map_err(unwritten)?);
    let mut from = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        file => BufReader::new(file.map_err(unread)?),
    };
    let (mut first, cipher) = begin(&mut from, keys).map_err(unread)?;
    let mut input = Input { beginning: &mut first, rest: from, cipher, at: 0 };
    let mut record = Vec::new();
    let mut count = 0;
    while input.next(&mut record).map_err(unread)? {
        to.write_all(&record).map_err(unwritten)?;
        count += 1;
    }
    to.flush().map_err(unwritten)?;
    Ok(count)
}

/// Reads the header of an encrypted file. Of a plain one: the bytes that were read instead.
fn begin(from: &mut impl Read, keys: Option<&Keys>) -> io::Result<(Vec<u8>, Option<FileCipher>)> {
    let mut first = Vec::new();
    from.take(HEADER_BYTES as u64).read_to_end(&mut first)?;
    if !is_encrypted(&first) {
        return Ok((first, None));
    }
    let Some(keys) = keys else {
        return Err(io::Error::other("the file is encrypted, but the data directory has no keys"));
    };
    // The server has begun to write it.
    if first.len() < HEADER_BYTES {
        return Ok((Vec::new(), None));
    }
    Ok((Vec::new(), Some(keys.open_file(&first)?)))
}

/// The content of a file.
struct Input<'a, R> {
    /// What of it was read already.
    beginning: &'a mut Vec<u8>,
    rest: R,
    cipher: Option<FileCipher>,
    /// Bytes that were read from `rest`, for the cipher.
    at: u64,
}

impl<R: Read> Input<'_, R> {
    /// Reads the next record. False at the end of the file, and at a record that is not complete.
    fn next(&mut self, record: &mut Vec<u8>) -> io::Result<bool> {
        record.clear();
        if !self.read(4, record)? {
            return Ok(false);
        }
        let length = record.first_chunk().map_or(0, |length| u32::from_le_bytes(*length)) as usize;
        if !(5..=RECORD_BYTES_MAX).contains(&length) {
            return Err(damaged("a record has a wrong length"));
        }
        if !self.read(length - 4, record)? {
            return Ok(false);
        }
        Doc::parse(record).map_err(|_| damaged("a record is no valid BSON"))?;
        Ok(true)
    }

    /// Appends so many bytes. False if there are fewer.
    fn read(&mut self, count: usize, to: &mut Vec<u8>) -> io::Result<bool> {
        let begin = to.len();
        let first = self.beginning.len().min(count);
        to.extend(self.beginning.drain(..first));
        let at = to.len();
        let read = (&mut self.rest).take((count - first) as u64).read_to_end(to)?;
        if let Some(cipher) = &self.cipher {
            cipher.apply(self.at, &mut to[at..]);
        }
        self.at += read as u64;
        Ok(to.len() - begin == count)
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
