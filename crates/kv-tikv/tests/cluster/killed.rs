//! The store of these tests, killed while transactions commit, keeps what TiKV would keep, and knows what it has
//! committed: it refuses to roll that back. First by the client alone, without the engine: what other tests rely on
//! when they kill the store. Then by the engine, which has to know what became of each commit.

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use nagi_kv::{Durability, Engine, Error, Result, Space, TxnOptions};
use tikv_client::{CheckLevel, TransactionClient, TransactionOptions};
use tokio::{runtime::Builder, sync::Semaphore, time::timeout};

use crate::cluster::{STORE, control, get, new_prefix, node, placement_driver};

const WRITERS: u64 = 8;
const ROUNDS: u64 = 3;
/// Commits between two kills.
const COMMITS: u32 = 150;
const ATTEMPT: Duration = Duration::from_secs(5);
const MOST: Duration = Duration::from_secs(60);

/// Kills of the store; NAGI_TIKV_KILLS in the environment has more.
fn rounds() -> u64 {
    env::var("NAGI_TIKV_KILLS").map_or(ROUNDS, |text| text.parse().expect("a number"))
}

/// What writers share.
struct Shared {
    client: TransactionClient,
    prefix: String,
    stopped: AtomicBool,
    /// One for each acknowledged commit.
    commits: Semaphore,
}

impl Shared {
    /// The first key decides a commit; the store learns of the others after the answer.
    fn keys(&self, writer: u64, number: u64) -> [Vec<u8>; 3] {
        [0, 1, 2].map(|part| format!("{}-{part}-{writer}-{number}", self.prefix).into_bytes())
    }

    fn counter(&self, writer: u64) -> Vec<u8> {
        format!("{}-counter-{writer}", self.prefix).into_bytes()
    }

    /// Puts the keys of a number and adds one to the writer's counter, in one phase by every other writer. False: it
    /// was rolled back.
    async fn write(&self, writer: u64, number: u64) -> tikv_client::Result<bool> {
        let options = TransactionOptions::new_optimistic().drop_check(CheckLevel::None);
        let options = if writer % 2 == 1 { options.try_one_pc() } else { options };
        let mut transaction = self.client.begin_with_options(options).await?;
        for key in self.keys(writer, number) {
            transaction.put(key, number.to_string()).await?;
        }
        let counted = transaction.get(self.counter(writer)).await?;
        let counted: u64 = counted.map_or(0, |text| to_number(&text));
        transaction.put(self.counter(writer), (counted + 1).to_string()).await?;
        match transaction.commit().await {
            Ok(_) => Ok(true),
            Err(_) => transaction.rollback().await.map(|()| false),
        }
    }
}

/// What a writer was told of its numbers.
#[derive(Default)]
struct Numbers {
    acknowledged: Vec<u64>,
    rolled_back: Vec<u64>,
    /// So many others have an unknown outcome.
    unknown: u64,
}

/// A stored number. An empty value is how some stores answer if there is none.
fn to_number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).expect("text").parse().unwrap_or(0)
}

/// Writes until it is stopped.
async fn writer(shared: Arc<Shared>, writer: u64) -> Numbers {
    let mut told = Numbers::default();
    for number in 0.. {
        if shared.stopped.load(SeqCst) {
            break;
        }
        match timeout(ATTEMPT, shared.write(writer, number)).await {
            Ok(Ok(true)) => {
                told.acknowledged.push(number);
                shared.commits.add_permits(1);
            }
            Ok(Ok(false)) => told.rolled_back.push(number),
            _ => told.unknown += 1,
        }
    }
    told
}

/// Waits for so many commits more.
async fn progress(shared: &Shared) {
    let commits = timeout(MOST, shared.commits.acquire_many(COMMITS)).await;
    commits.expect("the store commits").expect("not closed").forget();
}

/// The values of keys at a new timestamp, as soon as the store answers.
async fn read(shared: &Shared, keys: Vec<Vec<u8>>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let end = Instant::now() + MOST;
    loop {
        let attempt = async {
            let at = shared.client.current_timestamp().await?;
            let options = TransactionOptions::new_optimistic().drop_check(CheckLevel::None);
            let found = shared.client.snapshot(at, options).batch_get(keys.clone()).await?;
            Ok::<_, tikv_client::Error>(found.map(|pair| (pair.0.into(), pair.1)).collect())
        };
        if let Ok(Ok(found)) = timeout(ATTEMPT, attempt).await {
            return found;
        }
        assert!(Instant::now() < end, "the store does not come back");
    }
}

/// The stored keys of numbers, and those that are not stored.
async fn stored(shared: &Shared, writer: u64, numbers: &[u64]) -> (Vec<String>, Vec<String>) {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for numbers in numbers.chunks(80) {
        let keys: Vec<_> = numbers.iter().flat_map(|n| shared.keys(writer, *n)).collect();
        let found = read(shared, keys.clone()).await;
        for key in keys {
            let is_there = found.get(&key).is_some_and(|value| !value.is_empty());
            let text = String::from_utf8_lossy(&key).into_owned();
            if is_there { &mut there } else { &mut missing }.push(text);
        }
    }
    (there, missing)
}

/// What is not as the writer was told.
async fn wrong(shared: &Shared, writer: u64, told: &Numbers) -> Vec<String> {
    let (_, mut wrong) = stored(shared, writer, &told.acknowledged).await;
    let (there, _) = stored(shared, writer, &told.rolled_back).await;
    wrong.extend(there.into_iter().map(|key| format!("{key}, which was rolled back")));
    let key = shared.counter(writer);
    let counted = read(shared, vec![key.clone()]).await.get(&key).map_or(0, |text| to_number(text));
    let (sure, unknown) = (told.acknowledged.len() as u64, told.unknown);
    if !(sure..=sure + unknown).contains(&counted) {
        wrong.push(format!(
            "counter of writer {writer}: {counted}, not {sure} to {}",
            sure + unknown
        ));
    }
    wrong
}

#[test]
fn a_killed_store_has_what_it_acknowledged() {
    let rounds = rounds();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = TransactionClient::new(vec![placement_driver()]).await.expect("connects");
        let prefix = new_prefix();
        let (stopped, commits) = (AtomicBool::new(false), Semaphore::new(0));
        let shared = Arc::new(Shared { client, prefix, stopped, commits });
        let spawn = |number| tokio::spawn(writer(Arc::clone(&shared), number));
        let writers: Vec<_> = (0..WRITERS).map(spawn).collect();
        for _ in 0..rounds {
            progress(&shared).await;
            control("kill", STORE);
            control("start", STORE);
        }
        progress(&shared).await;
        shared.stopped.store(true, SeqCst);
        let (mut all, mut sure, mut rolled_back) = (Vec::new(), 0, 0);
        for (number, writer) in (0..).zip(writers) {
            let told = writer.await.expect("no panic");
            sure += told.acknowledged.len();
            rolled_back += told.rolled_back.len();
            all.extend(wrong(&shared, number, &told).await);
        }
        println!("{rounds} kills, {sure} acknowledged commits, {rolled_back} rolled back");
        assert!(all.is_empty(), "wrong: {all:?}");
    });
}

/// What a thread was told of its commits.
#[derive(Default)]
struct Told {
    sure: u64,
    unknown: u64,
}

/// Adds one to a counter that another thread writes, too.
fn add_one(engine: &dyn Engine, key: &[u8]) -> Result<()> {
    let mut txn = engine.begin(TxnOptions { lock_wait_ms: 0, ..TxnOptions::default() })?;
    txn.lock(Space::Records, key)?;
    let mut buf = Vec::new();
    let counted = txn.get(Space::Records, key, &mut buf)?.map_or(0, to_number);
    txn.put(Space::Records, key, (counted + 1).to_string().as_bytes())?;
    txn.commit(Durability::Synced).map(|_| ())
}

#[test]
fn the_engine_knows_what_became_of_its_commits() {
    const KEYS: [&[u8]; 2] = [b"a", b"b"];
    let engine = node(&new_prefix());
    let (stopped, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let count = |key: &[u8]| {
        let mut told = Told::default();
        while !stopped.load(SeqCst) {
            match add_one(&*engine, key) {
                Ok(()) => {
                    told.sure += 1;
                    commits.fetch_add(1, SeqCst);
                }
                Err(Error::Undetermined) => told.unknown += 1,
                // Nothing was written.
                Err(Error::Conflict | Error::Unreachable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        told
    };
    let told = thread::scope(|scope| {
        let threads = [0, 0, 1, 1].map(|at| scope.spawn(move || count(KEYS[at])));
        for _ in 0..rounds() * 2 {
            let (goal, end) = (commits.load(SeqCst) + 40, Instant::now() + MOST);
            while commits.load(SeqCst) < goal {
                assert!(Instant::now() < end, "no commits");
                thread::yield_now();
            }
            control("kill", STORE);
            control("start", STORE);
        }
        stopped.store(true, SeqCst);
        threads.map(|thread| thread.join().expect("no panic"))
    });
    for (key, told) in KEYS.iter().zip(told.chunks(2)) {
        let sure: u64 = told.iter().map(|told| told.sure).sum();
        let unknown: u64 = told.iter().map(|told| told.unknown).sum();
        let counted = get(engine.latest(), Space::Records, key).map_or(0, |text| to_number(&text));
        println!("{sure} commits, {unknown} unknown: {counted}");
        assert!((sure..=sure + unknown).contains(&counted), "{counted} of {sure} and {unknown}");
    }
}
