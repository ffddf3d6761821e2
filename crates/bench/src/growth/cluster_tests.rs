//! The simulated cluster against what must hold of any.
use super::cluster::{Cluster, Lifts, Setting};
use super::costs;
use super::kernel::SECOND;
use super::kinds::{RIG_INSERTS, RIG_READS, WORKLOADS, Workload};

fn setting(workload: &'static Workload, nodes: usize, stores: usize) -> Setting {
    Setting {
        nodes,
        stores,
        terabytes: 0.1,
        clients: 64,
        operations: 3000,
        seed: 1,
        workload,
        lifts: Lifts::default(),
        shared_cores: None,
    }
}

fn named(name: &str) -> &'static Workload {
    WORKLOADS.iter().find(|workload| workload.name == name).unwrap()
}

#[test]
fn operations_that_begin_are_answered_or_under_way() {
    for workload in WORKLOADS {
        let mut setting = setting(workload, 3, 5);
        setting.operations = 1000;
        let mut cluster = Cluster::new(setting).run();
        assert!(cluster.window.latencies.count() >= 1000, "{}", workload.name);
        let under_way = cluster.window.begun - cluster.window.answered;
        assert!(under_way <= 3 * 64, "{}: {under_way}", workload.name);
        // Clients and the nodes' own duties, each with one operation at a time.
        assert_eq!(cluster.ops.used(), 3 * 64 + 3 * 3);
        // No request is lost or left over: without new operations all of them end.
        assert_eq!(cluster.drain(), 0, "{}", workload.name);
        assert_eq!(cluster.requests.used(), 0, "{}", workload.name);
        assert_eq!(cluster.batches.used(), 0, "{}", workload.name);
        assert_eq!(cluster.window.begun, cluster.window.answered, "{}", workload.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| Cluster::new(Setting { seed, ..setting(named("mix"), 3, 3) }).run().found();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).p99, run(2).p99);
}

/// One over the service time, for each resource that can be full.
#[test]
fn full_resources_have_their_own_rates() {
    let per_second = |servers: usize, ns: u64| servers as f64 * SECOND as f64 / ns as f64;
    let near = |seen: f64, expected: f64, what: &str| {
        assert!((seen / expected - 1.0).abs() < 0.06, "{what}: {seen}, expected {expected}");
    };
    let found = Cluster::new(setting(named("point-reads"), 1, 3)).run().found();
    near(found.rate, per_second(costs::NODE_CORES, costs::NODE_READ.ns), "cores of a node");
    assert_eq!(found.bottleneck(), "node cores");
    let found = Cluster::new(setting(named("point-reads"), 20, 30)).run().found();
    near(found.messages, per_second(costs::PD_CORES, costs::PD_MESSAGE.ns), "messages of PD");
    assert_eq!(found.bottleneck(), "PD");
    // Each insert has a prewrite and a commit in each of the regions that all of them share.
    let mut inserts = setting(named("inserts-hashed"), 10, 30);
    inserts.lifts = Lifts { sessions: 64, buckets: 64, raft_threads: 8, ..inserts.lifts };
    inserts.operations = 6000;
    let found = Cluster::new(inserts).run().found();
    assert_eq!(found.bottleneck(), "region of fences");
    assert!(found.rate < 1.1 * per_second(1, 2 * costs::RAFT.ns), "{}", found.rate);
    assert!(found.rate > 0.8 * per_second(1, 2 * costs::RAFT.ns), "{}", found.rate);
}

/// Little's law: the clients, less their time on the way, are the rate times the mean latency.
#[test]
fn clients_are_the_rate_times_the_latency() {
    let found = Cluster::new(setting(named("point-reads"), 2, 3)).run().found();
    // The latencies of this workload are nearly symmetric, so the median is near the mean.
    let inside = found.rate * (found.p50 + 2 * costs::NEAR.ns) as f64 / SECOND as f64;
    assert!((inside / 128.0 - 1.0).abs() < 0.06, "{inside}");
}

#[test]
fn a_client_alone_waits_for_each_round_trip() {
    let mut alone = setting(named("point-reads"), 1, 3);
    alone.clients = 1;
    let found = Cluster::new(alone).run().found();
    // PD is in the node's zone. Of the two stores asked, a third each time is, too.
    let way = (costs::NEAR.ns + 2 * costs::FAR.ns) / 3;
    let work = costs::NODE_READ.ns + costs::PD_MESSAGE.ns + 2 * costs::STORE_READ.ns;
    let mean = (work + costs::NODE_SEND.ns + 4 * costs::NEAR.ns + 4 * way) as f64;
    let seen = SECOND as f64 / found.rate;
    assert!((seen / mean - 1.0).abs() < 0.05, "{seen}, expected {mean}");
}

/// Each lift lifts its own bottleneck.
#[test]
fn lifts_lift() {
    let rate = |workload, lifts| {
        Cluster::new(Setting { lifts, ..setting(named(workload), 20, 30) }).run().found().rate
    };
    let none = Lifts::default();
    let (reads, inserts) = (rate("point-reads", none), rate("inserts-hashed", none));
    assert!(rate("point-reads", Lifts { one_message: true, ..none }) > 1.5 * reads);
    assert!(rate("point-reads", Lifts { pd_proxies: 4, ..none }) > 1.5 * reads);
    assert!(rate("point-reads", Lifts { stale_reads: true, ..none }) > 1.5 * reads);
    let spread = Lifts { sessions: 64, fences: 64, buckets: 64, raft_threads: 8, ..none };
    assert!(rate("inserts-hashed", spread) > 2.0 * inserts);
}

/// All processes on two cores: the rate is that of their work together.
#[test]
fn a_shared_machine_has_the_sum_of_the_work() {
    for (workload, work) in [
        (&RIG_READS, costs::NODE_READ.ns + costs::PD_MESSAGE.ns + 2 * costs::STORE_READ.ns),
        (
            &RIG_INSERTS,
            costs::NODE_WRITE.ns
                + costs::PD_MESSAGE.ns
                + costs::STORE_READ.ns
                + costs::STORE_WRITE.ns
                + 2 * costs::RAFT.ns,
        ),
    ] {
        let mut rig = setting(workload, 1, 1);
        (rig.shared_cores, rig.clients) = (Some(2), 64);
        let found = Cluster::new(rig).run().found();
        let expected = 2.0 * SECOND as f64 / work as f64;
        assert!((found.rate / expected - 1.0).abs() < 0.06, "{}, {expected}", found.rate);
        assert_eq!(found.bottleneck(), "the machine");
    }
}
