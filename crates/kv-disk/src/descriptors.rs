//! Descriptors kept for the journal and the data files.
//!
//! The table of open files may be full, the process's or the system's, when a commit needs the journal's next
//! file; without it the database takes no more writes. So some descriptors are open from the start on for nothing.
//! Who finds the table full closes one of them and tries again; a thread of the engine opens them anew when there is
//! room. Used by all databases of the process.

use std::{
    fs::File,
    io,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// A journal, a table and its directory at once, and their successors.
const COUNT: usize = 16;
/// With none left, others may close theirs: so often, and so long, it is tried again.
const PAUSE: Duration = Duration::from_millis(20);
const WAIT_MAX: Duration = Duration::from_secs(10);

static KEPT: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Opens those that are missing, if that can be done now.
pub fn keep() {
    let mut kept = KEPT.lock();
    while kept.len() < COUNT {
        match File::open("/dev/null") {
            Ok(file) => kept.push(file),
            Err(_) => return,
        }
    }
}

/// Whether an error says that the table of open files is full.
pub fn ran_out(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Makes room for one more file: closes a kept one, or else waits a moment.
#[cold]
pub fn give() {
    let kept = KEPT.lock().pop();
    match kept {
        Some(file) => drop(file),
        None => std::thread::sleep(PAUSE),
    }
}

/// Runs what opens a file again while the table is full, some seconds long.
pub fn patiently<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        match open() {
            Err(error) if ran_out(&error) && begin.elapsed() < WAIT_MAX => give(),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_is_asked_again() {
        keep();
        let mut attempts = 0;
        let opened = patiently(|| {
            attempts += 1;
            match attempts {
                1 => Err(io::Error::from_raw_os_error(libc::EMFILE)),
                2 => Err(io::Error::from_raw_os_error(libc::ENFILE)),
                _ => Ok(attempts),
            }
        });
        assert_eq!(opened.expect("opens"), 3);
        let other = patiently(|| Err::<(), _>(io::Error::from_raw_os_error(libc::ENOENT)));
        assert_eq!(other.expect_err("is not there").raw_os_error(), Some(libc::ENOENT));
    }
}
