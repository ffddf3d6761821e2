//! The cluster of tests/tikv, its counters, and engines on prefixes that no other test uses.

use std::{
    collections::BTreeMap,
    env,
    io::{Read as _, Write as _},
    net::TcpStream,
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};

use nagi_kv::{Durability, Engine, Read, Space, TxnOptions};
use nagi_kv_tikv::{Address, Options, Tikv, open};

const PD: &str = "NAGI_TIKV_PD";
const ADMIN: &str = "NAGI_TIKV_ADMIN";
const CONTROL: &str = "NAGI_TIKV_CONTROL";
/// The process of the store.
pub(crate) const STORE: &str = "STORE";
/// That of the placement driver.
pub(crate) const DRIVER: &str = "PD";

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this test by `make tikv`"))
}

/// A prefix that no other test uses.
pub(crate) fn new_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("k{}-{}", process::id(), NEXT.fetch_add(1, SeqCst))
}

pub(crate) fn options(prefix: &str) -> Options {
    let address = Address::parse(&format!("tikv://{}/{prefix}", variable(PD)));
    let folder = env::temp_dir().join(format!("nagi-{}-{prefix}", process::id()));
    Options::new(address.expect("an address"), folder)
}

pub(crate) fn engine(prefix: &str) -> Arc<Tikv> {
    open(&options(prefix)).expect("opens")
}

/// A node, in another process as far as the engine can tell.
pub(crate) fn node(prefix: &str) -> Arc<dyn Engine> {
    engine(prefix)
}

/// The address of the placement driver.
pub(crate) fn placement_driver() -> String {
    variable(PD)
}

fn ask(server: &str, request: &str) -> String {
    let address = variable(server);
    let mut stream = TcpStream::connect(&address).expect("it listens");
    write!(stream, "{request} HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n")
        .expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.contains(" 200 "), "{request}: {answer}");
    body.to_owned()
}

/// Requests at the store so far, by method.
pub(crate) fn calls() -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (method, count) = line.split_once(' ').expect("a method and a count");
        (method.to_owned(), count.trim().parse().expect("a number"))
    };
    ask(ADMIN, "GET /calls").lines().map(line).collect()
}

/// Where the regions begin, in the form of the placement driver, as it knows them now; the first one is empty.
pub(crate) fn region_starts() -> Vec<Vec<u8>> {
    let list = ask(PD, "GET /pd/api/v1/regions");
    let keys = list.split("\"start_key\"").skip(1).filter_map(|rest| rest.split('"').nth(1));
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(text, 16).expect("two digits")
    };
    let mut starts: Vec<Vec<u8>> =
        keys.map(|key| key.as_bytes().chunks(2).map(byte).collect()).collect();
    starts.sort();
    starts
}

/// Splits a region before a stored key.
pub(crate) fn split(key: &[u8]) {
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    ask(ADMIN, &format!("POST /split?key={hex}"));
}

/// The store does what requests of these methods (with commas) ask, but does not answer them, until this is dropped.
pub(crate) struct Muted(());

impl Muted {
    pub(crate) fn now(methods: &str) -> Muted {
        ask(ADMIN, &format!("POST /mute?method={methods}"));
        Muted(())
    }
}

impl Drop for Muted {
    fn drop(&mut self) {
        ask(ADMIN, "POST /mute");
    }
}

/// Ids of the services that have safe points at the placement driver.
pub(crate) fn services() -> Vec<String> {
    let list = ask(PD, "GET /pd/api/v1/gc/safepoint");
    let ids = list.split("\"service_id\"").skip(1);
    ids.filter_map(|rest| rest.split('"').nth(1).map(str::to_owned)).collect()
}

/// The store learns the safe point now; otherwise within a minute.
pub(crate) fn collect_now() {
    ask(ADMIN, "POST /collect");
}

/// Bytes of the sorted tables in a folder of the cluster.
pub(crate) fn table_bytes(folder: &str) -> u64 {
    let folder = folder.replace('/', "%2F");
    ask(CONTROL, &format!("GET /tables/{folder}")).trim().parse().expect("a number")
}

/// Does something with a process of the cluster: `stop` and `continue` it, `kill` or `end` it, `start` it
/// again.
pub(crate) fn control(what: &str, process: &str) {
    ask(CONTROL, &format!("POST /{what}/{process}"));
}

/// A counter of an engine.
pub(crate) fn stat(engine: &dyn Engine, wanted: &str) -> i64 {
    let mut found = None;
    engine.stats(&mut |name, value| found = found.or((name == wanted).then_some(value)));
    found.expect("a counter of this name")
}

pub(crate) fn put(engine: &dyn Engine, space: Space, key: &[u8], value: &[u8]) {
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(space, key, value).expect("staged");
    txn.commit(Durability::Synced).expect("commits");
}

pub(crate) fn get(read: &(impl Read + ?Sized), space: Space, key: &[u8]) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    read.get(space, key, &mut buf).expect("reads").map(<[u8]>::to_vec)
}
