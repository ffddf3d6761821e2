//! Messages to a service manager, which the test plays with a datagram socket.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use nagi_bson::Value;

use crate::process::{Folder, Server, ended, nagi};

/// The watchdog's interval; messages arrive after half of it.
const INTERVAL_US: &str = "400000";
/// Longer than any interval of messages, and any wait for a step of a start.
const PATIENCE: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_secs(2);

struct Manager(UnixDatagram);

impl Manager {
    /// Receives messages until one has a line that begins with `start`; returns them all.
    fn wait_for(&self, start: &str) -> Vec<String> {
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut seen: Vec<String> = Vec::new();
        while !seen.last().is_some_and(|last| last.lines().any(|line| line.starts_with(start))) {
            let mut bytes = [0; 4096];
            let len = self.0.recv(&mut bytes).unwrap_or_else(|e| panic!("{start}: {e}: {seen:?}"));
            seen.push(String::from_utf8(bytes[..len].to_vec()).unwrap());
        }
        seen
    }

    /// Returns true if no message arrives for some intervals.
    fn is_silent(&self) -> bool {
        self.0.set_read_timeout(Some(SILENCE)).unwrap();
        self.0.recv(&mut [0; 4096]).is_err()
    }

    fn drain(&self) {
        self.0.set_nonblocking(true).unwrap();
        while self.0.recv(&mut [0; 4096]).is_ok() {}
        self.0.set_nonblocking(false).unwrap();
    }
}

fn start(folder: &Folder, socket: &str, more: &[&str]) -> Server {
    let mut command = nagi();
    command.env("NOTIFY_SOCKET", socket).env("WATCHDOG_USEC", INTERVAL_US);
    Server::spawn(&mut command, &folder.data(), more)
}

#[test]
fn a_service_manager_hears_of_start_life_and_end() {
    let folder = Folder::new("notified");
    let path = folder.path().join("notify");
    let manager = Manager(UnixDatagram::bind(&path).unwrap());
    let server =
        start(&folder, path.to_str().unwrap(), &["--setParameter", "enableTestCommands=1"]);
    let messages = manager.wait_for("READY=1");
    assert!(messages[0].starts_with("STATUS=Opening"), "{messages:?}");
    let last = messages.last().unwrap();
    assert!(last.contains(&format!("STATUS=Waiting for connections on port {}", server.port)));
    let before = |word: &str| messages.iter().any(|message| message.contains(word));
    assert!(!before("WATCHDOG=1") && !before("STOPPING=1"), "{messages:?}");
    // A client can connect once the server is ready.
    let mut client = server.client();
    assert_eq!(client.run("{ping: 1}").get("ok"), Value::Double(1.0));
    manager.wait_for("WATCHDOG=1");
    manager.wait_for("WATCHDOG=1");

    // A ping that hangs is not reported as life, although the process and its threads are there.
    let hang = "{configureFailPoint: 'failCommand', mode: 'alwaysOn', data: {failCommands: ['ping'], \
                blockConnection: true, blockTimeMS: 600000}}";
    let reply = client.try_run_on("admin", hang).unwrap();
    assert_eq!(reply.get("ok"), Value::Double(1.0), "{reply:?}");
    // Messages that were sent before the fail point was there.
    manager.drain();
    let silent = (0..3).any(|_| manager.is_silent());
    assert!(silent);
    server.signal("-TERM");
    let messages = manager.wait_for("STOPPING=1");
    assert!(!messages.iter().any(|message| message.contains("WATCHDOG=1")), "{messages:?}");
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn an_abstract_socket_and_no_watchdog() {
    let folder = Folder::new("abstract");
    let name = format!("nagi-notify-{}", std::process::id());
    let bound = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = Manager(UnixDatagram::bind_addr(&bound).unwrap());
    let mut command = nagi();
    // The watchdog of another process.
    command.env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", INTERVAL_US);
    command.env("WATCHDOG_PID", "1");
    let server = Server::spawn(&mut command, &folder.data(), &[]);
    manager.wait_for("READY=1");
    assert!(manager.is_silent());
    server.signal("-TERM");
    manager.wait_for("STOPPING=1");
    assert_eq!(server.wait(), Some(0));
}

/// A status tells why the server did not start; a repair never is ready.
#[test]
fn a_start_that_fails_is_reported() {
    let folder = Folder::new("not-started");
    let path = folder.path().join("notify");
    let manager = Manager(UnixDatagram::bind(&path).unwrap());
    let server = Server::start(&folder.data());
    let output = nagi()
        .env("NOTIFY_SOCKET", &path)
        .args(["--port", "0", "--nounixsocket", "--dbpath"])
        .arg(folder.data())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(100));
    let messages = manager.wait_for("STATUS=DBException");
    assert!(messages.last().unwrap().contains("DBPathInUse"), "{messages:?}");
    server.signal("-TERM");
    server.wait();
    let output = nagi()
        .env("NOTIFY_SOCKET", &path)
        .args(["--repair", "--dbpath"])
        .arg(folder.data())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let messages = manager.wait_for("STATUS=Repairing");
    assert!(!messages.iter().any(|message| message.contains("READY=1")), "{messages:?}");
    assert!(manager.is_silent());
}

#[test]
fn a_forked_server_does_not_notify() {
    let folder = Folder::new("fork-silent");
    let path = folder.path().join("notify");
    let manager = Manager(UnixDatagram::bind(&path).unwrap());
    let data = folder.data().display().to_string();
    let log = folder.path().join("log").display().to_string();
    let started = nagi()
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", INTERVAL_US)
        .args(["--fork", "--port", "0", "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"])
        .args(["--logpath", &log, "--dbpath", &data])
        .output()
        .unwrap();
    assert!(started.status.success(), "{started:?}");
    assert!(manager.is_silent());
    assert!(ended(&["--shutdown", "--dbpath", &data]).status.success());
    assert!(manager.is_silent());
}

#[test]
fn ping_tells_whether_a_server_answers() {
    let folder = Folder::new("ping");
    let server = Server::start_with(&folder.data(), &["--auth"]);
    let uri = format!("mongodb://127.0.0.1:{}", server.port);
    let answered = ended(&["ping", "--uri", &uri]);
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    assert!(String::from_utf8_lossy(&answered.stdout).contains("answered after"));
    // A process that does not respond.
    server.signal("-STOP");
    let silent = ended(&["ping", "--uri", &uri, "--timeoutSeconds", "1"]);
    server.signal("-CONT");
    assert_eq!(silent.status.code(), Some(1), "{silent:?}");
    server.signal("-TERM");
    server.wait();
    let refused = ended(&["ping", "--uri", &uri]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let wrong = ended(&["ping", "--url", &uri]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("try 'nagi help ping'"));
}
