//! Base copies in an archive: `base/<stamp>/` has what a folder of `nagi backup --out` has.
//!
//! The copy is the server's state between two stamps that are taken before and after it began. The first one is where
//! the log that belongs to it begins, the second one names it: later moments can be restored from it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use nagi_bson::text::Hex;
use sha2::{Digest, Sha256};

use super::place::Place;
use super::segment::{Range, end_of_chain};
use super::tail::{self, Ended};
use crate::backup::DATA;
use crate::backup::client::Client;
use crate::backup::copy::Pace;
use crate::backup::manifest::{self, Manifest, ManifestFile};
use crate::backup::moment::{SetId, Stamp};
use crate::backup::source::Source;
use crate::say;

const FOLDER: &str = "base";

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

/// The finished base copies, oldest first. Ones that cannot be read are reported and left out: the others are as good
/// as before.
pub(crate) fn list(place: &Place) -> Result<Vec<Base>, String> {
    let mut bases = Vec::new();
    for name in place.list(FOLDER)?.folders {
        match read(place, folder(&name)) {
            Ok(base) => bases.extend(base),
            Err(text) => say(&format!("a base copy cannot be used: {text}")),
        }
    }
    bases.sort_by_key(|base| base.log_to);
    Ok(bases)
}

/// The folder of a base copy.
pub(super) fn folder(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// The names of the base copies that are not finished.
pub(super) fn unfinished(place: &Place) -> Result<Vec<String>, String> {
    let mut names = place.list(FOLDER)?.folders;
    let mut failed = None;
    names.retain(|name| {
        let exists = place.exists(&format!("{}/{}", folder(name), manifest::FILE));
        exists.map_err(|text| failed.get_or_insert(text).clone()) == Ok(false)
    });
    failed.map_or(Ok(names), Err)
}

/// Reads what is known of a base copy; `None` if it is not finished.
fn read(place: &Place, folder: String) -> Result<Option<Base>, String> {
    let path = format!("{folder}/{}", manifest::FILE);
    // The list of files is written last: without it the copy was not finished.
    let Some(text) = place.get(&path, manifest::BYTES_MAX)? else { return Ok(None) };
    let bad = |why: &str| format!("{}: {why}", place.shown(&path));
    let text = String::from_utf8(text).map_err(|_| bad("it is not UTF-8"))?;
    let manifest = Manifest::parse(&text).map_err(|why| bad(&why))?;
    match manifest.log.zip(manifest.set) {
        Some(((log_from, log_to), set)) => {
            Ok(Some(Base { folder, manifest, set, log_from, log_to }))
        }
        None => Err(bad("it does not say which log belongs to it")),
    }
}

/// Copies a running server into the archive. `client` and `source` are connections to it. `set`: the replica set that
/// the archive is of. Ends with an error once `cancelled` is set.
pub(crate) fn take(
    place: &Place,
    set: SetId,
    client: &mut Client,
    source: impl FnOnce() -> Result<Source, String>,
    (pace, cancelled): (&mut Pace, &AtomicBool),
) -> Result<Base, String> {
    let stamp = |client: &mut Client| tail::newest(client).map_err(Ended::into_text);
    tail::set_of(client, Some(set)).map_err(Ended::into_text)?;
    let log_from = stamp(client)?;
    let mut source = source()?;
    let log_to = stamp(client);
    let copied = log_to.and_then(|log_to| {
        let folder = folder(&log_to.name());
        if place.exists(&format!("{folder}/{}", manifest::FILE))? {
            return Err(format!(
                "a base copy of this moment exists already: {}",
                place.shown(&folder)
            ));
        }
        let files = copy(place, &mut source, &folder, (pace, cancelled))?;
        Ok((folder, files, log_to))
    });
    let (engine, nagi_version) = (source.engine.clone(), source.nagi_version.clone());
    // The source must be closed after a failure too: until then the server keeps removed files on disk.
    let ended = source.end();
    let (folder, files, log_to) = copied?;
    ended?;
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
    Ok(Base { folder, manifest, set, log_from, log_to })
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
