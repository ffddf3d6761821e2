//! Child processes: starts servers for a measurement, reads their CPU time and guarantees that they are
//! terminated.
use crate::args::{Args, Outcome, Problem, failed, self_program};
use crate::client::Connection;
use nagi_bson::doc;
use nagi_proc::Process;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

const START_MAX: Duration = Duration::from_secs(60);

/// Time a server may take to exit before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server process, which is terminated when it goes out of scope.
pub(crate) struct Server {
    child: Child,
    /// `127.0.0.1:PORT`
    pub(crate) address: String,
}

/// A port that was free at the time of the call.
pub(crate) fn free_port() -> Outcome<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed("finding a free port"))?;
    Ok(listener.local_addr().map_err(failed("finding a free port"))?.port())
}

impl Server {
    /// Starts `program` and waits until its port accepts connections.
    pub(crate) fn start(program: &Path, args: &[&str], port: u16) -> Outcome<Server> {
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|e| Problem::Failed(format!("starting {}: {e}", program.display())))?;
        let mut server = Server { child, address: format!("127.0.0.1:{port}") };
        let begin = Instant::now();
        loop {
            if TcpStream::connect(&server.address).is_ok() {
                return Ok(server);
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(Problem::Failed(format!("{} ended: {status}", program.display())));
            }
            if begin.elapsed() > START_MAX {
                return Err(Problem::Failed(format!("{} does not listen", program.display())));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts `nagi serve` on a free port, with its log next to its data.
    pub(crate) fn nagi(program: &Path, dbpath: &Path) -> Outcome<Server> {
        Server::nagi_with(program, dbpath, &[])
    }

    /// Like [`Server::nagi`], with further options.
    pub(crate) fn nagi_with(program: &Path, dbpath: &Path, more: &[&str]) -> Outcome<Server> {
        Server::nagi_under(&[], program, dbpath, more)
    }

    /// Like [`Server::nagi_with`], started by the program and the arguments `before`, such as those of valgrind.
    pub(crate) fn nagi_under(
        before: &[&str],
        program: &Path,
        dbpath: &Path,
        more: &[&str],
    ) -> Outcome<Server> {
        fs::create_dir_all(dbpath).map_err(failed("creating the data directory"))?;
        let port = free_port()?;
        let log = dbpath.with_extension("log");
        let (path, log) = (dbpath.to_string_lossy(), log.to_string_lossy());
        let port_text = port.to_string();
        let program_text = program.to_string_lossy();
        let mut args: Vec<&str> = before.to_vec();
        args.extend([&*program_text, "serve", "--dbpath", &path, "--port", &port_text]);
        args.extend(["--bind_ip", "127.0.0.1", "--logpath", &log, "--logappend"]);
        args.extend(more);
        Server::start(Path::new(args[0]), &args[1..], port)
    }

    /// Starts a bare echo of `mode` that replies to every frame with `reply_bytes`. `program` is this program.
    pub(crate) fn echo(program: &Path, mode: &str, reply_bytes: usize) -> Outcome<Server> {
        let port = free_port()?;
        let (port_text, reply_text) = (port.to_string(), reply_bytes.to_string());
        let args = ["echo", "--port", &port_text, "--reply", &reply_text, "--mode", mode];
        Server::start(program, &args, port)
    }

    /// Starts a bare echo behind rustls, with the certificate and key of a file.
    pub(crate) fn echo_tls(
        program: &Path,
        certificate: &Path,
        reply_bytes: usize,
    ) -> Outcome<Server> {
        let port = free_port()?;
        let (port_text, reply_text) = (port.to_string(), reply_bytes.to_string());
        let file = certificate.to_string_lossy();
        let args = ["echo", "--port", &port_text, "--reply", &reply_text, "--mode", "tls"];
        Server::start(program, &[&args[..], &["--certificate", &file]].concat(), port)
    }

    /// Starts Nagi's storage engine behind a bare socket: it stores each frame and replies `ok`.
    pub(crate) fn raw_engine(dbpath: &Path) -> Outcome<Server> {
        fs::create_dir_all(dbpath).map_err(failed("creating the data directory"))?;
        let (port, path) = (free_port()?, dbpath.to_string_lossy());
        let port_text = port.to_string();
        let args = ["raw-engine", "--port", &port_text, "--dbpath", &path];
        Server::start(&self_program()?, &args, port)
    }

    /// Like [`Server::raw_engine`], with a cache of this many megabytes, for the minimal work of queries.
    pub(crate) fn raw_queries(dbpath: &Path, megabytes: u64) -> Outcome<Server> {
        fs::create_dir_all(dbpath).map_err(failed("creating the data directory"))?;
        let (port, path, cache) = (free_port()?, dbpath.to_string_lossy(), megabytes.to_string());
        let port_text = port.to_string();
        let args = [
            "raw-engine",
            "--mode",
            "queries",
            "--port",
            &port_text,
            "--dbpath",
            &path,
            "--cache-megabytes",
            &cache,
        ];
        Server::start(&self_program()?, &args, port)
    }

    /// Starts FerretDB 1 over SQLite, with its data below `scratch`.
    pub(crate) fn ferretdb(program: &Path, scratch: &Path) -> Outcome<Server> {
        let port = free_port()?;
        let (data, state) = (scratch.join("ferretdb"), scratch.join("ferretdb-state"));
        for dir in [&data, &state] {
            fs::create_dir_all(dir).map_err(failed("creating the peer's directory"))?;
        }
        let args = [
            "--handler=sqlite".to_owned(),
            format!("--sqlite-url=file:{}/", data.display()),
            "--telemetry=disable".to_owned(),
            format!("--listen-addr=127.0.0.1:{port}"),
            "--debug-addr=-".to_owned(),
            format!("--state-dir={}", state.display()),
            "--log-level=error".to_owned(),
        ];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Server::start(program, &args, port)
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the process until [`Server::resume`]: it uses no processor while others are measured.
    pub(crate) fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    /// False if the process is gone.
    fn signal(&self, signal: rustix::process::Signal) -> bool {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        id.is_some_and(|id| rustix::process::kill_process(id, signal).is_ok())
    }

    /// Sends `shutdown` over the connection and waits until the process has exited.
    pub(crate) fn stop(mut self, mut connection: Connection) -> Outcome {
        // The reply may be lost with the connection.
        let _ = connection.command(doc! { "shutdown": 1, "force": true, "$db": "admin" }.as_doc());
        self.child.wait().map(drop).map_err(failed("waiting for the server's end"))
    }

    /// User and system time of all its threads, including those that have exited.
    pub(crate) fn cpu_us(&self) -> u64 {
        cpu_us(self.child.id()).unwrap_or(0)
    }

    /// Waits until the process exits by itself.
    pub(crate) fn wait(mut self) -> Outcome {
        let status = self.child.wait().map_err(failed("waiting for a process"))?;
        match status.success() {
            true => Ok(()),
            false => Err(Problem::Failed(format!("a server ended: {status}"))),
        }
    }

    /// The exit code, if the process exits by itself within this time.
    pub(crate) fn ended_within(mut self, time: Duration) -> Option<i32> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Sends `kill -9` and waits until the process is gone.
    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM is sent first, so that the process can clean up. All calls fail only if the process is gone
        // already.
        let asked = self.signal(rustix::process::Signal::TERM);
        self.resume();
        let until = Instant::now() + PATIENCE;
        while asked && Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for data, which is removed on drop unless the caller named it.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
    own: bool,
}

impl Scratch {
    pub(crate) fn new(args: &Args) -> Outcome<Scratch> {
        let (path, own) = match args.text("dbpath") {
            Some(path) => (PathBuf::from(path), false),
            None => {
                let name = format!("nagi-bench-{}", std::process::id());
                (std::env::temp_dir().join(name), true)
            }
        };
        fs::create_dir_all(&path).map_err(failed("creating the data directory"))?;
        Ok(Scratch { path, own })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.own {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns `disk_bytes` once it no longer changes: after a load the server still merges files and removes the
/// merged ones. Waits at most ten seconds.
pub(crate) fn settled_disk_bytes(dir: &Path) -> u64 {
    const LOOK: Duration = Duration::from_millis(250);
    const SAME_LOOKS: u32 = 6;
    const LOOKS_MAX: u32 = 40;
    let (mut last, mut same) = (disk_bytes(dir), 0);
    for _ in 0..LOOKS_MAX {
        thread::sleep(LOOK);
        let now = disk_bytes(dir);
        same = if now == last { same + 1 } else { 0 };
        last = now;
        if same >= SAME_LOOKS {
            break;
        }
    }
    last
}

/// Disk blocks of all files below the folder, in bytes.
pub(crate) fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => disk_bytes(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

/// User and system time of this process so far.
pub(crate) fn own_cpu_us() -> u64 {
    cpu_us(std::process::id()).unwrap_or(0)
}

fn cpu_us(pid: u32) -> Option<u64> {
    Process::Id(pid).stat().map(nagi_proc::Stat::cpu_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_time_is_readable() {
        assert!(cpu_us(std::process::id()).is_some());
    }
}
