//! The keys of one data directory while it is open.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cipher::FileCipher;
use crate::error::KeysError;
use crate::header::{self, HEADER_BYTES};
use crate::keys_file::{self, Content, GENERATIONS_MAX, Generation};
use crate::master::MasterKey;
use crate::replace::Step;
use crate::seal;

/// The keys of a data directory, shared by all who open its files. The owner holds the lock of the directory.
pub struct Keys {
    folder: PathBuf,
    master: MasterKey,
    /// Held while the file is written too: a generation is used only when it is on disk.
    content: Mutex<Content>,
}

/// No fault: every step of a replacement is done.
fn go_on(_: Step) -> io::Result<()> {
    Ok(())
}

impl Keys {
    /// Opens the keys of a data directory whose lock the caller holds. `fresh`: it has no data yet, so the keys are
    /// created unless a start that was killed has already done so.
    ///
    /// # Errors
    /// `NotEncrypted` if there are data but no keys; `WrongMasterKey`, and what is wrong with the file or the system.
    pub fn open(dir: &Path, master: &MasterKey, fresh: bool) -> Result<Keys, KeysError> {
        Keys::open_with(dir, master, fresh, &go_on)
    }

    fn open_with(
        dir: &Path,
        master: &MasterKey,
        fresh: bool,
        before: &dyn Fn(Step) -> io::Result<()>,
    ) -> Result<Keys, KeysError> {
        let content = match keys_file::load(dir, master)? {
            Some(content) => content,
            None if fresh => {
                let content = Content { id: *seal::random()?, generations: vec![generation(1)?] };
                keys_file::store(dir, &content, master, before)?;
                content
            }
            None => return Err(KeysError::NotEncrypted(dir.to_owned())),
        };
        Ok(Keys::of(dir, master, content))
    }

    /// Opens the keys with the master key that wrapped them until now, and wraps them with another one. If they are
    /// wrapped with the new one already, as after a kill, they stay as they are.
    ///
    /// # Errors
    /// As [`Keys::open`] has; then nothing has changed.
    pub fn change_master(dir: &Path, old: &MasterKey, new: &MasterKey) -> Result<Keys, KeysError> {
        Keys::change_master_with(dir, old, new, &go_on)
    }

    fn change_master_with(
        dir: &Path,
        old: &MasterKey,
        new: &MasterKey,
        before: &dyn Fn(Step) -> io::Result<()>,
    ) -> Result<Keys, KeysError> {
        let content = match keys_file::load(dir, old) {
            Ok(Some(content)) => content,
            Ok(None) => return Err(KeysError::NotEncrypted(dir.to_owned())),
            Err(KeysError::WrongMasterKey { needed, .. }) if needed == new.id() => {
                return Keys::open(dir, new, false);
            }
            Err(error) => return Err(error),
        };
        keys_file::store(dir, &content, new, before)?;
        Ok(Keys::of(dir, new, content))
    }

    fn of(dir: &Path, master: &MasterKey, content: Content) -> Keys {
        Keys { folder: dir.to_owned(), master: master.copy(), content: Mutex::new(content) }
    }

    /// Adds a generation, which files use from now on; returns its number. Old files keep theirs.
    ///
    /// # Errors
    /// If it cannot be written, or there are too many; then the old one stays in use.
    pub fn rotate(&self) -> Result<u64, KeysError> {
        self.rotate_with(&go_on)
    }

    fn rotate_with(&self, before: &dyn Fn(Step) -> io::Result<()>) -> Result<u64, KeysError> {
        let mut content = self.content();
        if content.generations.len() >= GENERATIONS_MAX {
            return Err(KeysError::TooManyGenerations(GENERATIONS_MAX));
        }
        let number = newest(&content).number + 1;
        let mut generations = content.generations.clone();
        generations.push(generation(number)?);
        let next = Content { id: content.id, generations };
        keys_file::store(&self.folder, &next, &self.master, before)?;
        *content = next;
        Ok(number)
    }

    /// Makes a data key for a new file: the header, which is written first, and the cipher of what follows.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn new_file(&self) -> Result<(Box<[u8; HEADER_BYTES]>, FileCipher), KeysError> {
        let content = self.content();
        let newest = newest(&content);
        header::create(content.id, newest.number, &newest.key)
    }

    /// The cipher of a file from its header.
    ///
    /// # Errors
    /// If there are fewer than [`HEADER_BYTES`] bytes, or they are damaged, foreign or of a newer version.
    pub fn open_file(&self, header: &[u8]) -> Result<FileCipher, KeysError> {
        let content = self.content();
        let number = header::check(content.id, header)?;
        let found = number.checked_sub(1).and_then(|at| content.generations.get(at as usize));
        let generation = found.ok_or(KeysError::UnknownGeneration(number))?;
        header::open(header, &generation.key)
    }

    /// The number of the generation that new files use.
    pub fn generation(&self) -> u64 {
        newest(&self.content()).number
    }

    /// When the generation that new files use was made, in seconds since 1970.
    pub fn newest_secs(&self) -> u64 {
        newest(&self.content()).created_secs
    }

    /// The id of the master key, in hexadecimal digits.
    pub fn master_key_id(&self) -> String {
        self.master.id()
    }

    /// What a KMIP server calls the master key; else empty.
    pub fn master_key_name(&self) -> &str {
        self.master.name()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // A content is replaced as a whole, so it is right after a panic too.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("master", &self.master).finish_non_exhaustive()
    }
}

fn newest(content: &Content) -> &Generation {
    // There is always one: it is created with the file, and a file without one is refused.
    &content.generations[content.generations.len() - 1]
}

fn generation(number: u64) -> Result<Generation, KeysError> {
    let created_secs =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Ok(Generation { number, created_secs, key: seal::random()? })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use nagi_testkit::Scratch;

    use super::*;
    use crate::keys_file::{FILE_NAME, summary};

    const STEPS: [Step; 5] =
        [Step::Create, Step::Write, Step::Sync, Step::Rename, Step::SyncFolder];

    fn master(byte: u8) -> MasterKey {
        MasterKey::from_bytes(&[byte; 32], "").expect("the length is allowed")
    }

    fn folder() -> Scratch {
        let folder = Scratch::new();
        fs::create_dir_all(folder.path()).expect("it can be created");
        folder
    }

    /// A kill before a step: what was done stays as it is.
    fn killed_before(stop: Step) -> impl Fn(Step) -> io::Result<()> {
        move |step| if step == stop { Err(io::Error::other("killed")) } else { Ok(()) }
    }

    fn encrypted(keys: &Keys) -> (Box<[u8; HEADER_BYTES]>, Vec<u8>) {
        let (header, cipher) = keys.new_file().expect("there are random bytes");
        let mut bytes = b"a document".to_vec();
        cipher.apply(77, &mut bytes);
        (header, bytes)
    }

    #[track_caller]
    fn assert_reads(keys: &Keys, (header, bytes): &(Box<[u8; HEADER_BYTES]>, Vec<u8>)) {
        let mut bytes = bytes.clone();
        keys.open_file(&header[..]).expect("it is ours").apply(77, &mut bytes);
        assert_eq!(bytes, b"a document");
    }

    #[test]
    fn files_are_read_after_every_kind_of_rotation() {
        let folder = folder();
        let keys = Keys::open(folder.path(), &master(1), true).unwrap();
        let first = encrypted(&keys);
        assert_ne!(first.1, b"a document");
        assert_eq!((keys.rotate().unwrap(), keys.generation()), (2, 2));
        let second = encrypted(&keys);
        assert_ne!(first.0[16], second.0[16], "it names its generation");
        drop(keys);
        let keys = Keys::change_master(folder.path(), &master(1), &master(2)).unwrap();
        assert_eq!(keys.rotate().unwrap(), 3);
        let third = encrypted(&keys);
        drop(keys);
        // Again, as an operator does whose first attempt was killed late.
        Keys::change_master(folder.path(), &master(1), &master(2)).unwrap();
        let keys = Keys::open(folder.path(), &master(2), false).unwrap();
        for file in [&first, &second, &third] {
            assert_reads(&keys, file);
        }
        let told = summary(folder.path()).unwrap().unwrap();
        assert_eq!((told.generations, told.master_key_id), (3, master(2).id()));
        assert_eq!(told.newest_secs, keys.newest_secs());
    }

    #[test]
    fn a_wrong_master_key_is_named() {
        let folder = folder();
        Keys::open(folder.path(), &master(1), true).unwrap();
        for fresh in [true, false] {
            let error = Keys::open(folder.path(), &master(2), fresh).unwrap_err().to_string();
            for part in [FILE_NAME, &master(1).id(), &master(2).id()] {
                assert!(error.contains(part), "{error}");
            }
        }
        let third = Keys::change_master(folder.path(), &master(3), &master(4));
        assert!(matches!(third, Err(KeysError::WrongMasterKey { .. })));
        assert!(!format!("{third:?}").contains("[3, 3"));
    }

    #[test]
    fn data_without_keys_are_not_encrypted() {
        let folder = folder();
        let open = Keys::open(folder.path(), &master(1), false);
        assert!(matches!(open, Err(KeysError::NotEncrypted(_))));
        let changed = Keys::change_master(folder.path(), &master(1), &master(2));
        assert!(matches!(changed, Err(KeysError::NotEncrypted(_))));
        assert_eq!(summary(folder.path()).unwrap(), None);
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing was written");
    }

    #[test]
    fn a_kill_while_keys_are_created_leaves_all_or_nothing() {
        for stop in STEPS {
            let folder = folder();
            let killed = Keys::open_with(folder.path(), &master(1), true, &killed_before(stop));
            assert!(matches!(killed, Err(KeysError::Io(..))), "{stop:?}");
            let there = summary(folder.path()).unwrap().is_some();
            assert_eq!(there, stop == Step::SyncFolder);
            let keys = Keys::open(folder.path(), &master(1), true).unwrap();
            let file = encrypted(&keys);
            drop(keys);
            assert_reads(&Keys::open(folder.path(), &master(1), false).unwrap(), &file);
            let files = fs::read_dir(folder.path()).unwrap().count();
            assert!(there || files == 1, "nothing else is left");
        }
    }

    #[test]
    fn a_kill_while_the_master_key_changes_leaves_one_of_both() {
        for stop in STEPS {
            let folder = folder();
            let file = encrypted(&Keys::open(folder.path(), &master(1), true).unwrap());
            let (old, new) = (master(1), master(2));
            let killed = Keys::change_master_with(folder.path(), &old, &new, &killed_before(stop));
            assert!(killed.is_err());
            let now = if stop == Step::SyncFolder { &new } else { &old };
            assert_reads(&Keys::open(folder.path(), now, false).unwrap(), &file);
            let keys = Keys::change_master(folder.path(), &old, &new).unwrap();
            assert_reads(&keys, &file);
        }
    }

    #[test]
    fn a_kill_while_a_generation_is_added_loses_no_file() {
        for stop in STEPS {
            let folder = folder();
            let keys = Keys::open(folder.path(), &master(1), true).unwrap();
            let files = Cell::new(vec![encrypted(&keys)]);
            assert!(keys.rotate_with(&killed_before(stop)).is_err());
            // An error that is no kill: the old generation stays in use.
            assert_eq!(keys.generation(), 1);
            let mut files = files.take();
            files.push(encrypted(&keys));
            drop(keys);
            let keys = Keys::open(folder.path(), &master(1), false).unwrap();
            files.iter().for_each(|file| assert_reads(&keys, file));
            keys.rotate().unwrap();
            files.iter().for_each(|file| assert_reads(&keys, file));
        }
    }

    #[test]
    fn each_flipped_bit_and_each_cut_of_the_keys_is_found() {
        let folder = folder();
        let keys = Keys::open(folder.path(), &master(1), true).unwrap();
        keys.rotate().unwrap();
        let path = folder.path().join(FILE_NAME);
        let good = fs::read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            Keys::open(folder.path(), &master(1), false).is_err_and(|error| error.is_damage())
        };
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&bytes), "bit {bit}");
        }
        for len in 0..good.len() {
            assert!(refused(&good[..len]), "{len} bytes");
        }
        assert!(refused(&[&good[..], &[0]].concat()));
        assert!(refused(&vec![7; 1 << 20]));
        assert!(!refused(&good));
    }

    /// Somebody who can write the file but has no key: checksums are no obstacle.
    #[test]
    fn changed_keys_with_a_right_checksum_are_refused() {
        let folder = folder();
        let keys = Keys::open(folder.path(), &master(1), true).unwrap();
        keys.rotate().unwrap();
        let path = folder.path().join(FILE_NAME);
        let good = fs::read(&path).unwrap();
        let refused = |mut bytes: Vec<u8>| {
            let checksum = crc32c::crc32c(&bytes);
            bytes.extend_from_slice(&checksum.to_le_bytes());
            fs::write(&path, bytes).unwrap();
            Keys::open(folder.path(), &master(1), false).is_err()
        };
        let content = &good[..good.len() - 4];
        for at in 0..content.len() {
            let mut bytes = content.to_vec();
            bytes[at] ^= 0x10;
            assert!(refused(bytes), "byte {at}");
        }
        let mut one = content[..content.len() - 84].to_vec();
        one[12] = 1;
        assert!(refused(one), "the second generation is taken away");
        assert!(!refused(content.to_vec()));
    }

    #[test]
    fn each_flipped_bit_of_a_header_is_found() {
        let folder = folder();
        let keys = Keys::open(folder.path(), &master(1), true).unwrap();
        let (header, _) = keys.new_file().unwrap();
        // Each bit where something is, and one of each byte of the zeros between.
        let zeros = 128 * 8..(HEADER_BYTES - 8) * 8;
        for bit in (0..HEADER_BYTES * 8).filter(|bit| !zeros.contains(bit) || bit % 8 == 3) {
            let mut bytes = header.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(keys.open_file(&bytes[..]).is_err_and(|error| error.is_damage()), "bit {bit}");
        }
        for len in [0, 1, 16, HEADER_BYTES - 1] {
            assert!(keys.open_file(&header[..len]).is_err(), "{len} bytes");
        }
        // Bytes after the header are content.
        keys.open_file(&[&header[..], b"content"].concat()).unwrap();
        for at in 8..108 {
            let mut bytes = header.clone();
            bytes[at] ^= 1;
            let checksum = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
            bytes[HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
            assert!(keys.open_file(&bytes[..]).is_err(), "byte {at}, with a right checksum");
        }
    }

    #[test]
    fn files_of_other_directories_are_refused() {
        let (one, two) = (folder(), folder());
        let keys = Keys::open(one.path(), &master(1), true).unwrap();
        let other = Keys::open(two.path(), &master(1), true).unwrap();
        let (header, _) = other.new_file().unwrap();
        assert!(matches!(keys.open_file(&header[..]), Err(KeysError::ForeignFile)));
        // Keys of an old backup beside newer files.
        let old = fs::read(one.path().join(FILE_NAME)).unwrap();
        keys.rotate().unwrap();
        let (header, _) = keys.new_file().unwrap();
        drop(keys);
        fs::write(one.path().join(FILE_NAME), old).unwrap();
        let keys = Keys::open(one.path(), &master(1), false).unwrap();
        assert!(matches!(keys.open_file(&header[..]), Err(KeysError::UnknownGeneration(2))));
    }

    #[test]
    fn rotations_have_a_limit() {
        let folder = folder();
        let keys = Keys::open(folder.path(), &master(1), true).unwrap();
        {
            let mut content = keys.content();
            let first = content.generations[0].clone();
            content.generations =
                (1..=4096).map(|number| Generation { number, ..first.clone() }).collect();
            keys_file::store(folder.path(), &content, &keys.master, &go_on).unwrap();
        }
        assert!(matches!(keys.rotate(), Err(KeysError::TooManyGenerations(4096))));
        assert_eq!(Keys::open(folder.path(), &master(1), false).unwrap().generation(), 4096);
    }
}
