//! The time until a write is durable: a commit with `j: true` waits for it.
use super::prelude::*;

pub(super) static DISK_SYNCS: Check = Check {
    name: "disk_syncs",
    title: "fdatasync after a small write",
    reads: &[],
    is_measured: true,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let measured = facts.measured()?;
    let Some(sync) = &measured.sync else {
        let problem = measured.problem.as_deref().unwrap_or("syncs were not measured");
        return Err(NotKnown(problem.to_owned()));
    };
    let text = format!("p50 {}, p99 {}", micros(sync.p50_us), micros(sync.p99_us));
    let why = "writes with j: true or w: \"majority\" return after such a sync";
    let fix = "use a disk with power-loss protection, or put the data directory on a disk of its \
                own";
    match (sync.p50_us, sync.p99_us) {
        (p50, p99) if p50 > 30_000.0 || p99 > 200_000.0 => {
            found(Warning, format!("Syncs are slow: {text}"), why, fix).verdict()
        }
        (p50, _) if p50 > 8_000.0 => {
            found(Note, format!("Syncs are rather slow: {text}"), why, fix).verdict()
        }
        _ => good(text),
    }
}
