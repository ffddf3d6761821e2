//! The memory budget. Runs in a process of its own, which measures itself.

use nagi::{Database, Options, doc, number};
use nagi_testkit::Scratch;

const MARK: &str = "NAGI_TEST_MEMORY";
/// Documents of one kilobyte: more than the budget.
const DOCUMENTS: i32 = 120_000;
/// What the budget of 32 MB may become: fixed memory and what `malloc` keeps.
const GROWTH_MAX: u64 = 180 << 20;

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_small_budget_bounds_the_process() {
    if std::env::var_os(MARK).is_none() {
        let own = std::env::current_exe().unwrap();
        let args = ["--exact", "memory::a_small_budget_bounds_the_process", "--nocapture"];
        let output = std::process::Command::new(own).args(args).env(MARK, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let before = resident();
    let folder = Scratch::new();
    let db = Database::open(folder.path(), Options::new().cache_mb(32)).unwrap();
    let c = db.database("d").collection("c");
    let text = "x".repeat(900);
    for part in 0..DOCUMENTS / 1000 {
        let ids = part * 1000..(part + 1) * 1000;
        c.insert_many(ids.map(|n| doc! { "_id": n, "r": (n ^ 0x5555), "text": (text.as_str()) }))
            .unwrap();
    }
    c.create_index(doc! { "r": 1 }).unwrap();
    let sorted =
        c.aggregate_with([doc! { "$sort": { "text": 1, "r": -1 } }], doc! { "allowDiskUse": true });
    let mut cursor = sorted.unwrap();
    let mut seen = 0;
    while cursor.advance().unwrap().is_some() {
        seen += 1;
    }
    assert_eq!(seen, DOCUMENTS);
    // Without the disk the sort is refused, not served from more memory.
    let refused = c
        .aggregate_with([doc! { "$sort": { "text": 1, "r": -1 } }], doc! { "allowDiskUse": false });
    assert_eq!(refused.unwrap_err().code(), 146);
    let status = db.run_command("admin", doc! { "serverStatus": 1 }).unwrap();
    let cache = status.get("wiredTiger").as_doc().unwrap().get("cache").as_doc().unwrap();
    let most = number::as_i64_exact(cache.get("maximum bytes configured")).unwrap();
    assert!(most <= 32 << 20, "{most}");
    let grown = resident() - before;
    assert!(grown < GROWTH_MAX, "{} MB", grown >> 20);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let parts = status.lines().filter(|line| line.starts_with("Rss"));
    println!("grown by {} MB, now {}", grown >> 20, parts.collect::<Vec<_>>().join(", "));
}
