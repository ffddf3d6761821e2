//! `nagi-bench growth`: what equal nodes over a TiKV cluster do as nodes, stores and data are added, in a simulation.
//!
//! No server runs. Clients, nodes, placement driver, stores, regions and their logs are simulated event by event
//! ([`kernel`]); an operation sends the requests that are counted in docs/scale-out.md ([`kinds`]), and each piece of
//! work costs what was measured, published or assumed ([`costs`]). docs/scale-out-growth.md describes the method, its
//! limits, and the results.
//!
//! The same options give the same output.
mod at_store;
mod catalog;
mod cluster;
#[cfg(test)]
mod cluster_tests;
mod costs;
mod flow;
mod kernel;
#[cfg(test)]
mod kernel_tests;
mod kinds;
mod lifts;
mod measured;
mod results;

use crate::args::{Args, Outcome, wrong};
use crate::report;
use cluster::{Cluster, Lifts, Setting};
use kinds::{WORKLOADS, Workload};
use measured::Found;

const PARTS: &[&str] = &["inputs", "sizes", "lifts", "catalog", "rig"];
const SIZES: &str = "1x3x0.1,3x3x1,10x10x1,10x30x10,30x30x10,30x100x100,100x100x10,100x300x100";
const SIZES_MAX: usize = 100;
const NODES_MAX: usize = 128;
const STORES_MAX: usize = 1000;
const TERABYTES_MAX: f64 = 1000.0;
/// Each client does so many operations that are measured at least.
const EACH: u64 = 4;

/// Nodes, stores, terabytes.
type Size = (usize, usize, f64);

pub(crate) fn run(args: &Args) -> Outcome {
    let parts = args.words("parts", PARTS)?;
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    let chosen = args.words("workloads", &names)?;
    let sizes = sizes(args.text("sizes").unwrap_or(SIZES))?;
    let plan = Plan {
        clients: args.number_in("clients", 64, 1..=10_000)?,
        operations: args.number_in("operations", 20_000, 100..=10_000_000)?,
        seed: args.number("seed", 1)?,
    };
    let is_wanted = |part: &str| parts.contains(&part);
    if is_wanted("inputs") {
        report::say(&report::columns(&results::inputs()));
        report::say("\n");
        report::say(&report::columns(&results::kinds()));
    }
    if is_wanted("sizes") {
        for workload in WORKLOADS.iter().filter(|workload| chosen.contains(&workload.name)) {
            report::say(&format!("\n{}\n", workload.name));
            let all = sizes.iter().map(|size| (*size, plan.run(workload, *size, Lifts::default())));
            report::say(&report::columns(&results::sizes(all)));
        }
    }
    if is_wanted("lifts") {
        report::say("\nlifts\n");
        report::say(&report::columns(&lifts::rows(&plan, &chosen)));
    }
    if is_wanted("catalog") {
        report::say("\nchanges of the catalog\n");
        report::say(&report::columns(&results::catalog(plan.seed)));
    }
    if is_wanted("rig") {
        report::say("\none node and one store on one machine\n");
        report::say(&report::columns(&results::rig(&plan)));
    }
    Ok(())
}

/// What all runs have in common.
struct Plan {
    clients: usize,
    operations: u64,
    seed: u64,
}

impl Plan {
    /// One run; none if the data do not fit into the stores.
    fn run(&self, workload: &'static Workload, size: Size, lifts: Lifts) -> Option<Found> {
        let setting = self.setting(workload, size, lifts);
        (setting.fill() <= 1.0).then(|| Cluster::new(setting).run().found())
    }

    fn setting(&self, workload: &'static Workload, size: Size, lifts: Lifts) -> Setting {
        let (nodes, stores, terabytes) = size;
        let least = EACH * (nodes * self.clients) as u64;
        Setting {
            nodes,
            stores,
            terabytes,
            clients: self.clients,
            operations: self.operations.max(least),
            seed: self.seed,
            workload,
            lifts,
            shared_cores: None,
        }
    }
}

fn sizes(text: &str) -> Outcome<Vec<Size>> {
    let sizes: Option<Vec<Size>> = text.split(',').map(size).collect();
    sizes.filter(|sizes| sizes.len() <= SIZES_MAX).ok_or_else(|| {
        wrong(format!(
            "`--sizes {text}`: up to {SIZES_MAX} of NODES x STORES x TERABYTES, as 10x30x2.5; at most \
             {NODES_MAX}, {STORES_MAX} and {TERABYTES_MAX}"
        ))
    })
}

fn size(text: &str) -> Option<Size> {
    let mut parts = text.split('x');
    let nodes: usize = parts.next()?.parse().ok()?;
    let stores: usize = parts.next()?.parse().ok()?;
    let terabytes: f64 = parts.next()?.parse().ok()?;
    let fits = (1..=NODES_MAX).contains(&nodes)
        && (1..=STORES_MAX).contains(&stores)
        && (0.001..=TERABYTES_MAX).contains(&terabytes);
    (fits && parts.next().is_none()).then_some((nodes, stores, terabytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        assert_eq!(sizes("1x3x0.1,100x300x100").unwrap(), [(1, 3, 0.1), (100, 300, 100.0)]);
        for wrong in
            ["", "1x3", "0x3x1", "1x0x1", "129x3x1", "1x3x1x1", "1x3xNaN", "1x3x0", "1x3x1,"]
        {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
        assert!(sizes(&["1x1x1"; SIZES_MAX + 1].join(",")).is_err());
        assert_eq!(sizes(SIZES).unwrap().len(), 8);
    }
}
