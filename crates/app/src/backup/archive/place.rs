//! Where an archive is: a folder, or a prefix in an S3-compatible store.
//!
//! Objects appear as a whole. In a folder a file is written under another name, synced and renamed; the names of
//! unfinished ones are never listed. The store's client is asynchronous: a runtime on this thread waits for it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{Error, ListResult, ObjectStore, ObjectStoreExt, WriteMultipart};
use tokio::runtime::Runtime;

use crate::say;

/// Parts of large objects. S3 takes 10,000 parts of an object.
const PART_BYTES: usize = 16 << 20;
/// Parts on their way at the same time.
const PARTS_MAX: usize = 2;

pub(crate) struct Place {
    store: Arc<dyn ObjectStore>,
    root: Key,
    runtime: Runtime,
    shown: String,
}

/// Names below a folder of the archive.
pub(crate) struct Listing {
    pub(crate) files: Vec<String>,
    pub(crate) folders: Vec<String>,
}

/// An object of the archive.
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) byte_count: u64,
    /// When it was written, in seconds since 1970.
    pub(crate) written: i64,
}

/// Refuses what is no address of an archive, before anything is opened.
pub(crate) fn check_address(url: &str) -> Result<(), String> {
    match url.split_once("://") {
        None | Some(("s3" | "file", _)) => Ok(()),
        Some(_) => Err(format!("{url}: expected a folder, file:///folder or s3://bucket/prefix")),
    }
}

impl Place {
    /// Opens an archive: a path, `file:///path`, or `s3://bucket/prefix`. `create`: a missing folder is created.
    pub(crate) fn open(url: &str, endpoint: Option<&str>, create: bool) -> Result<Place, String> {
        check_address(url)?;
        let failed = |error: &dyn std::fmt::Display| format!("{url}: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let (store, root): (Arc<dyn ObjectStore>, Key) = match url.split_once("://") {
            Some(("s3", place)) => {
                let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
                let root = Key::parse(prefix).map_err(|error| failed(&error))?;
                (Arc::new(bucket_of(bucket, endpoint).map_err(|error| failed(&error))?), root)
            }
            Some(("file", path)) => (Arc::new(folder(Path::new(path), create)?), Key::default()),
            _ => (Arc::new(folder(Path::new(url), create)?), Key::default()),
        };
        Ok(Place { store, root, runtime, shown: url.trim_end_matches('/').to_owned() })
    }

    /// The name of an object for messages.
    pub(crate) fn shown(&self, name: &str) -> String {
        format!("{}/{name}", self.shown)
    }

    fn key(&self, name: &str) -> Key {
        name.split('/').fold(self.root.clone(), |key, part| key.join(part))
    }

    fn failed(&self, name: &str, error: &Error) -> String {
        format!("{}: {error}", self.shown(name))
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), String> {
        let done = self.runtime.block_on(self.store.put(&self.key(name), bytes.into()));
        done.map(drop).map_err(|error| self.failed(name, &error))
    }

    /// The bytes of an object; `None` if there is no such object. One of more than `most` bytes is not read.
    pub(crate) fn get(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
        let read = async {
            let found = self.store.get(&self.key(name)).await?;
            match found.meta.size {
                size if size > most => Ok(Err(size)),
                _ => found.bytes().await.map(Ok),
            }
        };
        match self.runtime.block_on(read) {
            Ok(Ok(bytes)) => Ok(Some(bytes.to_vec())),
            Ok(Err(size)) => {
                Err(format!("{}: it has {size} bytes, which is too much", self.shown(name)))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// Copies an object of a known size to a file, and calls `on_piece` with its bytes.
    pub(crate) fn fetch(
        &self,
        name: &str,
        byte_count: u64,
        to: &mut File,
        on_piece: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String> {
        let key = self.key(name);
        let mut at = 0;
        while at < byte_count {
            let end = byte_count.min(at + PART_BYTES as u64);
            let piece = self.runtime.block_on(self.store.get_range(&key, at..end));
            let piece = piece.map_err(|error| self.failed(name, &error))?;
            if piece.len() as u64 != end - at {
                return Err(format!("{}: it is shorter than {byte_count} bytes", self.shown(name)));
            }
            on_piece(&piece);
            to.write_all(&piece).map_err(|error| format!("{}: {error}", self.shown(name)))?;
            at = end;
        }
        Ok(())
    }

    fn listed(&self, folder: &str) -> Result<ListResult, String> {
        let listed = self.runtime.block_on(self.store.list_with_delimiter(Some(&self.key(folder))));
        match listed {
            Err(Error::NotFound { .. }) => Ok(ListResult {
                common_prefixes: vec![],
                objects: vec![],
                extensions: Default::default(),
            }),
            listed => listed.map_err(|error| self.failed(folder, &error)),
        }
    }

    /// The objects directly in a folder.
    pub(crate) fn list(&self, folder: &str) -> Result<Listing, String> {
        let listed = self.listed(folder)?;
        let name = |key: &Key| key.filename().unwrap_or("").to_owned();
        Ok(Listing {
            files: listed.objects.iter().map(|object| name(&object.location)).collect(),
            folders: listed.common_prefixes.iter().map(name).collect(),
        })
    }

    /// All objects below a folder.
    pub(crate) fn list_all(&self, folder: &str) -> Result<Vec<Object>, String> {
        let (mut folders, mut objects) = (vec![folder.to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            let found = self.listed(&folder)?;
            let within = |key: &Key| format!("{folder}/{}", key.filename().unwrap_or(""));
            objects.extend(found.objects.iter().map(|meta| Object {
                name: within(&meta.location),
                byte_count: meta.size,
                written: meta.last_modified.timestamp(),
            }));
            folders.extend(found.common_prefixes.iter().map(within));
        }
        Ok(objects)
    }

    /// Removes an object, and folders that become empty. One that is gone already is as well.
    pub(crate) fn remove(&self, name: &str) -> Result<(), String> {
        match self.runtime.block_on(self.store.delete(&self.key(name))) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// Begins an object that is written piece by piece.
    pub(crate) fn upload(&self, name: &str) -> Upload<'_> {
        Upload { place: self, name: name.to_owned(), first: Vec::new(), parts: None }
    }
}

/// An object that is being written. It exists once it is finished. If it never is, its parts are removed: a store keeps
/// them otherwise, unseen and paid for.
pub(crate) struct Upload<'p> {
    place: &'p Place,
    name: String,
    /// The bytes before the second part: a small object needs no parts.
    first: Vec<u8>,
    parts: Option<WriteMultipart>,
}

impl Upload<'_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let place = self.place;
        if self.parts.is_none() {
            self.first.extend_from_slice(bytes);
            if self.first.len() < PART_BYTES {
                return Ok(());
            }
        }
        let parts = match &mut self.parts {
            Some(parts) => {
                let _inside = place.runtime.enter();
                parts.write(bytes);
                parts
            }
            none => {
                let begun =
                    place.runtime.block_on(place.store.put_multipart(&place.key(&self.name)));
                let begun = begun.map_err(|error| place.failed(&self.name, &error))?;
                let _inside = place.runtime.enter();
                let parts = none.insert(WriteMultipart::new_with_chunk_size(begun, PART_BYTES));
                parts.write(&std::mem::take(&mut self.first));
                parts
            }
        };
        let ready = place.runtime.block_on(parts.wait_for_capacity(PARTS_MAX));
        ready.map_err(|error| place.failed(&self.name, &error))
    }

    pub(crate) fn finish(mut self) -> Result<(), String> {
        match self.parts.take() {
            None => self.place.put(&self.name, std::mem::take(&mut self.first)),
            Some(parts) => {
                let done = self.place.runtime.block_on(parts.finish());
                done.map(drop).map_err(|error| self.place.failed(&self.name, &error))
            }
        }
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take()
            && let Err(error) = self.place.runtime.block_on(parts.abort())
        {
            let why = self.place.failed(&self.name, &error);
            say(&format!("the parts of an unfinished object may remain: {why}"));
        }
    }
}

fn folder(path: &Path, create: bool) -> Result<LocalFileSystem, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if create {
        fs::create_dir_all(path).map_err(|error| failed(&error))?;
    } else {
        crate::backup::is_folder(path)?;
    }
    let store = LocalFileSystem::new_with_prefix(path).map_err(|error| failed(&error))?;
    Ok(store.with_fsync(true).with_automatic_cleanup(true))
}

/// One of these must be set: without any, the client would ask an address of the cloud's machines for the rights of
/// this machine. The last but one asks for that, the last is for stores that want no key.
const CREDENTIALS: [&str; 6] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
    "AWS_SKIP_SIGNATURE",
];

/// The key, its secret and the region come from the environment (`AWS_ACCESS_KEY_ID` and so on), so that no other user
/// of the machine sees them.
fn bucket_of(
    bucket: &str,
    endpoint: Option<&str>,
) -> object_store::Result<object_store::aws::AmazonS3> {
    if !CREDENTIALS.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
    {
        let names = CREDENTIALS.join(", ");
        return Err(Error::Generic {
            store: "S3",
            source: format!(
                "no credentials in the environment: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY \
                 (looked for: {names})"
            )
            .into(),
        });
    }
    // Without a provider the client of the store cannot encrypt. It fails only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Not every store can remove several objects with one request.
    let mut builder =
        AmazonS3Builder::from_env().with_bucket_name(bucket).with_disable_bulk_delete(true);
    if let Some(endpoint) = endpoint {
        builder = builder
            .with_endpoint(endpoint)
            .with_allow_http(endpoint.starts_with("http://"))
            .with_virtual_hosted_style_request(false);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};

    use super::*;

    /// Counts how uploads end.
    #[derive(Debug, Default, Clone)]
    struct Ends {
        complete: Arc<AtomicU32>,
        aborted: Arc<AtomicU32>,
    }

    type Reply<'f, T> = Pin<Box<dyn Future<Output = object_store::Result<T>> + Send + 'f>>;

    impl MultipartUpload for Ends {
        fn put_part(&mut self, _: PutPayload) -> UploadPart {
            Box::pin(async { Ok(()) })
        }

        fn complete<'s: 'f, 'f>(&'s mut self) -> Reply<'f, PutResult> {
            self.complete.fetch_add(1, Relaxed);
            Box::pin(async {
                Err(Error::NotImplemented { operation: String::new(), implementer: String::new() })
            })
        }

        fn abort<'s: 'f, 'f>(&'s mut self) -> Reply<'f, ()> {
            self.aborted.fetch_add(1, Relaxed);
            Box::pin(async { Ok(()) })
        }
    }

    #[test]
    fn an_upload_that_ends_early_is_aborted() {
        let folder = std::env::temp_dir().join(format!("nagi-abort-{}", std::process::id()));
        let place = Place::open(&folder.display().to_string(), None, true).unwrap();
        let ends = Ends::default();
        let upload = || {
            let mut upload = place.upload("x");
            upload.parts = Some(WriteMultipart::new_with_chunk_size(Box::new(ends.clone()), 2));
            upload.write(b"parts").unwrap();
            upload
        };
        let counts = || (ends.complete.load(Relaxed), ends.aborted.load(Relaxed));
        drop(upload());
        assert_eq!(counts(), (0, 1));
        // An upload that cannot be completed is aborted once.
        assert!(upload().finish().is_err());
        assert_eq!(counts(), (1, 2));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn objects_of_a_folder_are_whole() {
        let folder = std::env::temp_dir().join(format!("nagi-place-{}", std::process::id()));
        let url = format!("file://{}", folder.display());
        assert!(Place::open(&url, None, false).err().unwrap().contains("does not exist"));
        let place = Place::open(&url, None, true).unwrap();
        assert!(place.list("log").unwrap().files.is_empty());
        place.put("log/a", b"one".to_vec()).unwrap();
        place.put("log/b/c", b"two".to_vec()).unwrap();
        assert_eq!(place.get("log/a", 3).unwrap().as_deref(), Some(&b"one"[..]));
        assert!(place.get("log/a", 2).unwrap_err().contains("3 bytes, which is too much"));
        assert_eq!(place.get("log/x", 9).unwrap(), None);
        // Parts of several sizes, and an empty object.
        let bytes: Vec<u8> =
            (0..PART_BYTES as u32 * 2 / 4 + 3).flat_map(u32::to_le_bytes).collect();
        let mut upload = place.upload("log/large");
        bytes.chunks(5 << 20).for_each(|piece| upload.write(piece).unwrap());
        // Nothing of it is seen before it is finished.
        assert_eq!(place.list("log").unwrap().files, ["a"]);
        upload.finish().unwrap();
        place.upload("log/empty").finish().unwrap();
        let mut listing = place.list("log").unwrap();
        listing.files.sort();
        assert_eq!(
            (listing.files, listing.folders),
            (vec!["a".into(), "empty".into(), "large".into()], vec!["b".to_owned()])
        );
        let mut copy = File::create(folder.join("copy")).unwrap();
        let mut seen = 0;
        place
            .fetch("log/large", bytes.len() as u64, &mut copy, &mut |piece| seen += piece.len())
            .unwrap();
        assert_eq!(seen, bytes.len());
        assert!(fs::read(folder.join("copy")).unwrap() == bytes, "the copy is the object");
        let longer = bytes.len() as u64 + 1;
        assert!(place.fetch("log/large", longer, &mut copy, &mut |_| {}).is_err());
        fs::remove_dir_all(folder).unwrap();
        for bad in ["http://x/y", "s3x://b"] {
            assert!(
                Place::open(bad, None, true).err().unwrap().contains("expected a folder"),
                "{bad}"
            );
        }
    }
}
