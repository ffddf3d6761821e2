//! A server over the cluster, and a client of it that sends messages as drivers do.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nagi_bson::{Doc, DocBuf, DocWriter, Value, json};

const START: Duration = Duration::from_secs(60);
/// Bytes of the header, of flags and of the kind of a section.
const BEFORE_BODY: usize = 21;
const SESSION: &str = "lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}";

pub(super) struct Server {
    process: Child,
    stream: TcpStream,
    folder: PathBuf,
    frame: Vec<u8>,
    number: u64,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A document of some 120 bytes.
fn document(n: u32) -> String {
    format!("{{_id: {n}, a: {n}, b: {}, text: '{}'}}", n / 100, "x".repeat(64))
}

impl Server {
    pub(super) fn start(program: &str, placement_driver: &str, prefix: &str) -> Server {
        let folder = env::temp_dir().join(format!("nagi-costs-{prefix}"));
        fs::create_dir_all(&folder).expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let process = Command::new(program)
            .args(["serve", "--bind_ip", "127.0.0.1", "--port", &port.to_string(), "--dbpath"])
            .arg(&folder)
            .args(["--storageEngine", "tikv", "--storageUri"])
            .arg(format!("tikv://{placement_driver}/{prefix}"))
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        let until = Instant::now() + START;
        let stream = loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                break stream;
            }
            assert!(Instant::now() < until, "the server does not listen");
        };
        stream.set_nodelay(true).expect("an option");
        Server { process, stream, folder, frame: Vec::new(), number: 0 }
    }

    /// Collections with documents, and an index on `a` of two of them.
    pub(super) fn load(&mut self, count: u32) {
        self.run("{create: 'clustered', clusteredIndex: {key: {_id: 1}, unique: true}}");
        for collection in ["indexed", "found"] {
            let indexes = "[{key: {a: 1}, name: 'a'}, {key: {b: 1}, name: 'b'}]";
            self.run(&format!("{{createIndexes: '{collection}', indexes: {indexes}}}"));
        }
        for from in (0..count).step_by(1000) {
            let documents: Vec<_> = (from..from + 1000).map(document).collect();
            for collection in ["clustered", "found"] {
                self.run(&format!(
                    "{{insert: '{collection}', documents: [{}]}}",
                    documents.join(", ")
                ));
            }
        }
    }

    fn run(&mut self, command: &str) -> DocBuf {
        self.run_in("test", command)
    }

    fn run_in(&mut self, db: &str, command: &str) -> DocBuf {
        let body = json::parse(command).expect("parses");
        self.frame.clear();
        let start = nagi_wire::begin_msg(&mut self.frame, 1, 0, 0);
        let mut writer = DocWriter::new(&mut self.frame);
        writer.extend(body.as_doc());
        writer.put("$db", db);
        writer.finish();
        nagi_wire::finish_msg(&mut self.frame, start);
        self.stream.write_all(&self.frame).expect("sent");
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("a reply");
        let length = u32::from_le_bytes(length) as usize;
        self.frame.resize(length, 0);
        self.stream.read_exact(&mut self.frame[4..]).expect("a reply");
        let reply = Doc::parse(&self.frame[BEFORE_BODY..]).expect("a document").to_buf();
        assert_eq!(reply.get("ok"), Value::Double(1.0), "{command}: {reply:?}");
        assert!(reply.get("writeErrors").is_missing(), "{command}: {reply:?}");
        reply
    }

    fn reads(&mut self, command: &str, count: usize) {
        let reply = self.run(command);
        let cursor = reply.get("cursor").as_doc().expect("a cursor");
        let batch = cursor.get("firstBatch").as_array().expect("a batch");
        assert_eq!(batch.iter().count(), count, "{command}");
    }

    pub(super) fn find_id(&mut self, n: u32) {
        self.reads(
            &format!("{{find: 'found', filter: {{_id: {n}}}, limit: 1, singleBatch: true}}"),
            1,
        );
    }

    pub(super) fn find_clustered(&mut self, n: u32) {
        self.reads(
            &format!("{{find: 'clustered', filter: {{_id: {n}}}, limit: 1, singleBatch: true}}"),
            1,
        );
    }

    pub(super) fn find_range(&mut self, from: u32, count: u32) {
        let filter = format!("{{a: {{$gte: {from}, $lt: {}}}}}", from + count);
        let command = format!("{{find: 'found', filter: {filter}, batchSize: {}}}", count + 1);
        self.reads(&command, count as usize);
    }

    pub(super) fn insert(&mut self, collection: &str, n: u32) {
        self.run(&format!("{{insert: '{collection}', documents: [{}]}}", document(n)));
    }

    pub(super) fn insert_retryable(&mut self, n: u32) {
        self.number += 1;
        let number = format!("{SESSION}, txnNumber: NumberLong({})", self.number);
        let documents = document(1_000_000 + n);
        self.run(&format!("{{insert: 'plain', documents: [{documents}], {number}}}"));
    }

    pub(super) fn update(&mut self, n: u32) {
        self.run(&format!(
            "{{update: 'found', updates: [{{q: {{_id: {n}}}, u: {{$inc: {{c: 1}}}}}}]}}"
        ));
    }

    pub(super) fn transaction(&mut self, n: u32) {
        self.number += 1;
        let inside =
            format!("{SESSION}, txnNumber: NumberLong({}), autocommit: false", self.number);
        for (id, start) in [(n, ", startTransaction: true"), (n + 5000, "")] {
            let update = format!("{{q: {{_id: {id}}}, u: {{$inc: {{c: 1}}}}}}");
            self.run(&format!("{{update: 'found', updates: [{update}], {inside}{start}}}"));
        }
        self.run_in("admin", &format!("{{commitTransaction: 1, {inside}}}"));
    }

    pub(super) fn lookup(&mut self, from: &str, n: u32) {
        let matched = format!("{{$match: {{a: {{$gte: {n}, $lt: {}}}}}}}", n + 100);
        let fields = "localField: 'a', foreignField: '_id', as: 'all'";
        let lookup = format!("{{$lookup: {{from: '{from}', {fields}}}}}");
        let pipeline =
            format!("[{matched}, {lookup}, {{$match: {{'all.0._id': {{$exists: true}}}}}}]");
        self.reads(
            &format!("{{aggregate: 'found', pipeline: {pipeline}, cursor: {{batchSize: 1000}}}}"),
            100,
        );
    }
}
