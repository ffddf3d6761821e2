//! Runs the program on the machine of the tests: no check may fail on any machine.

use nagi_doctor::{CHECKS, Facts, startup_warnings};
use nagi_proc::memory_bytes;

#[test]
fn nothing_known_is_not_known_by_any_check() {
    for check in CHECKS {
        assert!((check.run)(&Facts::default()).is_err(), "{}", check.name);
    }
}

#[test]
fn this_machine_can_be_looked_at() {
    let folder = std::env::temp_dir();
    let lines = startup_warnings(Some(&folder), 100, 0);
    assert!(lines.iter().all(|line| line.id > 0 && !line.message.is_empty()));
    assert!(memory_bytes().is_none_or(|bytes| bytes > 1 << 20));
    let missing = startup_warnings(Some("/no/such/folder".as_ref()), 100, 0);
    assert!(missing.iter().all(|line| !line.message.contains("such")));
}

#[test]
fn rows_are_sorted_and_have_files() {
    assert!(CHECKS.is_sorted_by(|a, b| a.name < b.name));
    for check in CHECKS {
        let file = nagi_testkit::golden::dir("doctor").join(format!("{}.txt", check.name));
        assert!(file.is_file(), "no golden cases for {}", check.name);
        assert!(!check.title.is_empty());
    }
}
