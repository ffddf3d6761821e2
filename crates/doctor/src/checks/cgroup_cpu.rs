//! The CPU quota of a control group.
use super::prelude::*;
use nagi_proc::cgroup::Version;

pub(super) static CGROUP_CPU: Check = Check {
    name: "cgroup_cpu",
    title: "CPU quota of the control group",
    reads: &[cgroup::MEMBERSHIP, mounts::PATH],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let Some(groups) = cgroup::groups(facts, "cpu")? else {
        return good("no control group");
    };
    let quotas = groups.folders.iter().filter_map(|folder| {
        let (quota, period) = quota(facts, groups.version, folder)?;
        Some((quota / period, quota, period, folder))
    });
    let least = quotas.min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((share, quota, period, folder)) = least else {
        return good("no quota");
    };
    let throttled = throttled(facts, folder);
    let what = match throttled {
        Some(count) => {
            format!("A quota allows {share:.1} CPUs; it stopped the group {count} times")
        }
        None => format!("A quota allows {share:.1} CPUs"),
    };
    found(
        Note,
        what,
        format!(
            "once {} of CPU time are used, all threads of the server, commits included, stop until \
             the period of {} is over",
            micros(quota),
            micros(period)
        ),
        format!("give whole CPUs instead (cpuset.cpus), or lift the quota in {folder}"),
    )
    .verdict()
}

/// Quota and period in microseconds.
fn quota(facts: &Facts, version: Version, folder: &str) -> Option<(f64, f64)> {
    let (quota, period) = if version == Version::Two {
        let text = facts.text(&format!("{folder}/cpu.max")).ok()?;
        let (quota, period) = text.split_once(' ')?;
        (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
    } else {
        let number = |file: &str| facts.text(&format!("{folder}/{file}")).ok()?.parse::<f64>().ok();
        (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    };
    // Version 1 writes -1 for "no quota".
    (quota > 0.0 && period > 0.0).then_some((quota, period))
}

/// The number of periods in which the quota was exhausted, if it is not zero.
fn throttled(facts: &Facts, folder: &str) -> Option<u64> {
    let stat = facts.text(&format!("{folder}/cpu.stat")).ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "))?;
    line.trim().parse().ok().filter(|count| *count > 0)
}
