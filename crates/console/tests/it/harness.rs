//! A console of a server in memory, and a client that writes raw requests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use nagi_bson::{Doc, DocBuf, json};
use nagi_console::{About, Alerts, Console, Names, Setup};
use nagi_server::{
    Log, LogDestination, Networks, OplogLimits, Peer, Server, ServerBuilder, ServerConfig,
};
use nagi_store::{Store, StoreOptions};
use rustix::net;

pub(crate) struct Running {
    pub(crate) server: Arc<Server>,
    pub(crate) port: u16,
    console: Option<Console>,
}

pub(crate) fn start(authorization: bool) -> Running {
    start_for(authorization, None)
}

pub(crate) fn start_for(authorization: bool, allowed: Option<Networks>) -> Running {
    start_with(authorization, allowed, &[])
}

/// A server with further parameters.
pub(crate) fn start_with(
    authorization: bool,
    allowed: Option<Networks>,
    parameters: &[(&str, &str)],
) -> Running {
    let engine = Arc::new(nagi_kv::Memory::new());
    start_as(engine, authorization, allowed, parameters, None)
}

/// An initiated member of a replica set, which has transactions, on this engine.
pub(crate) fn start_member_on(engine: Arc<dyn nagi_kv::Engine>) -> Running {
    let running = start_as(engine, false, None, &[], Some("rs"));
    let reply = running.direct("admin", nagi_bson::doc! { "replSetInitiate": 1 }.as_doc());
    assert_eq!(nagi_bson::number::as_f64(reply.as_doc().get("ok")), Some(1.0), "{reply:?}");
    running
}

fn start_as(
    engine: Arc<dyn nagi_kv::Engine>,
    authorization: bool,
    allowed: Option<Networks>,
    parameters: &[(&str, &str)],
    set: Option<&str>,
) -> Running {
    let own = [("authFailedDelayMs", "0")];
    let parameters = own.iter().chain(parameters);
    let store = Store::open(engine, StoreOptions::default()).unwrap();
    let server = ServerBuilder::new(ServerConfig {
        store,
        log: Log::open(LogDestination::Nowhere).unwrap(),
        storage_engine: "inMemory".to_owned(),
        persistent: false,
        argv: Vec::new(),
        parsed_options: DocBuf::new(),
        port: 0,
        replica_set: set.map(|name| (name.to_owned(), "localhost:27017".to_owned())),
        router: None,
        oplog: OplogLimits::default(),
        authorization,
        tls: None,
        directory: None,
        tokens: None,
        javascript: true,
        memory_limit_bytes: None,
        connection_count_max: 100,
        parameters: parameters
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        restores: false,
        own_threads: true,
        nagi_version: "0.1.0",
        git_version: "unknown",
    })
    .and_then(ServerBuilder::start)
    .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let about = About {
        version: "0.1.0".to_owned(),
        storage_engine: "inMemory".to_owned(),
        doctor: Arc::new(|| nagi_bson::doc! { "findings": [] }),
    };
    let names = Names { own: Vec::new(), origins: Vec::new() };
    let alerts = Some(Alerts::default());
    let setup = Setup { listeners: vec![listener], about, names, allowed, alerts };
    let console = Console::start(server.clone(), setup);
    Running { server, port, console: Some(console.unwrap()) }
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> DocBuf {
        json::parse(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The cookie as a client sends it.
    pub(crate) fn cookie(&self) -> String {
        self.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }
}

fn sent(mut stream: TcpStream, bytes: &[u8], is_all: bool) -> Reply {
    // The server may refuse before it has read all.
    let _ = stream.write_all(bytes);
    if is_all {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    let text = String::from_utf8_lossy(&all).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

impl Running {
    pub(crate) fn connect(&self) -> TcpStream {
        self.connect_from(Ipv4Addr::LOCALHOST)
    }

    /// A connection of the client with this address of the machine.
    pub(crate) fn connect_from(&self, address: Ipv4Addr) -> TcpStream {
        let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddrV4::new(address, 0)).unwrap();
        net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes on a connection of their own and reads until the other side closes it.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Reply {
        sent(self.connect(), bytes, false)
    }

    /// The same, and says that no more bytes come.
    pub(crate) fn cut(&self, bytes: &[u8]) -> Reply {
        sent(self.connect(), bytes, true)
    }

    pub(crate) fn get(&self, path: &str, headers: &str) -> Reply {
        let text =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
        self.raw(text.as_bytes())
    }

    pub(crate) fn post(&self, path: &str, headers: &str, body: &str) -> Reply {
        self.post_from(Ipv4Addr::LOCALHOST, path, headers, body)
    }

    /// The same, as the client with this address.
    pub(crate) fn post_from(
        &self,
        address: Ipv4Addr,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Reply {
        let head = "content-type: application/json\r\nx-nagi-console: 1\r\n";
        let text = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\
             content-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        sent(self.connect_from(address), text.as_bytes(), false)
    }

    pub(crate) fn command(&self, headers: &str, db: &str, command: &str) -> DocBuf {
        let body = format!("{{db: '{db}', command: {command}}}");
        let reply = self.post("/api/command", headers, &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// Stops it, as a process does that was told to end.
    pub(crate) fn stop(&mut self) {
        self.server.stop();
        if let Some(console) = self.console.take() {
            console.stop();
        }
    }

    /// Runs a command as a client of this machine.
    pub(crate) fn direct(&self, db: &str, command: Doc<'_>) -> DocBuf {
        let peer = Peer { address: "127.0.0.1:1".to_owned(), unix_socket: false, local: None };
        let mut connection = self.server.connect(peer).unwrap();
        let mut out = Vec::new();
        assert!(self.server.run_command(&mut connection, db, command, None, &mut out));
        DocBuf::from_bytes(out).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        self.server.join_jobs();
    }
}
