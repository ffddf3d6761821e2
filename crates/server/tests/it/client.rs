//! A test client that calls the server in process, without a socket.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, json};
use nagi_server::{
    Connection, Log, LogDestination, OplogLimits, Outcome, Peer, Server, ServerBuilder,
    ServerConfig,
};
use nagi_store::{NodeMode, NodeOptions, Oplog, Store, StoreOptions};

/// A server on the memory engine with test commands enabled.
pub(crate) fn server() -> Arc<Server> {
    server_on(Arc::new(nagi_kv::Memory::new()), None)
}

/// A server that is an initiated member of the replica set `rs`.
pub(crate) fn member() -> Arc<Server> {
    let server = server_on(Arc::new(nagi_kv::Memory::new()), Some("rs"));
    let reply =
        Client::new(&server).run("admin", nagi_bson::doc! { "replSetInitiate": 1 }.as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    server
}

/// A router on an engine that other processes may write to.
pub(crate) fn router() -> Arc<Server> {
    router_on(Arc::new(nagi_kv::Minimal::new()))
}

/// A router on this engine.
pub(crate) fn router_on(engine: Arc<dyn nagi_kv::Engine>) -> Arc<Server> {
    router_over(shared_store(engine, "node"))
}

/// A store that shares the data of the engine with others.
pub(crate) fn shared_store(engine: Arc<dyn nagi_kv::Engine>, name: &str) -> Arc<Store> {
    let name = name.to_owned();
    let node = NodeOptions { mode: NodeMode::Member, name, ..NodeOptions::default() };
    Store::open(engine, StoreOptions { node, ..StoreOptions::default() }).unwrap()
}

/// A router on an open store.
pub(crate) fn router_over(store: Arc<Store>) -> Arc<Server> {
    ServerBuilder::new(router_config(store, false)).unwrap().start().unwrap()
}

/// The configuration of a router.
pub(crate) fn router_config(store: Arc<Store>, authorization: bool) -> ServerConfig {
    let views = Store::open(Arc::new(nagi_kv::Memory::new()), StoreOptions::default()).unwrap();
    ServerConfig { router: Some(views), ..config_over(store, None, authorization, true) }
}

/// A server on this engine; a member of the replica set `set`, if given.
pub(crate) fn server_on(engine: Arc<dyn nagi_kv::Engine>, set: Option<&str>) -> Arc<Server> {
    server_with(engine, set, false)
}

/// A server as [`server_on`] makes it, with or without authorization.
pub(crate) fn server_with(
    engine: Arc<dyn nagi_kv::Engine>,
    set: Option<&str>,
    authorization: bool,
) -> Arc<Server> {
    server_made(engine, set, authorization, true)
}

/// A server with JavaScript disabled.
pub(crate) fn server_without_scripts() -> Arc<Server> {
    server_made(Arc::new(nagi_kv::Memory::new()), None, false, false)
}

/// A server on a store that is opened on this engine.
fn server_made(
    engine: Arc<dyn nagi_kv::Engine>,
    set: Option<&str>,
    authorization: bool,
    javascript: bool,
) -> Arc<Server> {
    let change_log = set.map(|_| Arc::new(Oplog::default()) as _);
    server_over(
        Store::open(engine, StoreOptions { change_log, ..StoreOptions::default() }).unwrap(),
        set,
        authorization,
        javascript,
    )
}

/// A server on an open store. Passwords are derived with few iterations, so that logins are fast.
pub(crate) fn server_over(
    store: Arc<Store>,
    set: Option<&str>,
    authorization: bool,
    javascript: bool,
) -> Arc<Server> {
    builder_over(store, set, authorization, javascript).start().unwrap()
}

/// The same, before its start.
pub(crate) fn builder_over(
    store: Arc<Store>,
    set: Option<&str>,
    authorization: bool,
    javascript: bool,
) -> ServerBuilder {
    ServerBuilder::new(config_over(store, set, authorization, javascript)).unwrap()
}

/// The configuration of such a server.
pub(crate) fn config_over(
    store: Arc<Store>,
    set: Option<&str>,
    authorization: bool,
    javascript: bool,
) -> ServerConfig {
    let log = Log::open(LogDestination::Nowhere).unwrap();
    let parameters = [
        ("enableTestCommands", "1"),
        ("scramIterationCount", "5000"),
        ("scramSHA256IterationCount", "5000"),
    ];
    ServerConfig {
        store,
        log,
        storage_engine: "inMemory".to_owned(),
        persistent: false,
        argv: vec!["nagi".to_owned(), "serve".to_owned()],
        parsed_options: DocBuf::new(),
        port: 27017,
        replica_set: set.map(|name| (name.to_owned(), "localhost:27017".to_owned())),
        router: None,
        oplog: OplogLimits::default(),
        memory_limit_bytes: None,
        connection_count_max: 100,
        authorization,
        tls: None,
        directory: None,
        tokens: None,
        javascript,
        parameters: parameters.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        own_threads: true,
        restores: false,
        nagi_version: "0.1.0",
        git_version: "unknown",
    }
}

/// A connection with its buffers.
pub(crate) struct Client {
    pub(crate) server: Arc<Server>,
    pub(crate) connection: Connection,
    pub(crate) frame: Vec<u8>,
    pub(crate) out: Vec<u8>,
}

impl Client {
    pub(crate) fn new(server: &Arc<Server>) -> Client {
        Client::from(server, "127.0.0.1:50000")
    }

    /// A client that connects from `address`.
    pub(crate) fn from(server: &Arc<Server>, address: &str) -> Client {
        let local = "127.0.0.1".parse().ok();
        let peer = Peer { address: address.to_owned(), unix_socket: false, local };
        Client {
            server: server.clone(),
            connection: server.connect(peer).unwrap(),
            frame: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Sends the message in `frame`.
    pub(crate) fn send(&mut self) -> Outcome {
        self.out.clear();
        self.server.handle(&mut self.connection, &self.frame, &mut self.out)
    }

    /// Writes an OP_MSG into `frame`.
    pub(crate) fn message(&mut self, db: &str, flags: u32, body: Doc<'_>) {
        self.frame.clear();
        let start = nagi_wire::begin_msg(&mut self.frame, 7, 0, flags);
        let mut writer = nagi_bson::DocWriter::new(&mut self.frame);
        writer.extend(body);
        writer.put("$db", db);
        writer.finish();
        nagi_wire::finish_msg(&mut self.frame, start);
    }

    /// Runs a command and returns its reply.
    pub(crate) fn run(&mut self, db: &str, body: Doc<'_>) -> DocBuf {
        self.message(db, 0, body);
        self.send();
        self.reply()
    }

    /// Runs a command in shell notation on database `test`.
    pub(crate) fn shell(&mut self, text: &str) -> DocBuf {
        self.run("test", json::parse(text).unwrap().as_doc())
    }

    /// The reply document of the OP_MSG in `out`.
    pub(crate) fn reply(&self) -> DocBuf {
        Doc::parse(&self.out[21..]).unwrap().to_buf()
    }
}

/// Returns true if the reply has `ok: 1`.
pub(crate) fn is_ok(reply: &DocBuf) -> bool {
    matches!(reply.get("ok"), Value::Double(n) if n == 1.0)
}
