//! Where the processor's time of an operation goes: instructions counted by callgrind, or samples of perf.
//!
//! - `--count true` runs the server in valgrind and counts its instructions in user space. The count is the same in
//!   every run, whatever else the machine does.
//! - `--perf DIR` records the server's threads; `bench/flames.sh DIR` draws a flame graph of each recording.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::args::{Args, Outcome, Problem, failed};
use crate::process::Server;

/// Samples of a second; a prime number, so that they do not meet the same moment of a timer each time.
const SAMPLES_S: &str = "997";
/// Until perf has opened its counters of a process.
const PERF_START: Duration = Duration::from_millis(500);
/// What perf copies of a stack, to find the calling functions.
const STACKS: &str = "dwarf,16384";

/// What is recorded beside time and CPU.
#[derive(Clone)]
pub(super) enum Profile {
    Nothing,
    /// Instructions, by callgrind, whose files are in this folder.
    Instructions(PathBuf),
    /// Samples, by perf, one file a row in this folder.
    Samples(PathBuf),
}

/// A recording in progress.
pub(super) enum Recording {
    Nothing,
    Instructions,
    Samples(Child),
}

impl Profile {
    pub(super) fn of(args: &Args, scratch: &Path) -> Outcome<Profile> {
        let count = args.flag("count")?;
        match (count, args.text("perf")) {
            (true, Some(_)) => Err(Problem::Usage("--count or --perf, not both\n".to_owned())),
            (true, None) => Ok(Profile::Instructions(scratch.to_owned())),
            (false, Some(folder)) => {
                fs::create_dir_all(folder).map_err(failed("creating the folder of recordings"))?;
                Ok(Profile::Samples(PathBuf::from(folder)))
            }
            (false, None) => Ok(Profile::Nothing),
        }
    }

    /// Starts the server, in valgrind if instructions are counted.
    pub(super) fn start(&self, program: &Path, dbpath: &Path, more: &[&str]) -> Outcome<Server> {
        let Profile::Instructions(folder) = self else {
            return Server::nagi_with(program, dbpath, more);
        };
        let file = format!("--callgrind-out-file={}/callgrind", folder.display());
        let before = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", &file];
        Server::nagi_under(&before, program, dbpath, more)
    }

    pub(super) fn begin(&self, server: &Server, row: &str) -> Outcome<Recording> {
        match self {
            Profile::Nothing => Ok(Recording::Nothing),
            Profile::Instructions(_) => {
                control(server, &["-i", "on"])?;
                Ok(Recording::Instructions)
            }
            Profile::Samples(folder) => {
                let process = server.id().to_string();
                let file = folder.join(format!("{}.perf", file_name(row)));
                let child = Command::new("perf")
                    .args(["record", "-q", "-e", "cpu-clock", "-F", SAMPLES_S, "-p", &process])
                    .args(["--call-graph", STACKS, "-o"])
                    .arg(file)
                    .stdin(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .map_err(failed("starting perf"))?;
                thread::sleep(PERF_START);
                Ok(Recording::Samples(child))
            }
        }
    }

    /// Ends the recording. Returns the number of instructions, if they are counted.
    pub(super) fn end(&self, recording: Recording, server: &Server) -> Outcome<Option<u64>> {
        match (recording, self) {
            (Recording::Samples(mut child), _) => {
                let id = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
                if let Some(id) = id {
                    let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
                }
                child.wait().map_err(failed("waiting for perf"))?;
                Ok(None)
            }
            (Recording::Instructions, Profile::Instructions(folder)) => {
                control(server, &["-d", "row"])?;
                control(server, &["-i", "off"])?;
                dumped(folder).map(Some)
            }
            _ => Ok(None),
        }
    }
}

fn control(server: &Server, args: &[&str]) -> Outcome {
    let id = server.id().to_string();
    let status = Command::new("callgrind_control")
        .args(args)
        .arg(id)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(failed("starting callgrind_control"))?;
    match status.success() {
        true => Ok(()),
        false => Err(Problem::Failed(format!("callgrind_control: {status}"))),
    }
}

/// The total of the dumps in a folder, which are removed.
fn dumped(folder: &Path) -> Outcome<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(failed("reading the folder of dumps"))? {
        let path = entry.map_err(failed("reading the folder of dumps"))?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("callgrind.")) {
            continue;
        }
        let mut text = String::new();
        let mut file = fs::File::open(&path).map_err(failed("opening a dump"))?;
        file.read_to_string(&mut text).map_err(failed("reading a dump"))?;
        let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
        sum += total.and_then(|total| total.trim().parse::<u64>().ok()).unwrap_or(0);
        fs::remove_file(&path).map_err(failed("removing a dump"))?;
    }
    Ok(sum)
}

/// A row's name as the name of a file.
fn file_name(row: &str) -> String {
    let plain = row.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let name: String = plain
        .collect::<String>()
        .split('-')
        .filter(|s| !s.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    name.to_lowercase()
}
