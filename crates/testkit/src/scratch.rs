//! Temporary folders for tests, and simulated disk damage to files in them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// The name of a unique folder, which is not created yet. The folder and its content are removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    #[expect(clippy::new_without_default, reason = "each call returns a different folder")]
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("nagi-test-{}-{number}", process::id()));
        // Left by an earlier process with the same process id.
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

/// Copies a folder and its content.
///
/// # Errors
/// Errors of the file system.
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
/// Errors of the file system.
pub fn flip(path: &Path, at: usize) -> io::Result<()> {
    let mut bytes = fs::read(path)?;
    bytes[at] ^= 0x10;
    fs::write(path, bytes)
}

/// The possible content of a file after a power cut if its bytes from `at` on were not synced: either the rest
/// is missing, or one sector of it was never written.
pub fn torn_at(whole: &[u8], at: usize) -> [Vec<u8>; 2] {
    let mut hole = whole.to_vec();
    let end = (at + 512).min(hole.len());
    hole[at..end].fill(0);
    [whole[..at].to_vec(), hole]
}
