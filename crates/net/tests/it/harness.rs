//! A listening server, and a client that writes raw bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nagi_bson::{Doc, DocBuf, Value, doc};
use nagi_budget::Budget;
use nagi_net::{Listeners, NetConfig};
use nagi_server::{Log, LogDestination, OplogLimits, Server, ServerBuilder, ServerConfig};
use nagi_store::{Store, StoreOptions};

pub(crate) struct Running {
    pub(crate) server: Arc<Server>,
    pub(crate) listeners: Listeners,
    pub(crate) folder: PathBuf,
}

/// Starts a server with a configuration that `change` may modify. Every test has its own socket directory.
pub(crate) fn start(name: &str, most: i64, change: impl FnOnce(&mut NetConfig)) -> Running {
    start_within(name, most, Budget::unlimited(), change)
}

/// The same with a memory budget.
pub(crate) fn start_within(
    name: &str,
    most: i64,
    budget: Arc<Budget>,
    change: impl FnOnce(&mut NetConfig),
) -> Running {
    let options = StoreOptions { budget, ..StoreOptions::default() };
    let store = Store::open(Arc::new(nagi_kv::Memory::new()), options).unwrap();
    let server = ServerBuilder::new(ServerConfig {
        store,
        log: Log::open(LogDestination::Nowhere).unwrap(),
        storage_engine: "inMemory".to_owned(),
        persistent: false,
        argv: Vec::new(),
        parsed_options: DocBuf::new(),
        port: 0,
        replica_set: None,
        router: None,
        oplog: OplogLimits::default(),
        authorization: false,
        tls: None,
        directory: None,
        tokens: None,
        javascript: true,
        memory_limit_bytes: None,
        connection_count_max: most,
        parameters: Vec::new(),
        restores: false,
        own_threads: true,
        nagi_version: "0.1.0",
        git_version: "unknown",
    })
    .and_then(ServerBuilder::start)
    .unwrap();
    let folder = std::env::temp_dir().join(format!("nagi-net-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut config = NetConfig {
        port: 0,
        bind_ip: vec!["127.0.0.1".into()],
        unix_socket_dir: Some(folder.clone()),
        ..NetConfig::default()
    };
    change(&mut config);
    let listeners = nagi_net::serve(&server, nagi_net::bind(config).unwrap()).unwrap();
    Running { server, listeners, folder }
}

impl Running {
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.listeners.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    pub(crate) fn stop(self) {
        self.server.stop();
        self.listeners.stop(Duration::from_secs(5));
        std::fs::remove_dir_all(self.folder).unwrap();
    }
}

/// A `ping` with this request id.
pub(crate) fn ping(id: i32) -> Vec<u8> {
    let mut frame = Vec::new();
    let body = doc! { "ping": 1, "$db": "admin" };
    nagi_wire::reply_msg(&mut frame, id, 0, 0, |w| w.extend(body.as_doc()));
    frame
}

/// Reads a reply and returns the request id that it responds to, and its `ok`.
pub(crate) fn reply(stream: &mut impl Read) -> (i32, f64) {
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    let mut rest = vec![0; nagi_wire::frame_len(&head).unwrap() - 16];
    stream.read_exact(&mut rest).unwrap();
    let body = Doc::parse(&rest[5..]).unwrap();
    let Value::Double(ok) = body.get("ok") else { panic!("{body}") };
    (i32::from_le_bytes([head[8], head[9], head[10], head[11]]), ok)
}

/// An OP_MSG with this body for a database.
pub(crate) fn message(db: &str, body: Doc<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    nagi_wire::reply_msg(&mut frame, 1, 0, 0, |w| {
        w.extend(body);
        w.put("$db", db);
    });
    frame
}

/// Reads a reply and returns its document.
pub(crate) fn body(stream: &mut impl Read) -> DocBuf {
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    let mut rest = vec![0; nagi_wire::frame_len(&head).unwrap() - 16];
    stream.read_exact(&mut rest).unwrap();
    Doc::parse(&rest[5..]).unwrap().to_buf()
}

/// Returns true if the server closes the connection without sending another byte.
pub(crate) fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Sends bytes in pieces of `len` bytes.
pub(crate) fn send_pieces(stream: &mut TcpStream, bytes: &[u8], len: usize) {
    for piece in bytes.chunks(len) {
        stream.write_all(piece).unwrap();
    }
}
