//! The speed of random reads, which limits throughput once the data is larger than the cache.
use super::prelude::*;

pub(super) static DISK_READS: Check = Check {
    name: "disk_reads",
    title: "random reads of the disk",
    reads: &[],
    is_measured: true,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let measured = facts.measured()?;
    let Some(block) = measured.blocks.iter().min_by_key(|block| block.bytes) else {
        let problem = measured.problem.as_deref().unwrap_or("reads were not measured");
        return Err(NotKnown(problem.to_owned()));
    };
    let read = &block.read;
    let text = format!(
        "{} {} reads a second, p50 {}, p99 {}",
        read.per_second.round(),
        bytes(block.bytes),
        micros(read.p50_us),
        micros(read.p99_us)
    );
    let why = "once the working set is larger than the cache, every operation waits for about one \
               such read";
    let fix = "use a faster disk or a larger IOPS allowance, or keep the working set in memory: \
                storage.wiredTiger.engineConfig.cacheSizeGB";
    match read.per_second {
        n if n < 200.0 => found(Warning, format!("The disk is slow: {text}"), why, fix).verdict(),
        n if n < 2_000.0 => found(Note, format!("The disk is modest: {text}"), why, fix).verdict(),
        _ => good(text),
    }
}
