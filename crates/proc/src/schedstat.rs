//! `/proc/thread-self/schedstat`: for how long a thread waited for a processor, from a file that stays open.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::time::Duration;

/// Reads again and again how long one thread has waited while it could run: some microseconds each time.
#[derive(Debug)]
pub struct Schedstat {
    file: File,
}

impl Schedstat {
    /// Of the thread that calls this. None where the kernel does not count it.
    pub fn of_this_thread() -> Option<Schedstat> {
        let mut own = Schedstat { file: File::open("/proc/thread-self/schedstat").ok()? };
        own.waited().map(|_| own)
    }

    /// The time since the thread's start for which it could run and no processor ran it.
    pub fn waited(&mut self) -> Option<Duration> {
        let mut text = [0; 128];
        self.file.rewind().ok()?;
        let len = self.file.read(&mut text).ok()?;
        parse(std::str::from_utf8(&text[..len]).ok()?)
    }
}

/// Nanoseconds on a processor, nanoseconds of waiting, and the number of times that it ran. A kernel that counts none
/// of them has zeros.
fn parse(text: &str) -> Option<Duration> {
    let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse::<u64>().ok());
    let (_, waited, runs) = (fields.next()?, fields.next()?, fields.next()?);
    (runs > 0).then_some(Duration::from_nanos(waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_the_second_field() {
        assert_eq!(parse("5000 1000000 3\n"), Some(Duration::from_millis(1)));
        for odd in ["", "5", "5 6", "5 x 7", "0 0 0\n", "5 18446744073709551616 1"] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_thread_reads_its_own_again_and_again() {
        let Some(mut own) = Schedstat::of_this_thread() else { return };
        let first = own.waited().unwrap();
        assert!(own.waited().unwrap() >= first);
    }
}
