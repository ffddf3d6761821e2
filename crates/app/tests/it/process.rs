//! A running server, and a minimal client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nagi_bson::{Doc, DocBuf, Value, json};

/// The directory of a test; removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("nagi-app-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("data")).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that accepts connections. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

pub(crate) fn nagi() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nagi"))
}

/// Runs the program until it exits.
pub(crate) fn ended(args: &[&str]) -> Output {
    nagi().args(args).output().unwrap()
}

impl Server {
    /// Starts a server on a free port and waits for "Waiting for connections".
    pub(crate) fn start(data: &Path) -> Server {
        Server::start_with(data, &[])
    }

    /// Starts a server with further options.
    pub(crate) fn start_with(data: &Path, more: &[&str]) -> Server {
        Server::spawn(&mut nagi(), data, more)
    }

    /// Starts a server from a shell with this umask.
    pub(crate) fn start_with_umask(data: &Path, more: &[&str], umask: &str) -> Server {
        let mut shell = Command::new("sh");
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_nagi")]);
        Server::spawn(&mut shell, data, more)
    }

    /// Starts a server by this command, to which the options are added.
    pub(crate) fn spawn(command: &mut Command, data: &Path, more: &[&str]) -> Server {
        let mut child = command
            .args(["serve", "--port", "0", "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"])
            .args(more)
            .arg("--dbpath")
            .arg(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        let port = loop {
            let Some(line) = lines.next() else { panic!("the server did not start:\n{said}") };
            let line = line.unwrap();
            said.push_str(&line);
            said.push('\n');
            let line = json::parse(&line).unwrap();
            if let (Value::Int32(23016), Value::Doc(attr)) = (line.get("id"), line.get("attr")) {
                break nagi_bson::number::as_i64_exact(attr.get("port")).unwrap();
            }
        };
        // A thread must read the output, or the server would block when it logs.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, port: u16::try_from(port).unwrap() }
    }

    pub(crate) fn client(&self) -> Client {
        Client::to(self.port)
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        // The shell's builtin, because a small system has no `kill` program.
        let kill = format!("kill {name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Ends the server's standard input.
    pub(crate) fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until the server exits and returns its exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection.
pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn to(port: u16) -> Client {
        Client(TcpStream::connect(("127.0.0.1", port)).unwrap())
    }

    /// Sends a command in shell notation; `None` if the server closes the connection without a reply.
    pub(crate) fn try_run(&mut self, command: &str) -> Option<DocBuf> {
        self.try_run_on("test", command)
    }

    /// As [`Client::try_run`], on another database.
    pub(crate) fn try_run_on(&mut self, database: &str, command: &str) -> Option<DocBuf> {
        let command = json::parse(command).unwrap();
        let mut frame = Vec::new();
        nagi_wire::reply_msg(&mut frame, 1, 0, 0, |w| {
            w.extend(command.as_doc());
            w.put("$db", database);
        });
        self.0.write_all(&frame).ok()?;
        let mut head = [0; 16];
        self.0.read_exact(&mut head).ok()?;
        let mut rest = vec![0; nagi_wire::frame_len(&head).unwrap() - 16];
        self.0.read_exact(&mut rest).ok()?;
        Some(Doc::parse(&rest[5..]).unwrap().to_buf())
    }

    pub(crate) fn run(&mut self, command: &str) -> DocBuf {
        self.try_run(command).expect("a reply")
    }

    /// The number of documents in a collection.
    pub(crate) fn count(&mut self, collection: &str) -> i64 {
        let reply = self.run(&format!("{{count: '{collection}'}}"));
        nagi_bson::number::as_i64_exact(reply.get("n")).unwrap_or_else(|| panic!("{reply:?}"))
    }
}
