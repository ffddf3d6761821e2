//! Checks that files can be preallocated without being filled, and how long this takes.
use super::prelude::*;

pub(super) static ALLOCATION: Check = Check {
    name: "allocation",
    title: "fallocate, and its time",
    reads: &[],
    is_measured: true,
    run,
};

/// A longer time means that the work is proportional to the size.
const SLOW_US: f64 = 100_000.0;

fn run(facts: &Facts) -> Verdict {
    let Some(allocation) = &facts.measured()?.allocation else {
        return Err(NotKnown("allocation was not measured".into()));
    };
    let steps = allocation.steps.iter();
    let text: Vec<_> = steps.map(|(n, us)| format!("{} {}", bytes(*n), micros(*us))).collect();
    let text = text.join(", ");
    if !allocation.is_supported {
        return found(
            Warning,
            format!("The file system has no fallocate; filling with zeroes took: {text}"),
            "a file can only be prepared by writing all of it, which stalls other users of the \
             disk; Nagi lets files grow as they are written instead, which fragments them",
            "move the data directory to ext4 or XFS",
        )
        .verdict();
    }
    let worst = allocation.steps.iter().map(|(_, us)| *us).fold(0.0, f64::max);
    if worst > SLOW_US {
        return found(
            Warning,
            format!("fallocate is slow: {text}"),
            "the file system writes or searches when space is reserved; new log and table files \
             wait for it",
            "free space (a nearly full file system is searched for gaps), or move to ext4 or XFS",
        )
        .verdict();
    }
    good(text)
}
