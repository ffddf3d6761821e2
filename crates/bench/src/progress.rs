//! Prints the progress of a long run as one line on the terminal. Nothing is printed if the output is no
//! terminal.
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(200);
const WIDTH: usize = 40;

pub(crate) struct Progress {
    what: String,
    total: u64,
    shown: Option<Instant>,
    visible: bool,
}

impl Progress {
    pub(crate) fn new(what: &str, total: u64) -> Progress {
        let visible = std::io::stderr().is_terminal();
        Progress { what: what.to_owned(), total: total.max(1), shown: None, visible }
    }

    pub(crate) fn at(&mut self, done: u64) {
        if !self.visible || self.shown.is_some_and(|shown| shown.elapsed() < EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let _ = write!(std::io::stderr(), "\r{}", line(&self.what, done, self.total));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r{:1$}\r", "", self.what.len() + WIDTH + 10);
        }
    }
}

fn line(what: &str, done: u64, total: u64) -> String {
    let done = done.min(total);
    let full = (done as usize * WIDTH) / total as usize;
    let (bar, rest) = ("#".repeat(full), ".".repeat(WIDTH - full));
    format!("{what} [{bar}{rest}] {:3} %", done * 100 / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(line("x", 0, 10), format!("x [{}]   0 %", ".".repeat(40)));
        assert_eq!(line("x", 20, 10), format!("x [{}] 100 %", "#".repeat(40)));
    }
}
