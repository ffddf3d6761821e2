//! Folders of tests, and what a disk may do to files in them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// The name of a folder that no one else uses; it is not made yet. Removed with all in it when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    #[expect(clippy::new_without_default, reason = "each one is another folder")]
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("nagi-test-{}-{number}", process::id()));
        // Of a process with the same number, long ago.
        let _ = fs::remove_dir_all(&path);
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies a folder with all in it.
///
/// # Errors
/// Of the file system.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}

/// Flips a bit of the byte at an offset.
///
/// # Errors
/// Of the file system.
pub fn flip(path: &Path, at: usize) -> io::Result<()> {
    let mut bytes = fs::read(path)?;
    bytes[at] ^= 0x10;
    fs::write(path, bytes)
}

/// What a power cut may leave of a file whose bytes from `at` on had not been synced: the rest is missing,
/// or a sector of it was never written.
pub fn torn_at(whole: &[u8], at: usize) -> [Vec<u8>; 2] {
    let mut hole = whole.to_vec();
    let end = (at + 512).min(hole.len());
    hole[at..end].fill(0);
    [whole[..at].to_vec(), hole]
}
