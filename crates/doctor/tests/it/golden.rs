//! Runs `tests/golden/doctor/<check>.txt`: recorded facts and the result of the check.
//!
//!   check
//!   == /proc/sys/vm/swappiness
//!   60
//!   ---
//!   warning: ...
//!
//! Besides paths, `== data`, `== data_files`, `== history`, `== measured`, `== budget`, `== through_cache`,
//! `== exposure` and `== server` give the other facts, as `name=value` or as lines of numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nagi_doctor::{
    Access, Allocation, AtRest, BlockFigures, CHECKS, DataFiles, DataFolder, Exposure, Facts,
    Latencies, Measured, Outcome, Sample, Verdict,
};
use nagi_testkit::golden;

#[test]
fn golden_cases() {
    golden::run_files(&golden::dir("doctor"), &mut |stem, verb, input| match verb {
        "begin" => String::new(),
        "check" => {
            let check = CHECKS.iter().find(|check| check.name == stem);
            let check = check.unwrap_or_else(|| panic!("no check {stem}"));
            let facts = facts(input);
            for path in facts.files.keys() {
                let is_dynamic = ["/sys/fs/cgroup", "/sys/dev/", "/sys/class/"]
                    .iter()
                    .any(|p| path.starts_with(p));
                assert!(is_dynamic || check.reads.contains(&path.as_str()), "{stem} reads {path}");
            }
            print(&(check.run)(&facts))
        }
        other => panic!("verb {other}"),
    });
}

/// A log id identifies the check, so no id is used by two checks.
#[test]
fn log_ids_belong_to_one_check() {
    let mut owners = BTreeMap::new();
    for check in CHECKS {
        let path = golden::dir("doctor").join(format!("{}.txt", check.name));
        let text = std::fs::read_to_string(path).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("log: ")) {
            let id = line.split(' ').nth(1).unwrap().to_owned();
            let owner = owners.entry(id).or_insert(check.name);
            assert_eq!(*owner, check.name, "{line}");
        }
    }
    assert!(owners.len() > 10);
}

fn facts(input: &str) -> Facts {
    let mut facts = Facts { connection_count_max: 65_536, ..Facts::default() };
    for block in input.split("\n== ").skip(1) {
        let (name, text) = block.split_once('\n').unwrap_or((block, ""));
        match name {
            "data" => facts.data = Some(data(text)),
            "data_files" => facts.data_files = Some(data_files(text)),
            "history" => facts.history = text.lines().map(sample).collect(),
            "measured" => facts.measured = Some(measured(text)),
            "exposure" => facts.exposure = Some(exposure(text)),
            "through_cache" => facts.reads_through_cache = true,
            "budget" => facts.budget_bytes = text.trim().parse().unwrap(),
            "server" => facts.server_pid = Some(text.trim().parse().unwrap()),
            path => {
                facts.files.insert(path.to_owned(), format!("{text}\n"));
            }
        }
    }
    facts
}

fn exposure(text: &str) -> Exposure {
    let pairs = pairs(text);
    Exposure {
        reachable_at: pairs.get("reachable").map(|place| place.to_string()),
        has_logins: pairs.contains_key("logins"),
        requires_tls: pairs.contains_key("tls"),
        open_files: pairs.get("open").map(|file| file.to_string()).into_iter().collect(),
        has_plain_logins: pairs.contains_key("plain"),
        clear_ldap_server: pairs.get("ldap").map(|server| server.to_string()),
        has_test_commands: pairs.contains_key("test"),
        at_rest: match pairs.get("at_rest") {
            None => AtRest::Plain,
            Some(&"encrypted") => AtRest::Encrypted,
            Some(&"no_key") => AtRest::NoKey,
            Some(&"plain_data") => AtRest::PlainData,
            Some(file) => AtRest::KeyBesideData((*file).to_owned()),
        },
        has_javascript: pairs.contains_key("javascript"),
    }
}

fn pairs(text: &str) -> BTreeMap<&str, &str> {
    text.split_whitespace().map(|pair| pair.split_once('=').unwrap()).collect()
}

fn data(text: &str) -> DataFolder {
    let pairs = pairs(text);
    let number = |name: &str| pairs.get(name).map_or(0, |n| n.parse().unwrap());
    DataFolder {
        path: "/data/db".into(),
        real_path: pairs.get("real").unwrap_or(&"/data/db").to_string(),
        is_there: !pairs.contains_key("missing"),
        closed: pairs.get("closed").map(|closed| closed.to_string()),
        is_own: pairs.contains_key("own"),
        is_roots: pairs.contains_key("roots"),
        is_writable: !pairs.contains_key("read_only"),
        access: Access {
            open_count: number("open"),
            open_example: "/data/db/rocksdb".into(),
            foreign_count: number("foreign"),
            foreign_example: "/data/db/mongod.lock".into(),
            is_shared: pairs.contains_key("shared"),
        },
        total_bytes: number("total"),
        available_bytes: number("available"),
        file_count_max: number("files"),
        file_count_free: number("files_free"),
    }
}

/// What was found, and the texts on it.
fn data_files(text: &str) -> DataFiles {
    let (found, texts) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
    match found {
        "unchanged" => DataFiles::Unchanged,
        "damaged" => DataFiles::Damaged(texts.lines().map(str::to_owned).collect()),
        "not_compared" => DataFiles::NotCompared(texts.to_owned()),
        "unreadable" => DataFiles::Unreadable(texts.to_owned()),
        other => panic!("{other}"),
    }
}

/// A line `hour available`, for a file system of 1 TB.
fn sample(line: &str) -> Sample {
    let (hour, available) = line.split_once(' ').unwrap();
    Sample {
        seconds: hour.parse::<u64>().unwrap() * 3600,
        available_bytes: available.parse().unwrap(),
        total_bytes: 1 << 40,
    }
}

fn measured(text: &str) -> Measured {
    let pairs = pairs(text);
    let number = |name: &str| pairs.get(name).map(|n| n.parse::<f64>().unwrap());
    let latencies = |prefix: &str| {
        Some(Latencies {
            count: 100,
            p50_us: number(&format!("{prefix}_p50"))?,
            p99_us: number(&format!("{prefix}_p99"))?,
            per_second: 1e6 / number(&format!("{prefix}_p50"))?,
        })
    };
    let read = latencies("read").map(|read| BlockFigures {
        bytes: 4096,
        write: Latencies::default(),
        read,
    });
    let allocation = number("allocate_64mb").map(|us| Allocation {
        is_supported: !pairs.contains_key("no_fallocate"),
        steps: vec![(64 << 20, us)],
    });
    Measured {
        file_bytes: 64 << 20,
        allocation,
        has_direct_io: !pairs.contains_key("no_direct_io"),
        blocks: read.into_iter().collect(),
        sync: latencies("sync"),
        problem: pairs.get("problem").map(|text| text.replace('_', " ")),
    }
}

fn print(verdict: &Verdict) -> String {
    let mut out = String::new();
    match verdict {
        Ok(Outcome::Good(value)) => out = format!("good: {value}"),
        Err(reason) => out = format!("not known: {}", reason.0),
        Ok(Outcome::Bad(finding)) => {
            let _ = writeln!(out, "{}: {}", finding.severity.name(), finding.what);
            let _ = writeln!(out, "why: {}\nfix: {}", finding.why, finding.fix);
            if let Some(line) = &finding.startup {
                let attr = nagi_bson::json::to_relaxed(line.attr.as_doc());
                let _ =
                    writeln!(out, "log: {} {} {} {attr}", line.component, line.id, line.message);
            }
        }
    }
    out
}
