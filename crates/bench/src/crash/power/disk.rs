//! A disk with a volatile cache: bytes written after the last flush may be lost when the power is cut.
//!
//! The bytes are in an ordinary file, which always has the latest content, as readers see it. For each 4 KB
//! page written since the last flush, the content at that flush is kept. A power cut restores some of these
//! pages, in sectors of 512 bytes. So writes are lost, reordered and torn, as on real disks.
use crate::random::Random;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

const PAGE: usize = 4096;
const SECTOR: usize = 512;
const EIO: i32 = 5;

pub(super) struct Disk {
    file: File,
    pub(super) bytes: u64,
    state: Mutex<State>,
    dead: AtomicBool,
    pub(super) flushes: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The content of each unflushed page as of the last flush.
    undo: HashMap<u64, [u8; PAGE]>,
    armed: Option<Armed>,
    cut: Option<(Cut, Instant)>,
}

/// A scheduled cut: it occurs at the n-th write that finds at least this number of unflushed pages.
pub(super) struct Armed {
    pub(super) writes: u64,
    pub(super) pages: usize,
    pub(super) loss: Loss,
    pub(super) random: Random,
}

/// The amount of data that a cut discarded.
#[derive(Clone, Copy, Default)]
pub(super) struct Cut {
    pub(super) pages: u64,
    pub(super) sectors_lost: u64,
}

/// The part of the unflushed data that is lost.
#[derive(Clone, Copy)]
pub(super) enum Loss {
    All,
    /// Whole pages, each with this probability in percent.
    Pages(u64),
    /// Sectors, each with this probability in percent: pages are torn.
    Sectors(u64),
}

impl Disk {
    /// Creates a disk of this size, backed by the file `path`.
    pub(super) fn create(path: &Path, bytes: u64) -> io::Result<Disk> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(bytes)?;
        Ok(Disk {
            file,
            bytes,
            state: Mutex::default(),
            dead: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
        })
    }

    fn alive(&self) -> io::Result<()> {
        match self.dead.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => Ok(()),
        }
    }

    pub(super) fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.alive()?;
        self.file.read_exact_at(out, at)
    }

    pub(super) fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let pages = state.undo.len();
        if let Some(armed) = &mut state.armed
            && pages >= armed.pages
        {
            armed.writes = armed.writes.saturating_sub(1);
            if armed.writes == 0 {
                let (loss, mut random) = (armed.loss, Random::new(armed.random.next()));
                self.lose(&mut state, loss, &mut random)?;
            }
        }
        self.alive()?;
        if data.is_empty() {
            return Ok(());
        }
        if at + data.len() as u64 > self.bytes {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let last = (at + data.len() as u64 - 1) / PAGE as u64;
        for page in at / PAGE as u64..=last {
            if let std::collections::hash_map::Entry::Vacant(entry) = state.undo.entry(page) {
                let mut before = [0; PAGE];
                self.file.read_exact_at(&mut before, page * PAGE as u64)?;
                entry.insert(before);
            }
        }
        self.file.write_all_at(data, at)
    }

    /// Makes everything written so far durable.
    pub(super) fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        self.alive()?;
        state.undo.clear();
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Schedules a power cut amid a group of related writes.
    pub(super) fn arm(&self, armed: Armed) {
        self.state().armed = Some(armed);
    }

    /// The data that a scheduled cut discarded, and its time, if the cut has occurred.
    pub(super) fn was_cut(&self) -> Option<(Cut, Instant)> {
        self.state().cut
    }

    /// Cuts the power: every later request fails.
    pub(super) fn cut(&self, loss: Loss, random: &mut Random) -> io::Result<(Cut, Instant)> {
        let mut state = self.state();
        match state.cut {
            Some(cut) => Ok(cut),
            None => self.lose(&mut state, loss, random),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(
        &self,
        state: &mut State,
        loss: Loss,
        random: &mut Random,
    ) -> io::Result<(Cut, Instant)> {
        self.dead.store(true, Ordering::SeqCst);
        let at = Instant::now();
        state.armed = None;
        let mut cut = Cut { pages: state.undo.len() as u64, ..Cut::default() };
        for (page, before) in state.undo.drain() {
            let whole = match loss {
                Loss::All => true,
                Loss::Pages(percent) => random.below(100) < percent,
                Loss::Sectors(_) => false,
            };
            for (sector, bytes) in before.chunks(SECTOR).enumerate() {
                let lost = match loss {
                    Loss::Sectors(percent) => random.below(100) < percent,
                    Loss::All | Loss::Pages(_) => whole,
                };
                if lost {
                    self.file.write_all_at(bytes, page * PAGE as u64 + (sector * SECTOR) as u64)?;
                    cut.sectors_lost += 1;
                }
            }
        }
        state.cut = Some((cut, at));
        Ok((cut, at))
    }

    /// Restores the power.
    pub(super) fn revive(&self) {
        self.state().cut = None;
        self.dead.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flushed_stays_and_the_rest_may_go() {
        let path = std::env::temp_dir().join(format!("nagi-disk-{}", std::process::id()));
        let disk = Disk::create(&path, 1 << 20).unwrap();
        let mut random = Random::new(7);
        disk.write(100, &[1; 9000]).unwrap();
        disk.flush().unwrap();
        disk.write(200, &[2; 9000]).unwrap();
        let (cut, _) = disk.cut(Loss::All, &mut random).unwrap();
        assert_eq!((cut.pages, cut.sectors_lost), (3, 24));
        assert!(disk.write(0, &[3]).is_err() && disk.flush().is_err());
        disk.revive();
        let mut found = vec![0; 9100];
        disk.read(0, &mut found).unwrap();
        assert!(found[..100].iter().all(|b| *b == 0) && found[100..].iter().all(|b| *b == 1));
        disk.write(0, &[4; 8192]).unwrap();
        let loss = Loss::Sectors(50);
        disk.arm(Armed { writes: 2, pages: 1, loss, random: Random::new(3) });
        disk.write(8192, &[5; 10]).unwrap();
        assert!(disk.write(8192, &[6; 10]).is_err());
        let (cut, _) = disk.was_cut().unwrap();
        assert!(cut.sectors_lost > 0 && cut.sectors_lost < 24, "{}", cut.sectors_lost);
        std::fs::remove_file(path).unwrap();
    }
}
