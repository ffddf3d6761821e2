//! Files of `/proc` and `/sys` as text.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// More of a file is not read; a table of mounts may be long.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Opens a regular file; none if there is none. Opening a pipe would wait for its other end.
pub fn open(path: &Path) -> Option<File> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    File::open(path).ok()
}

/// The text of a file. A name of a process may be any bytes, so what is not UTF-8 is replaced.
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    open(path.as_ref())?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// A file that holds one number.
pub fn number(path: impl AsRef<Path>) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_there() {
        assert_eq!(text("/proc/no such file"), None);
        assert_eq!(text("/proc/self"), None, "a folder");
        assert_eq!(number("/proc/self/comm"), None, "no number");
        assert!(number("/proc/sys/kernel/pid_max").is_some_and(|n| n > 1));
        assert!(text("/proc/self/status").is_some());
    }
}
