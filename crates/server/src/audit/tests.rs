//! A destination that fails, and a full queue.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::time::Instant;

use nagi_testkit::Scratch;

use super::*;
use crate::limits::AUDIT_QUEUE_BYTES_MAX;

fn options() -> AuditOptions {
    AuditOptions {
        destination: AuditDestination::Console,
        format: AuditFormat::Json,
        ocsf: false,
        filter: DocBuf::new(),
        runtime: false,
    }
}

fn message(size: usize) -> DocBuf {
    nagi_bson::doc! { "atype": "x", "text": ("y".repeat(size).as_str()) }
}

/// An audit log on a device that refuses every write.
fn on_full_device() -> AuditLog {
    let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let budget = nagi_budget::Budget::unlimited();
    AuditLog::with_sink(&options(), of_file(file, Path::new("/dev/full")), &budget).unwrap()
}

fn of_file(file: File, path: &Path) -> Sink {
    Sink::File { file, path: path.to_owned(), reopen: false }
}

fn count(log: &AuditLog, of: impl Fn(&Counts) -> &AtomicU64) -> u64 {
    of(&log.counts).load(Relaxed)
}

#[test]
fn a_full_queue_blocks_for_a_bounded_time_or_counts() {
    let log = on_full_device();
    let size = AUDIT_QUEUE_BYTES_MAX / 4 - 100;
    (0..4).for_each(|_| log.record(message(size), Duration::ZERO));
    assert_eq!(count(&log, |c| &c.dropped), 0);
    log.record(message(size), Duration::ZERO);
    assert_eq!((count(&log, |c| &c.dropped), count(&log, |c| &c.waits)), (1, 0));
    let started = Instant::now();
    log.record(message(size), Duration::from_millis(50));
    assert!(started.elapsed() >= Duration::from_millis(50));
    assert_eq!((count(&log, |c| &c.dropped), count(&log, |c| &c.waits)), (2, 1));
    // Once the destination takes them, every message of the queue is written.
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path()).unwrap();
    let path = scratch.path().join("audit.json");
    *log.sink.lock() = of_file(File::create(&path).unwrap(), &path);
    log.record(message(size), Duration::from_secs(60));
    log.close();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 5);
    assert_eq!((count(&log, |c| &c.written), count(&log, |c| &c.failed)), (5, 0));
    assert_eq!(log.queue.len(), (0, 0));
}

#[test]
fn what_cannot_be_written_at_the_end_is_counted() {
    let log = on_full_device();
    (0..3).for_each(|_| log.record(message(10), Duration::ZERO));
    log.close();
    assert_eq!((count(&log, |c| &c.written), count(&log, |c| &c.failed)), (0, 3));
    assert!(count(&log, |c| &c.write_errors) > 0);
    log.record(message(10), Duration::from_secs(60));
    assert_eq!(count(&log, |c| &c.dropped), 1);
}

#[test]
fn a_filter_that_fails_includes_the_message() {
    let filter = check_audit_filter("{$expr: {$divide: [1, '$n']}}").unwrap();
    let rules = rules(filter.as_doc(), false).unwrap();
    assert!(rules.includes(nagi_bson::doc! { "n": 0 }.as_doc()));
}
