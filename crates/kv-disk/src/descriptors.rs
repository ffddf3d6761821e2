//! Reserve file descriptors for the log and the data files.
//!
//! When a commit needs the next file of the log, the table of open files of the process or of the system may be
//! full, and without that file the database cannot accept writes. So some descriptors are kept open from the start
//! as a reserve. A thread that finds the table full closes one of them and retries; a thread of the engine reopens
//! them when that is possible. All databases of the process share the reserve.

use std::{
    fs::File,
    io,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Enough for a log file, a table file and its directory at once, and for their successors.
const COUNT: usize = 16;
/// With an empty reserve, other threads may close files: the open is retried at this interval, for this time.
const PAUSE: Duration = Duration::from_millis(20);
const WAIT_MAX: Duration = Duration::from_secs(10);

static KEPT: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Opens missing reserve descriptors, if that is possible.
pub fn keep() {
    let mut kept = KEPT.lock();
    while kept.len() < COUNT {
        match File::open("/dev/null") {
            Ok(file) => kept.push(file),
            Err(_) => return,
        }
    }
}

/// Returns true if an error means that the table of open files is full.
pub fn ran_out(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Makes a descriptor available: closes a reserve one, or waits a moment if there is none.
#[cold]
pub fn give() {
    let kept = KEPT.lock().pop();
    match kept {
        Some(file) => drop(file),
        None => std::thread::sleep(PAUSE),
    }
}

/// Calls `open` again while the table of open files is full, for some seconds.
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
