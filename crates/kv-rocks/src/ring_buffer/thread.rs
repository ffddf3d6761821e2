//! The ring buffer: the functions called by RocksDB, and the thread that writes the ring's records to the files.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use nagi_kv_disk::descriptors;
use parking_lot::{Condvar, Mutex};

use super::{
    files::{self, LogFile},
    ring::{Kind, Record, Ring},
};
use crate::wal::Mark;

/// The thread lets records accumulate for this time, so that one write serves many commits.
const GATHER: Duration = Duration::from_millis(1);
/// After this many rounds without a record, the thread sleeps until it is woken.
const IDLE_ROUNDS: u32 = 50;
const SLEEP: Duration = Duration::from_secs(1);
/// Limit of the bytes written at once.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// A full disk is retried this often, at intervals of `FULL_PAUSE`, before the log counts as failed.
const FULL_ATTEMPTS: u32 = 20;
const FULL_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause of an append while the ring fills: commits slow down early instead of stopping.
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// How often the time of the ring's file is set.
const TOUCH_EACH: Duration = Duration::from_hours(1);

/// The values that `serverStatus` shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) capacity_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) used_bytes_max: u64,
    /// Number of appends that waited because the ring was full.
    pub(crate) waits: u64,
    /// Total microseconds for which appends were slowed down or waited, also those of the wait in progress.
    pub(crate) waited_us: u64,
    /// For how long an append has been waiting now; 0 if none waits.
    pub(crate) waiting_us: u64,
}

/// See the module's header.
pub(crate) struct RingBuffer {
    pub(super) inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
    /// The file that names the ring, and the ring; removed once, at an orderly shutdown.
    litter: Mutex<Vec<PathBuf>>,
    /// Holds the ring's lock.
    ring_file: File,
    /// The removal of the ring's name was logged.
    removal_told: AtomicBool,
    /// When [`RingBuffer::touch`] has set the file's time; first when the file was created.
    touched: Mutex<Instant>,
}

/// An open log.
#[derive(Default)]
struct Open {
    handle: Option<Arc<File>>,
    error: Option<i32>,
    /// True if the error was reported to RocksDB.
    told: bool,
}

/// The state of a log.
enum Condition {
    Fine,
    /// It has failed; RocksDB gets the error with this call.
    Failed(i32),
    /// RocksDB got the error before. It uses such a log only to dispose of it: when there is disk space it flushes
    /// all memtables, and syncs and closes the log only then. That has to succeed, otherwise RocksDB never accepts
    /// writes again; the tables contain the data that the log lacks.
    GivenUp,
}

/// The appended bytes.
#[derive(Default)]
struct Producer {
    /// The open logs and their sizes in bytes.
    open: Vec<(u64, u64)>,
    /// The previous log, and its size.
    previous: (u64, u64),
    /// Number of marks written to the ring.
    marks: usize,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// When the append that waits began to wait. The producer's lock lets only one do so.
    append_waits: Option<Instant>,
}

pub(super) struct Inner {
    dir: PathBuf,
    /// Bytes of the header of each log; 0 without encryption.
    head: u64,
    ring: Ring,
    /// Held while records are appended.
    producer: Mutex<Producer>,
    /// The newest log.
    newest: AtomicU64,
    open: Mutex<HashMap<u64, Open>>,
    any_failed: AtomicBool,
    failures: AtomicU64,
    state: Mutex<State>,
    /// The thread waits here.
    wake: Condvar,
    /// Threads that wait for the thread do so here.
    done: Condvar,
    waiting: AtomicUsize,
    sleeping: AtomicBool,
    used_max: AtomicU64,
    waits: AtomicU64,
    waited_us: AtomicU64,
}

impl RingBuffer {
    pub(super) fn start(
        dir: &Path,
        ring: Ring,
        ring_file: File,
        litter: Vec<PathBuf>,
        head: u64,
    ) -> io::Result<RingBuffer> {
        let inner = Arc::new(Inner {
            dir: dir.to_owned(),
            head,
            ring,
            producer: Mutex::default(),
            newest: AtomicU64::new(0),
            open: Mutex::default(),
            any_failed: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            state: Mutex::default(),
            wake: Condvar::new(),
            done: Condvar::new(),
            waiting: AtomicUsize::new(0),
            sleeping: AtomicBool::new(false),
            used_max: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
        });
        descriptors::keep();
        let own = Arc::clone(&inner);
        let thread =
            thread::Builder::new().name("ring-buffer".to_owned()).spawn(move || own.run())?;
        Ok(RingBuffer {
            inner,
            thread: Some(thread),
            litter: Mutex::new(litter),
            ring_file,
            removal_told: AtomicBool::new(false),
            touched: Mutex::new(Instant::now()),
        })
    }

    /// The newest log; 0 before the first.
    pub(crate) fn newest(&self) -> u64 {
        self.inner.newest.load(Ordering::Acquire)
    }

    /// The position that a sync beginning at this moment will make durable. No batch may be in progress.
    pub(crate) fn mark(&self) -> Mark {
        let producer = self.inner.producer.lock();
        let (log, offset) = producer.open.iter().max().copied().unwrap_or_default();
        // A log that could not be written was abandoned, and the tables contain the data that it lacks.
        let failed = self.inner.any_failed.load(Ordering::Relaxed);
        let (previous, previous_bytes) = if failed { (0, 0) } else { producer.previous };
        Mark { log, offset, previous, previous_bytes }
    }

    /// Stores the synced position in the ring, for the process that opens the folder after a kill.
    pub(crate) fn set_synced(&self, mark: &Mark) {
        let mut producer = self.inner.producer.lock();
        self.inner.ring.set_mark(mark, producer.marks);
        producer.marks += 1;
    }

    /// The orderly shutdown, after the last commit: removes the ring's name and the file that points to it, if
    /// everything appended is in the log's files. The ring itself works until it is dropped, which may not happen
    /// before the process exits.
    pub(crate) fn retire(&self) {
        self.inner.drain();
        self.remove_names();
    }

    fn remove_names(&self) {
        // Data that could not be written stays in the ring, for the next process that opens the folder.
        if self.inner.used() == 0 {
            for path in self.litter.lock().drain(..) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Warns, once, if something has removed the ring's file: this process works on with it, but the next one cannot
    /// find it. Returns true if it has warned. Costs a system call.
    pub(crate) fn warn_if_removed(&self) -> bool {
        // Without names it is removed in order.
        let litter = self.litter.lock();
        let Some(ring) = litter.last() else { return false };
        let is_removed = self.ring_file.metadata().is_ok_and(|found| found.nlink() == 0);
        if !is_removed || self.removal_told.swap(true, Ordering::Relaxed) {
            return false;
        }
        log::warn!(target: "STORAGE", id = 7_702_021, ring = ring.display().to_string();
            "The ring buffer of the journal was removed by another program: if this process is killed, the commits \
             of the last moments that wait in it are lost. Restart the server, in order, which loses nothing, and \
             find what removes the file, such as RemoveIPC=yes of systemd-logind, or a cleaner of temporary files");
        true
    }

    /// Sets the ring's time of modification to now, at most once an hour: writes to shared memory do not, and servers
    /// remove a ring that was not used for days (place.rs).
    pub(crate) fn touch(&self) {
        let mut touched = self.touched.lock();
        if touched.elapsed() >= TOUCH_EACH {
            *touched = Instant::now();
            // The worst case is an old time.
            let _ = self.ring_file.set_modified(SystemTime::now());
        }
    }

    /// Number of logs that could not be written so far.
    pub(crate) fn failures(&self) -> u64 {
        self.inner.failures.load(Ordering::SeqCst)
    }

    pub(crate) fn gauges(&self) -> Gauges {
        let inner = &self.inner;
        let state = inner.state.lock();
        // At least 1, so that a wait that has just begun can be told from none.
        let waiting_us = state.append_waits.map_or(0, |since| micros(since.elapsed()).max(1));
        Gauges {
            capacity_bytes: inner.ring.capacity(),
            used_bytes: inner.used(),
            used_bytes_max: inner.used_max.load(Ordering::Relaxed),
            waits: inner.waits.load(Ordering::Relaxed),
            waited_us: inner.waited_us.load(Ordering::Relaxed) + waiting_us,
            waiting_us,
        }
    }
}

impl Drop for RingBuffer {
    fn drop(&mut self) {
        self.inner.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.remove_names();
    }
}

impl Inner {
    fn used(&self) -> u64 {
        self.ring.tail() - self.ring.head()
    }

    /// Creates a log.
    pub(super) fn create(&self, number: u64) -> i32 {
        self.open_log(Kind::Create, number, 0)
    }

    /// Reuses the file of the log `old` for `number`.
    pub(super) fn reuse(&self, number: u64, old: u64) -> i32 {
        self.open_log(Kind::Reuse, number, old)
    }

    fn open_log(&self, kind: Kind, number: u64, argument: u64) -> i32 {
        let mut producer = self.producer.lock();
        self.open.lock().insert(number, Open::default());
        producer.open.retain(|(other, _)| *other != number);
        if let Some(last) = producer.open.iter().max() {
            producer.previous = *last;
        }
        producer.open.push((number, 0));
        self.newest.store(number, Ordering::Release);
        self.push(kind, number, argument, &[]);
        0
    }

    /// Appends to a log. Pauses while the ring fills, and waits while it is full.
    pub(super) fn append(&self, number: u64, bytes: &[u8]) -> i32 {
        if self.any_failed.load(Ordering::Relaxed) {
            match self.condition(number) {
                Condition::Fine => {}
                Condition::Failed(code) => return code,
                Condition::GivenUp => return 0,
            }
        }
        let mut producer = self.producer.lock();
        let Some(at) = producer.open.iter().position(|(open, _)| *open == number) else {
            return libc::EBADF;
        };
        for piece in bytes.chunks(self.ring.bytes_max()) {
            let offset = producer.open[at].1;
            self.push(Kind::Data, number, offset, piece);
            producer.open[at].1 += piece.len() as u64;
        }
        drop(producer);
        self.slow_down();
        0
    }

    /// Returns once everything appended before is durable.
    pub(super) fn sync(&self, number: u64) -> i32 {
        self.drain();
        match self.condition(number) {
            Condition::Fine => {}
            Condition::Failed(code) => return code,
            Condition::GivenUp => return 0,
        }
        let handle = match self.open.lock().get(&number) {
            Some(log) => log.handle.clone(),
            None => return libc::EBADF,
        };
        match handle.map(|file| file.sync_data()) {
            Some(Ok(())) => 0,
            Some(Err(error)) => error.raw_os_error().unwrap_or(libc::EIO),
            None => libc::EIO,
        }
    }

    /// Finishes a log.
    pub(super) fn close(&self, number: u64) -> i32 {
        let mut producer = self.producer.lock();
        let Some(at) = producer.open.iter().position(|(open, _)| *open == number) else { return 0 };
        let (_, size) = producer.open.swap_remove(at);
        self.push(Kind::Close, number, size, &[]);
        drop(producer);
        match self.condition(number) {
            Condition::Failed(code) => code,
            Condition::Fine | Condition::GivenUp => 0,
        }
    }

    /// Returns once everything appended so far has been written to the files.
    pub(super) fn drain(&self) {
        let target = self.ring.tail();
        if self.ring.head() >= target {
            return;
        }
        self.wait_until(|| self.ring.head() >= target);
    }

    /// Keeps the thread from writing while `work` runs, as a disk does that stands still.
    #[cfg(test)]
    pub(super) fn held<T>(&self, work: impl FnOnce() -> T) -> T {
        let _open = self.open.lock();
        work()
    }

    fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    fn has_failed(&self, number: u64) -> bool {
        self.open.lock().get(&number).is_some_and(|log| log.error.is_some())
    }

    /// The state to report to RocksDB; an error is reported once.
    fn condition(&self, number: u64) -> Condition {
        let mut open = self.open.lock();
        let Some(log) = open.get_mut(&number) else { return Condition::Fine };
        match log.error {
            None => Condition::Fine,
            Some(_) if std::mem::replace(&mut log.told, true) => Condition::GivenUp,
            Some(code) => Condition::Failed(code),
        }
    }

    /// Called with the producer's lock held.
    fn push(&self, kind: Kind, number: u64, argument: u64, bytes: &[u8]) {
        if !self.ring.push(kind, number, argument, bytes) {
            let begin = Instant::now();
            self.waits.fetch_add(1, Ordering::Relaxed);
            self.state.lock().append_waits = Some(begin);
            self.wait_until(|| self.ring.push(kind, number, argument, bytes));
            // Under the lock, so that a reader sees the time once.
            let mut state = self.state.lock();
            state.append_waits = None;
            self.note_waited(begin.elapsed());
        }
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) {
            let _state = self.state.lock();
            self.wake.notify_one();
        }
    }

    fn wait_until(&self, mut ready: impl FnMut() -> bool) {
        let mut state = self.state.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !ready() {
            self.wake.notify_one();
            // The thread notifies after each step; the timeout is a safety net.
            self.done.wait_for(&mut state, Duration::from_millis(20));
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Above half the capacity each append pauses: from zero at half to `PAUSE_MAX` when full.
    fn slow_down(&self) {
        let (used, half) = (self.used(), self.ring.capacity() / 2);
        self.used_max.fetch_max(used, Ordering::Relaxed);
        if used <= half {
            return;
        }
        let begin = Instant::now();
        thread::sleep(PAUSE_MAX.mul_f64(((used - half) as f64 / half as f64).min(1.0)));
        self.note_waited(begin.elapsed());
    }

    fn note_waited(&self, time: Duration) {
        self.waited_us.fetch_add(micros(time), Ordering::Relaxed);
    }

    fn run(&self) {
        let mut writer = Writer::default();
        let mut idle = 0;
        loop {
            idle = if self.work(&mut writer) { 0 } else { idle + 1 };
            let mut state = self.state.lock();
            self.done.notify_all();
            let busy = self.used() > self.ring.capacity() / 8;
            if state.stopped {
                if self.used() == 0 {
                    return;
                }
                continue;
            }
            if busy || self.waiting.load(Ordering::SeqCst) > 0 && self.used() > 0 {
                continue;
            }
            if idle < IDLE_ROUNDS {
                self.wake.wait_for(&mut state, GATHER);
                continue;
            }
            self.sleeping.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if self.used() == 0 {
                self.wake.wait_for(&mut state, SLEEP);
            }
            self.sleeping.store(false, Ordering::SeqCst);
        }
    }

    /// Executes the records in the ring, up to about `WRITE_BYTES_MAX`. Returns true if there were any.
    fn work(&self, writer: &mut Writer) -> bool {
        let (mut position, tail) = (self.ring.head(), self.ring.tail());
        if position == tail {
            return false;
        }
        loop {
            let record = match self.ring.peek(position, tail) {
                Ok(Some(record)) => record,
                Ok(None) => {
                    position = tail;
                    break;
                }
                Err(error) => {
                    // Memory that only this process writes is damaged: the remaining records are skipped.
                    log::error!(target: "STORAGE", id = 7_702_030, error:% = error;
                        "The ring buffer of the journal is damaged");
                    self.any_failed.store(true, Ordering::SeqCst);
                    self.failures.fetch_add(1, Ordering::SeqCst);
                    for log in self.open.lock().values_mut() {
                        log.error = Some(libc::EIO);
                    }
                    position = tail;
                    break;
                }
            };
            let next = record.next;
            self.take(writer, &record);
            position = next;
            if writer.gathered.len() >= WRITE_BYTES_MAX {
                break;
            }
        }
        self.write(writer);
        self.ring.set_head(position);
        true
    }

    fn take(&self, writer: &mut Writer, record: &Record<'_>) {
        let number = record.number;
        match record.kind {
            Kind::Pad => {}
            Kind::Data => {
                let follows = writer.at.is_some_and(|(log, offset)| {
                    log == number && offset + writer.gathered.len() as u64 == record.argument
                });
                if !follows {
                    self.write(writer);
                    self.turn_to(writer, number);
                    writer.at = Some((number, record.argument));
                }
                writer.gathered.extend_from_slice(record.bytes);
            }
            Kind::Create | Kind::Reuse => {
                self.write(writer);
                let ahead = files::ahead(self.ring.capacity());
                let open = || match record.kind {
                    Kind::Create => LogFile::create(&self.dir, number, ahead, self.head),
                    _ => LogFile::reuse(&self.dir, number, record.argument, ahead, self.head),
                };
                let opened = self.patiently(|| descriptors::patiently(open));
                let handle = |file: &LogFile| descriptors::patiently(|| file.handle());
                match opened.and_then(|file| Ok((Arc::new(handle(&file)?), file))) {
                    Ok((handle, file)) => {
                        writer.files.insert(number, file);
                        self.open.lock().entry(number).or_default().handle = Some(handle);
                    }
                    Err(error) => self.fail(number, &error),
                }
            }
            Kind::Close => {
                self.write(writer);
                if let Some(file) = writer.files.remove(&number)
                    && let Err(error) = file.finish()
                {
                    log::warn!(target: "STORAGE", id = 7_702_031, log = number, error:% = error;
                        "Space allocated ahead of the journal could not be released");
                }
                self.open.lock().remove(&number);
                descriptors::keep();
            }
        }
    }

    /// Syncs the previous log before the first byte of a new one is written. After a power failure any part of the
    /// unsynced data may be missing. A log after one with a hole would be mistaken for a complete one, and its
    /// changes of counters and indexes would refer to documents that are lost.
    fn turn_to(&self, writer: &mut Writer, number: u64) {
        let before = writer.current.replace(number);
        if let Some(before) = before.filter(|before| *before != number)
            && let Some(file) = writer.files.get(&before)
            && let Err(error) = file.sync()
        {
            self.fail(before, &error);
            self.fail(number, &error);
        }
    }

    /// Writes the gathered bytes. If a log cannot be written, it has failed: RocksDB gets the error at its next
    /// append or sync, and keeps the data in memtables.
    fn write(&self, writer: &mut Writer) {
        let Some((number, offset)) = writer.at.take() else { return };
        if let Some(file) = writer.files.get_mut(&number)
            && !self.has_failed(number)
            && let Err(error) = self.patiently(|| file.write(offset, &writer.gathered))
        {
            self.fail(number, &error);
        }
        writer.gathered.clear();
    }

    /// Retries while the disk is full: space may be freed, and until then nothing is lost.
    fn patiently<T>(&self, mut run: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        for _ in 0..FULL_ATTEMPTS {
            match run() {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                result => return result,
            }
            if self.state.lock().stopped {
                break;
            }
            thread::sleep(FULL_PAUSE);
        }
        run()
    }

    fn fail(&self, number: u64, error: &io::Error) {
        log::error!(target: "STORAGE", id = 7_702_042, log = number, error:% = error;
            "The journal's file cannot be written");
        let code = error.raw_os_error().unwrap_or(libc::EIO);
        self.open.lock().entry(number).or_default().error = Some(code);
        self.any_failed.store(true, Ordering::SeqCst);
        self.failures.fetch_add(1, Ordering::SeqCst);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// State of the thread.
#[derive(Default)]
struct Writer {
    files: HashMap<u64, LogFile>,
    /// The log that was written last.
    current: Option<u64>,
    /// Bytes to be written at `at` (log and offset).
    gathered: Vec<u8>,
    at: Option<(u64, u64)>,
}
