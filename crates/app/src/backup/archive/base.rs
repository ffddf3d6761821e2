//! Base copies in an archive: `base/<stamp>/` has what a folder of `nagi backup --out` has.
//!
//! The copy is the server's state between two stamps that are taken before and after it began. The first one is where
//! the log that belongs to it begins, the second one names it: later moments can be restored from it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use nagi_bson::text::Hex;
use sha2::{Digest, Sha256};

use super::place::Place;
use super::segment::{Range, end_of_chain};
use super::tail::{self, Ended};
use crate::backup::DATA;
use crate::backup::copy::Pace;
use crate::backup::manifest::{self, Manifest, ManifestFile};
use crate::backup::moment::{SetId, Stamp};
use crate::backup::source::Source;
use crate::remote::client::Client;
use crate::say;

const FOLDER: &str = "base";
/// The name of the stamp from which on an unfinished copy needs the log: written before its files.
const BEGUN: &str = "nagi.begun";
const BEGUN_BYTES_MAX: u64 = 64;

/// A finished base copy.
pub(crate) struct Base {
    /// Its folder within the archive.
    pub(crate) folder: String,
    pub(crate) manifest: Manifest,
    pub(crate) set: SetId,
    /// The log belongs to it from here on.
    pub(crate) log_from: Stamp,
    /// The first moment that can be restored from it.
    pub(crate) log_to: Stamp,
}

impl Base {
    /// True if the log that belongs to it is archived: without it the copy has only a part of what happened meanwhile.
    /// `ranges`: those of all segments.
    pub(crate) fn is_restorable(&self, ranges: &[Range]) -> bool {
        end_of_chain(ranges, self.log_from) >= self.log_to
    }
}

/// The base copies of an archive.
#[derive(Default)]
pub(crate) struct Bases {
    /// The finished ones, oldest first.
    pub(crate) finished: Vec<Base>,
    /// The names of those without a list of files: they are in progress, or were given up.
    pub(super) unfinished: Vec<String>,
    /// The names of those whose list of files this version does not understand.
    pub(super) unknown: Vec<String>,
}

/// The base copies of an archive. Lists of files that this version does not understand are reported: the other copies
/// are as good as before. An error of reading one is an error: it tells nothing about the copy.
pub(super) fn list(place: &Place) -> Result<Bases, String> {
    find(place, &|name| place.get(name, manifest::BYTES_MAX))
}

/// The same for a restore, which does with what it can read: errors of reading are reported, too.
pub(crate) fn readable(place: &Place) -> Result<Bases, String> {
    find(place, &|name| {
        place.get(name, manifest::BYTES_MAX).or_else(|text| {
            say(&format!("a base copy cannot be used: {text}"));
            Ok(None)
        })
    })
}

/// Reads a list of files; `None` if there is none.
type Get<'a> = &'a dyn Fn(&str) -> Result<Option<Vec<u8>>, String>;

fn find(place: &Place, get: Get<'_>) -> Result<Bases, String> {
    let mut bases = Bases::default();
    for name in place.list(FOLDER)?.folders {
        let folder = folder(&name);
        let path = format!("{folder}/{}", manifest::FILE);
        // The list of files is written last: without it the copy was not finished.
        let Some(text) = get(&path)? else {
            bases.unfinished.push(name);
            continue;
        };
        match parse(folder, text) {
            Ok(base) => bases.finished.push(base),
            Err(why) => {
                say(&format!("a base copy cannot be used: {}: {why}", place.shown(&path)));
                bases.unknown.push(name);
            }
        }
    }
    bases.finished.sort_by_key(|base| base.log_to);
    Ok(bases)
}

/// The folder of a base copy.
pub(super) fn folder(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// Where the log begins that an unfinished copy needs. All of it may be needed by one that does not tell.
pub(super) fn log_of_unfinished(place: &Place, name: &str) -> Result<Stamp, String> {
    let text = place.get(&format!("{}/{BEGUN}", folder(name)), BEGUN_BYTES_MAX)?;
    let stamp = text.and_then(|text| Stamp::parse_name(str::from_utf8(&text).ok()?));
    Ok(stamp.unwrap_or(Stamp(0)))
}

/// What the list of files of a base copy tells.
fn parse(folder: String, text: Vec<u8>) -> Result<Base, String> {
    let text = String::from_utf8(text).map_err(|_| "it is not UTF-8")?;
    let manifest = Manifest::parse(&text)?;
    match manifest.log.zip(manifest.set) {
        Some(((log_from, log_to), set)) => Ok(Base { folder, manifest, set, log_from, log_to }),
        None => Err("it does not say which log belongs to it".to_owned()),
    }
}

/// A copy in the archive.
pub(crate) enum Taken {
    New(Base),
    /// Nothing has been written since this one was made.
    Exists(Base),
}

impl Taken {
    pub(crate) fn base(&self) -> &Base {
        match self {
            Taken::New(base) | Taken::Exists(base) => base,
        }
    }
}

/// Copies a running server into the archive, unless a copy of this moment is there. `client` and `source` are
/// connections to it. `set`: the replica set that the archive is of. Ends with an error once `cancelled` is set.
pub(crate) fn take(
    place: &Place,
    set: SetId,
    client: &mut Client,
    source: impl FnOnce() -> Result<Source, String>,
    (pace, cancelled): (&mut Pace, &AtomicBool),
) -> Result<Taken, String> {
    let stamp = |client: &mut Client| tail::newest(client).map_err(Ended::into_text);
    tail::set_of(client, Some(set)).map_err(Ended::into_text)?;
    let log_from = stamp(client)?;
    let mut source = source()?;
    let log_to = stamp(client);
    let copied = log_to.and_then(|log_to| {
        let folder = folder(&log_to.name());
        let list = format!("{folder}/{}", manifest::FILE);
        if let Some(text) = place.get(&list, manifest::BYTES_MAX)? {
            return match parse(folder, text) {
                Ok(base) => Ok(Err(base)),
                Err(why) => Err(format!(
                    "the base copy of this moment exists already, and cannot be used: {}: {why}",
                    place.shown(&list)
                )),
            };
        }
        place.put(&format!("{folder}/{BEGUN}"), log_from.name().into_bytes())?;
        let files = copy(place, &mut source, &folder, (pace, cancelled))?;
        Ok(Ok((folder, files, log_to)))
    });
    let (engine, nagi_version) = (source.engine.clone(), source.nagi_version.clone());
    // The source must be closed after a failure too: until then the server keeps removed files on disk.
    let ended = source.end();
    let copied = copied?;
    ended?;
    let (folder, files, log_to) = match copied {
        Ok(made) => made,
        Err(existing) => return Ok(Taken::Exists(existing)),
    };
    check_files(place, &folder, &files)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let manifest = Manifest {
        engine,
        nagi_version,
        created_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
        log: Some((log_from, log_to)),
        set: Some(set),
        files,
    };
    place.put(&format!("{folder}/{}", manifest::FILE), manifest.to_text().into_bytes())?;
    Ok(Taken::New(Base { folder, manifest, set, log_from, log_to }))
}

/// Checks that all files of a copy exist: `--prune` removes those of a copy that makes no progress for long.
fn check_files(place: &Place, folder: &str, files: &[ManifestFile]) -> Result<(), String> {
    let objects = place.list_all(folder)?;
    let found: HashMap<&str, u64> =
        objects.iter().map(|object| (object.name.as_str(), object.byte_count)).collect();
    for file in files {
        let name = format!("{folder}/{DATA}/{}", file.name);
        if found.get(name.as_str()) != Some(&file.byte_count) {
            return Err(format!(
                "{}: it was removed or changed while the base copy was made",
                place.shown(&name)
            ));
        }
    }
    Ok(())
}

fn copy(
    place: &Place,
    source: &mut Source,
    folder: &str,
    (pace, cancelled): (&mut Pace, &AtomicBool),
) -> Result<Vec<ManifestFile>, String> {
    let names = source.files.clone();
    let total = names.iter().map(|file| file.1).sum();
    let (mut files, mut done) = (Vec::new(), 0);
    for (name, byte_count) in names {
        let mut upload = place.upload(&format!("{folder}/{DATA}/{name}"));
        let mut hash = Sha256::new();
        let mut offset = 0;
        while offset < byte_count {
            if cancelled.load(Relaxed) {
                return Err("stopped before the base copy was finished".to_owned());
            }
            let piece = source.read(&name, offset, byte_count - offset)?;
            hash.update(&piece);
            upload.write(&piece)?;
            offset += piece.len() as u64;
            pace.spend(piece.len());
            pace.tell(done + offset, total);
        }
        upload.finish()?;
        done += byte_count;
        files.push(ManifestFile { name, byte_count, sha256: Hex(&hash.finalize()).to_string() });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_whose_files_were_removed_is_refused() {
        let folder = std::env::temp_dir().join(format!("nagi-base-{}", std::process::id()));
        let place = Place::open(&folder.display().to_string(), None, true).unwrap();
        place.put("base/x/data/a/b", b"one".to_vec()).unwrap();
        let file = |name: &str, byte_count| ManifestFile {
            name: name.to_owned(),
            byte_count,
            sha256: String::new(),
        };
        check_files(&place, "base/x", &[file("a/b", 3)]).unwrap();
        for missing in [file("a/b", 4), file("a/c", 3)] {
            let files = [file("a/b", 3), missing];
            assert!(check_files(&place, "base/x", &files).unwrap_err().contains("was removed"));
        }
        // What an unfinished copy does not tell may be all.
        place.put("base/x/nagi.begun", b"0000000005-0000000002".to_vec()).unwrap();
        assert_eq!(log_of_unfinished(&place, "x"), Ok(Stamp(5 << 32 | 2)));
        assert_eq!(log_of_unfinished(&place, "y"), Ok(Stamp(0)));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
