//! What lifts each bottleneck: runs with one change, and with several.
use super::Plan;
use super::cluster::Lifts;
use super::kernel::US;
use super::kinds::WORKLOADS;
use super::results::{ms, percent, thousands};

struct Lift {
    workload: &'static str,
    size: super::Size,
    name: &'static str,
    lifts: fn(Lifts) -> Lifts,
}

const LARGE: super::Size = (100, 100, 10.0);
const LARGEST: super::Size = (100, 300, 100.0);

const fn lift(
    workload: &'static str,
    size: super::Size,
    name: &'static str,
    lifts: fn(Lifts) -> Lifts,
) -> Lift {
    Lift { workload, size, name, lifts }
}

fn spread(of: Lifts) -> Lifts {
    Lifts { sessions: 128, fences: 128, ..of }
}

/// What `shardCollection` does, with this many stripes: fences and counters are divided by node.
fn sharded(of: Lifts, stripes: usize) -> Lifts {
    Lifts { sessions: 32, fences: LARGE.0, buckets: stripes, ..of }
}

fn spread_all(of: Lifts) -> Lifts {
    Lifts { buckets: 128, ..spread(of) }
}

/// All that helps writes.
fn all(of: Lifts) -> Lifts {
    Lifts { one_message: true, raft_threads: 8, ..spread_all(of) }
}

fn every(of: Lifts) -> Lifts {
    Lifts { stale_reads: true, region_mb: 1024, ..all(of) }
}

static LIFTS: &[Lift] = &[
    lift("point-reads", LARGE, "as it is", |of| of),
    lift("point-reads", LARGE, "4 members of PD take messages", |of| Lifts { pd_proxies: 4, ..of }),
    lift("point-reads", LARGE, "one message to PD at a time", |of| Lifts {
        one_message: true,
        ..of
    }),
    lift("point-reads", LARGE, "reads without a timestamp", |of| Lifts { stale_reads: true, ..of }),
    lift("point-reads", LARGE, "reads of replicas", |of| Lifts { follower_reads: true, ..of }),
    lift("point-reads", LARGE, "board once a second", |of| Lifts { board_ms: 1000, ..of }),
    lift("point-reads", LARGE, "a message to PD costs 20 us", |of| Lifts {
        message_ns: 20 * US,
        ..of
    }),
    lift("point-reads", LARGEST, "as it is", |of| of),
    lift("point-reads", LARGEST, "regions of 1 GB", |of| Lifts { region_mb: 1024, ..of }),
    lift("point-reads", LARGEST, "one message to PD at a time", |of| Lifts {
        one_message: true,
        ..of
    }),
    lift("point-reads", LARGEST, "both", |of| Lifts { region_mb: 1024, one_message: true, ..of }),
    lift("inserts-hashed", LARGE, "as it is", |of| of),
    lift("inserts-hashed", LARGE, "128 regions of sessions", |of| Lifts { sessions: 128, ..of }),
    lift("inserts-hashed", LARGE, "128 regions of fences", |of| Lifts { fences: 128, ..of }),
    lift("inserts-hashed", LARGE, "both", spread),
    lift("inserts-hashed", LARGE, "both, 128 buckets", spread_all),
    lift("inserts-hashed", LARGE, "sharded, 16 stripes", |of| sharded(of, 16)),
    lift("inserts-hashed", LARGE, "sharded, 32 stripes", |of| sharded(of, 32)),
    lift("inserts-hashed", LARGE, "all: 8 log threads, one message", all),
    lift("inserts-hashed", LARGE, "a command costs 23 us", |of| Lifts {
        command_ns: 23 * US,
        ..of
    }),
    lift("inserts-ascending", LARGE, "as it is", |of| of),
    lift("inserts-ascending", LARGE, "regions of sessions and fences", spread),
    lift("inserts-ascending", LARGE, "128 buckets", |of| Lifts { buckets: 128, ..of }),
    lift("inserts-ascending", LARGE, "both", spread_all),
    lift("inserts-ascending", LARGE, "sharded, 16 stripes", |of| sharded(of, 16)),
    lift("inserts-ascending", LARGE, "sharded, 32 stripes", |of| sharded(of, 32)),
    lift("inserts-ascending", LARGE, "sharded, 32 stripes, one message", |of| Lifts {
        one_message: true,
        ..sharded(of, 32)
    }),
    lift("inserts-ascending", LARGE, "all: 8 log threads, one message", all),
    lift("updates-zipfian", LARGE, "as it is", |of| of),
    lift("updates-zipfian", LARGE, "regions of sessions and fences", spread),
    lift("updates-zipfian", LARGE, "all: 8 log threads, one message", all),
    lift("transactions", LARGE, "as it is", |of| of),
    lift("transactions", LARGE, "regions of sessions and fences", spread),
    lift("transactions", LARGE, "all: 8 log threads, one message", all),
    lift("mix", LARGE, "as it is", |of| of),
    lift("mix", LARGE, "regions of sessions and fences", spread),
    lift("mix", LARGE, "all and reads without a timestamp", every),
];

/// The table, of these workloads.
pub(super) fn rows(plan: &Plan, chosen: &[&str]) -> Vec<Vec<String>> {
    let head = [
        "workload, nodes x stores x TB",
        "with",
        "ops/s",
        "ratio",
        "p50 ms",
        "p99 ms",
        "bottleneck",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut base = 0.0;
    for lift in LIFTS.iter().filter(|lift| chosen.contains(&lift.workload)) {
        let workload = WORKLOADS.iter().find(|workload| workload.name == lift.workload);
        let found = workload.and_then(|of| plan.run(of, lift.size, (lift.lifts)(Lifts::default())));
        let Some(found) = found else { continue };
        // The first row of a workload and a size is the engine as it is.
        if (lift.lifts)(Lifts::default()) == Lifts::default() {
            base = found.rate;
        }
        let (nodes, stores, terabytes) = lift.size;
        let busiest = found.uses.iter().map(|of| of.most).fold(0.0, f64::max);
        rows.push(vec![
            format!("{}, {nodes} x {stores} x {terabytes}", lift.workload),
            lift.name.to_owned(),
            thousands(found.rate),
            format!("{:.2}", found.rate / base),
            ms(found.p50),
            ms(found.p99),
            format!("{} ({})", found.bottleneck(), percent(busiest)),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_begins_with_the_engine_as_it_is() {
        let mut last = None;
        for lift in LIFTS {
            assert!(WORKLOADS.iter().any(|workload| workload.name == lift.workload));
            let group = Some((lift.workload, lift.size));
            let is_default = (lift.lifts)(Lifts::default()) == Lifts::default();
            assert_eq!(is_default, group != last, "{} {}", lift.workload, lift.name);
            last = group;
        }
    }
}
