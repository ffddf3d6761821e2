//! Many threads on one database.

use nagi::{Database, Options, Value, doc};
use nagi_testkit::Scratch;

const THREADS: i32 = 8;
const EACH: i32 = 300;

#[test]
fn eight_threads_read_and_write() {
    let folder = Scratch::new();
    let db = Database::open(folder.path(), Options::new().cache_mb(64)).unwrap();
    let c = db.database("d").collection("c");
    c.create_index(doc! { "thread": 1 }).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, c) = (&db, &c);
            scope.spawn(move || {
                for n in 0..EACH {
                    c.insert_one(doc! { "_id": (thread * EACH + n), "thread": thread }).unwrap();
                    let counter = db.database("d").collection("counters");
                    let id = doc! { "_id": (n % 3) };
                    let step = doc! { "$inc": { "n": 1 } };
                    counter.update_one_with(id, step, doc! { "upsert": true }).unwrap();
                    let own = c.find_one(doc! { "_id": (thread * EACH + n) }).unwrap().unwrap();
                    assert_eq!(own.get("thread"), Value::Int32(thread));
                }
                assert_eq!(c.count(doc! { "thread": thread }).unwrap(), EACH as u64);
            });
        }
    });
    assert_eq!(c.count(doc! {}).unwrap(), (THREADS * EACH) as u64);
    let sum = [doc! { "$group": { "_id": null, "sum": { "$sum": "$n" } } }];
    let sum = db.database("d").collection("counters").aggregate(sum).unwrap().next().unwrap();
    assert_eq!(sum.unwrap().get("sum"), Value::Int32(THREADS * EACH));
    db.close().unwrap();
}

/// Close while others run commands: each command succeeds or fails with "closed", and what succeeded is there.
#[test]
fn close_beside_running_commands() {
    let folder = Scratch::new();
    for _ in 0..3 {
        let db = Database::open(folder.path(), Options::new().cache_mb(32)).unwrap();
        let before = db.database("d").collection("c").count(doc! {}).unwrap();
        let written: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    let c = db.database("d").collection("c");
                    scope.spawn(move || {
                        let mut written = 0;
                        while c.insert_one(doc! { "a": 1 }).is_ok() {
                            written += 1;
                        }
                        written
                    })
                })
                .collect();
            while db.database("d").collection("c").estimated_count().unwrap() < before + 100 {
                std::thread::yield_now();
            }
            db.close().unwrap();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        let db = Database::open(folder.path(), Options::new().cache_mb(32)).unwrap();
        let after = db.database("d").collection("c").count(doc! {}).unwrap();
        // An insert that was interrupted may have taken effect.
        assert!(
            (before + written..=before + written + 4).contains(&after),
            "{before} {written} {after}"
        );
    }
}
