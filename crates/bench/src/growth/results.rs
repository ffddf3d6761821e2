//! The tables.
use super::cluster::{Cluster, Lifts, Setting};
use super::kernel::{MS, Ns};
use super::kinds::{Kind, RIG_INSERTS, RIG_READS, WORKLOADS, Workload};
use super::measured::Found;
use super::{Plan, Size, catalog, costs};
use std::collections::BTreeMap;

pub(super) fn ms(ns: Ns) -> String {
    format!("{:.1}", ns as f64 / MS as f64)
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A whole number with commas.
pub(super) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What each piece of work costs.
pub(super) fn inputs() -> Vec<Vec<String>> {
    let rows = costs::COSTS.iter().map(|cost| {
        vec![cost.name.to_owned(), costs::shown(cost.ns), cost.source.name().to_owned()]
    });
    std::iter::once(head(&["work", "time", "source"])).chain(rows).collect()
}

/// The operations: rounds of reads that are sent one after another, and the regions that a commit writes to.
pub(super) fn kinds() -> Vec<Vec<String>> {
    let kinds: BTreeMap<&str, &Kind> = WORKLOADS
        .iter()
        .flat_map(|workload| workload.kinds)
        .map(|(_, kind)| (kind.name, *kind))
        .collect();
    let rows = kinds.values().map(|kind| {
        vec![
            kind.name.to_owned(),
            format!("{:?}", kind.reads),
            format!("{:?}", kind.writes),
            kind.row.to_owned(),
        ]
    });
    let names = ["operation", "reads", "writes", "row of docs/scale-out.md"];
    std::iter::once(head(&names)).chain(rows).collect()
}

/// A workload by the size of the cluster. How busy: the busiest one of each kind.
pub(super) fn sizes(all: impl Iterator<Item = (Size, Option<Found>)>) -> Vec<Vec<String>> {
    let names =
        ["nodes x stores x TB", "ops/s", "p50 ms", "p99 ms", "node", "PD", "store", "log threads"];
    let more = ["disk", "region, busiest", "conflicts", "bottleneck"];
    let rows = all.map(|((nodes, stores, terabytes), found)| {
        let mut row = vec![format!("{nodes} x {stores} x {terabytes}")];
        let Some(found) = found else {
            row.extend(std::iter::repeat_n("-".to_owned(), names.len() + more.len() - 2));
            row.push("does not fit".to_owned());
            return row;
        };
        let most = |names: &[&str]| {
            percent(names.iter().map(|name| found.of(name).most).fold(0.0, f64::max))
        };
        row.extend([thousands(found.rate), ms(found.p50), ms(found.p99)]);
        row.extend([most(&["node cores"]), most(&["PD"]), most(&["store cores"])]);
        row.push(most(&["log threads", "apply threads"]));
        row.push(most(&["disk reads", "disk writes"]));
        let of_regions = found.uses.iter().filter(|of| of.name.contains("region"));
        row.push(percent(of_regions.map(|of| of.most).fold(0.0, f64::max)));
        row.extend([format!("{:.2}", found.conflicts), found.bottleneck()]);
        row
    });
    std::iter::once([head(&names), head(&more)].concat()).chain(rows).collect()
}

/// Changes of the catalog by nodes and changes at once.
pub(super) fn catalog(seed: u64) -> Vec<Vec<String>> {
    let names =
        ["change", "at once", "nodes", "changes/s", "p50 ms", "p99 ms", "writers out, p50 ms"];
    let mut rows = vec![[head(&names), head(&["catalog's region"])].concat()];
    for (name, with_intent) in [("of a collection", true), ("creation", false)] {
        for at_once in [1, 8, 64] {
            for nodes in [1, 3, 10, 30, 100] {
                let found = catalog::simulate(nodes, at_once, with_intent, seed);
                let closed = match found.closed.count() {
                    0 => "-".to_owned(),
                    _ => ms(found.closed.quantile(0.5)),
                };
                rows.push(vec![
                    name.to_owned(),
                    found.at_once.to_string(),
                    found.nodes.to_string(),
                    // A client alone pauses between its changes.
                    if at_once == 1 { "-".to_owned() } else { format!("{:.0}", found.rate) },
                    ms(found.latencies.quantile(0.5)),
                    ms(found.latencies.quantile(0.99)),
                    closed,
                    percent(found.region),
                ]);
            }
        }
    }
    rows
}

/// Measured on the machine of the tests: clients, operations a second, p50 in microseconds.
static RIG: &[(&Workload, usize, f64, f64)] = &[
    (&RIG_READS, 1, 886.0, 1081.0),
    (&RIG_READS, 16, 3663.0, 4162.0),
    (&RIG_INSERTS, 1, 543.0, 1720.0),
    (&RIG_INSERTS, 16, 956.0, 16_253.0),
];

/// The same by the simulation.
pub(super) fn rig(plan: &Plan) -> Vec<Vec<String>> {
    let names = ["clients", "simulated ops/s", "measured", "ratio", "p50 ms", "measured", "ratio"];
    let rows = RIG.iter().map(|(workload, clients, rate, p50)| {
        let size = (1, 1, 0.001);
        let setting = Setting {
            clients: *clients,
            shared_cores: Some(2),
            ..plan.setting(workload, size, Lifts::default())
        };
        let found = Cluster::new(setting).run().found();
        let simulated = found.p50 as f64 / 1000.0;
        vec![
            format!("{}, {clients}", workload.name),
            thousands(found.rate),
            thousands(*rate),
            format!("{:.2}", found.rate / rate),
            format!("{:.1}", simulated / 1000.0),
            format!("{:.1}", p50 / 1000.0),
            format!("{:.2}", simulated / p50),
        ]
    });
    std::iter::once(head(&names)).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        let shown = [0.0, 999.4, 1000.0, 1_234_567.0].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
