//! The manifest `nagi.backup`: names, sizes and checksums of a backup's files, in extended JSON.
//!
//! It is written last and atomically, so a directory without it is an unfinished backup. Everything in it is validated
//! when it is read; in particular, names cannot leave the directory.

use std::fs::{self, File};
use std::path::Path;

use nagi_bson::{DocBuf, Value, json};

use super::moment::{SetId, Stamp};
use super::{MARKER, failed, is_folder};

pub(super) const FILE: &str = "nagi.backup";
const FORMAT: i64 = 1;
/// The format in an archive.
const FORMAT_WITH_LOG: i64 = 2;
const FILE_COUNT_MAX: usize = 1_000_000;
pub(super) const BYTES_MAX: u64 = 256 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManifestFile {
    /// The path relative to the data directory, with `/`.
    pub(super) name: String,
    pub(super) byte_count: u64,
    /// The checksum in hexadecimal.
    pub(super) sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) engine: String,
    pub(super) nagi_version: String,
    pub(super) created_ms: i64,
    /// In an archive: the stamps of the log's newest entries before and after the copy began.
    pub(super) log: Option<(Stamp, Stamp)>,
    /// In an archive: the replica set whose log it is.
    pub(super) set: Option<SetId>,
    pub(super) files: Vec<ManifestFile>,
}

impl Manifest {
    pub(super) fn byte_count(&self) -> u64 {
        self.files.iter().map(|file| file.byte_count).sum()
    }

    pub(super) fn to_text(&self) -> String {
        let doc = DocBuf::build(|w| {
            w.put("format", if self.log.is_some() { FORMAT_WITH_LOG } else { FORMAT });
            w.put("engine", self.engine.as_str());
            w.put("nagiVersion", self.nagi_version.as_str());
            w.put("createdAt", Value::DateTime(self.created_ms));
            if let Some((from, to)) = self.log {
                w.put("logFrom", Value::Timestamp(from.0));
                w.put("logTo", Value::Timestamp(to.0));
            }
            if let Some(set) = &self.set {
                w.put("replicaSetId", &set.0);
            }
            w.array("files", |list| {
                for file in &self.files {
                    list.doc(|doc| {
                        doc.put("name", file.name.as_str());
                        doc.put("bytes", file.byte_count as i64);
                        doc.put("sha256", file.sha256.as_str());
                    });
                }
            });
        });
        json::to_relaxed(doc.as_doc()).replace("{\"name\"", "\n{\"name\"") + "\n"
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), String> {
        let (part, path) = (folder.join("nagi.backup.tmp"), folder.join(FILE));
        let written = fs::write(&part, self.to_text())
            .and_then(|()| File::open(&part)?.sync_all())
            .and_then(|()| fs::rename(&part, &path))
            .and_then(|()| File::open(folder)?.sync_all());
        written.map_err(|error| failed(&path, &error))
    }

    pub(super) fn read(folder: &Path) -> Result<Manifest, String> {
        is_folder(folder)?;
        let path = folder.join(FILE);
        let bad = |why: &str| failed(&path, &why);
        let found = fs::metadata(&path);
        // A server that makes a backup has a folder of this name in its data directory.
        if !found.as_ref().is_ok_and(fs::Metadata::is_file) && folder.join(MARKER).exists() {
            return Err(format!(
                "{} is a data directory, not a backup: nagi backup creates a backup of a running \
                 server; the data directory of a server that was stopped in order (not killed) can be copied as it is",
                folder.display()
            ));
        }
        let found = found.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("{} contains no finished backup: it has no file {FILE}", folder.display())
            }
            _ => failed(&path, &error),
        })?;
        if !found.is_file() {
            return Err(bad("it is not a regular file"));
        }
        if found.len() > BYTES_MAX {
            return Err(bad("it is too large for a backup's list of files"));
        }
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
        Manifest::parse(&text).map_err(|why| bad(&why))
    }

    pub(super) fn parse(text: &str) -> Result<Manifest, String> {
        let doc = json::parse(text).map_err(|error| error.to_string())?;
        let format = nagi_bson::number::truncate_to_i64(doc.get("format"));
        let wanted = if doc.get("logFrom").is_missing() { FORMAT } else { FORMAT_WITH_LOG };
        if format != Some(wanted) {
            return Err(format!(
                "its format is {}, this version reads {wanted}",
                doc.get("format")
            ));
        }
        let string = |name: &str| {
            let text = doc.get(name).as_str().map(str::to_owned);
            text.ok_or_else(|| format!("'{name}' is missing"))
        };
        let Value::Array(list) = doc.get("files") else {
            return Err("'files' is missing".to_owned());
        };
        let mut files = Vec::new();
        for item in list.iter() {
            if files.len() >= FILE_COUNT_MAX {
                return Err("it lists too many files".to_owned());
            }
            files.push(file(item)?);
        }
        Ok(Manifest {
            engine: string("engine")?,
            nagi_version: string("nagiVersion")?,
            created_ms: match doc.get("createdAt") {
                Value::DateTime(ms) => ms,
                _ => 0,
            },
            log: Stamp::of(doc.get("logFrom")).zip(Stamp::of(doc.get("logTo"))),
            set: SetId::of(doc.get("replicaSetId")),
            files,
        })
    }
}

fn file(item: Value<'_>) -> Result<ManifestFile, String> {
    let doc = item.as_doc().ok_or("an entry of 'files' is not an object")?;
    let name = doc.get("name").as_str().unwrap_or("").to_owned();
    check_name(&name)?;
    let count = nagi_bson::number::truncate_to_i64(doc.get("bytes"));
    let byte_count = count.and_then(|count| u64::try_from(count).ok());
    let sha256 = doc.get("sha256").as_str().unwrap_or("").to_owned();
    if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("the checksum of '{name}' is not valid"));
    }
    let byte_count = byte_count.ok_or_else(|| format!("the size of '{name}' is not valid"))?;
    Ok(ManifestFile { name, byte_count, sha256 })
}

/// Checks that a name stays within the directory that it is joined to.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let fine = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\0', '\\']);
    match name.len() <= 4096 && name.split('/').all(fine) {
        true => Ok(()),
        false => Err(format!("'{name}' is not a valid name of a file in a backup")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".", "a\\b", "a\0"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name("rocksdb/000012.sst").is_ok());
    }

    #[test]
    fn bad_manifests_are_refused() {
        let good = format!(
            "{{\"format\": 1, \"engine\": \"e\", \"nagiVersion\": \"v\", \"files\": \
             [{{\"name\": \"a\", \"bytes\": 1, \"sha256\": \"{}\"}}]}}",
            "0".repeat(64)
        );
        assert_eq!(Manifest::parse(&good).unwrap().files.len(), 1);
        for (from, to) in [
            ("\"format\": 1", "\"format\": 2"),
            ("\"a\"", "\"../a\""),
            ("\"bytes\": 1", "\"bytes\": -1"),
            ("000", "xyz"),
            ("\"engine\": \"e\",", ""),
            ("[{", "[5, {"),
            ("]}", "]"),
        ] {
            assert!(Manifest::parse(&good.replacen(from, to, 1)).is_err(), "{from} -> {to}");
        }
    }
}
