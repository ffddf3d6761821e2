//! Serves a file system that contains one file, the disk, over the kernel's FUSE protocol, without a library
//! and without `unsafe`.
//!
//!   /dev/fuse   request: length, opcode, unique, node, ... (40 bytes) | arguments
//!               reply:   length, error, unique (16 bytes) | result
//!
//! It implements only the requests of a loop device: lookup, attributes, open, read, write, fsync. Any other
//! request is answered with "not implemented", which the kernel remembers. Node 1 is the folder, node 2 the
//! file `disk`.
use super::disk::Disk;
use crate::args::{Outcome, Problem, failed};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

pub(super) const NAME: &str = "disk";
const WRITE_BYTES_MAX: u32 = 128 << 10;
const HEADER: usize = 40;
const FOLDER: u64 = 1;
const FILE: u64 = 2;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENOSYS: i32 = 38;
/// Flag of the protocol: requests may be larger than a page.
const BIG_WRITES: u32 = 1 << 5;

mod op {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const OPENDIR: u32 = 27;
    pub(super) const RELEASEDIR: u32 = 29;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const DESTROY: u32 = 38;
    pub(super) const BATCH_FORGET: u32 = 42;
}

/// A mounted disk; it is unmounted when dropped.
pub(super) struct Mounted {
    folder: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Mounted {
    /// Mounts the disk as `folder/disk`. Requires root.
    pub(super) fn new(disk: &Arc<Disk>, folder: &Path) -> Outcome<Mounted> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(failed("opening /dev/fuse"))?;
        let theirs = device.try_clone().map_err(failed("opening /dev/fuse"))?;
        // The mount program receives the FUSE connection as its standard input.
        let mount = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0"])
            .arg("nagi-powercut")
            .arg(folder)
            .stdin(Stdio::from(theirs))
            .output()
            .map_err(failed("mount"))?;
        if !mount.status.success() {
            let text = String::from_utf8_lossy(&mount.stderr).into_owned();
            return Err(Problem::Failed(format!("mounting through FUSE (root is needed): {text}")));
        }
        let disk = Arc::clone(disk);
        let thread = std::thread::spawn(move || serve(device, &disk));
        Ok(Mounted { folder: folder.to_owned(), thread: Some(thread) })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).output();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers requests until the file system is unmounted.
fn serve(mut device: File, disk: &Disk) {
    let mut request = vec![0; WRITE_BYTES_MAX as usize + 8192];
    loop {
        let length = match device.read(&mut request) {
            Ok(length) if length >= HEADER => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The file system was unmounted.
            _ => return,
        };
        let request = &request[..length];
        let opcode = u32_at(request, 4);
        if matches!(opcode, op::FORGET | op::BATCH_FORGET | op::INTERRUPT) {
            continue;
        }
        let (error, body) = match answer(opcode, request, disk) {
            Ok(body) => (0, body),
            Err(number) => (-number, Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend_from_slice(&(16 + body.len() as u32).to_ne_bytes());
        reply.extend_from_slice(&error.to_ne_bytes());
        reply.extend_from_slice(&request[8..16]);
        reply.extend_from_slice(&body);
        // The process that sent the request may have exited.
        let _ = device.write(&reply);
        if opcode == op::DESTROY {
            return;
        }
    }
}

fn answer(opcode: u32, request: &[u8], disk: &Disk) -> Result<Vec<u8>, i32> {
    let node = u64_at(request, 16);
    let arguments = &request[HEADER..];
    let io = |error: io::Error| error.raw_os_error().unwrap_or(EIO);
    match opcode {
        op::INIT => Ok(init(arguments)),
        op::LOOKUP if node == FOLDER && arguments == b"disk\0" => {
            let mut out = Vec::new();
            [FILE, 0, 0, 0].iter().for_each(|n| out.extend_from_slice(&n.to_ne_bytes()));
            out.extend_from_slice(&[0; 8]);
            attributes(FILE, disk, &mut out);
            Ok(out)
        }
        op::LOOKUP => Err(ENOENT),
        op::GETATTR | op::SETATTR => {
            let mut out = vec![0; 16];
            attributes(node, disk, &mut out);
            Ok(out)
        }
        op::OPEN | op::OPENDIR => Ok(vec![0; 16]),
        op::READ => {
            let at = u64_at(arguments, 8);
            let size = u64::from(u32_at(arguments, 16)).min(disk.bytes.saturating_sub(at));
            let mut out = vec![0; size as usize];
            disk.read(at, &mut out).map_err(io)?;
            Ok(out)
        }
        op::WRITE => {
            let (at, size) = (u64_at(arguments, 8), u32_at(arguments, 16));
            let data = arguments.get(40..40 + size as usize).ok_or(EIO)?;
            disk.write(at, data).map_err(io)?;
            Ok([size.to_ne_bytes(), [0; 4]].concat())
        }
        op::FSYNC => disk.flush().map(|()| Vec::new()).map_err(io),
        op::STATFS => Ok(vec![0; 80]),
        op::FLUSH | op::RELEASE | op::RELEASEDIR | op::DESTROY => Ok(Vec::new()),
        _ => Err(ENOSYS),
    }
}

fn init(arguments: &[u8]) -> Vec<u8> {
    let read_ahead = u32_at(arguments, 8);
    let mut out = Vec::with_capacity(64);
    for n in [7, 31, read_ahead, BIG_WRITES] {
        out.extend_from_slice(&u32::to_ne_bytes(n));
    }
    // The maximum number of background requests, and the number from which the kernel slows down.
    for n in [64, 48] {
        out.extend_from_slice(&u16::to_ne_bytes(n));
    }
    for n in [WRITE_BYTES_MAX, 1] {
        out.extend_from_slice(&u32::to_ne_bytes(n));
    }
    out.resize(64, 0);
    out
}

fn attributes(node: u64, disk: &Disk, out: &mut Vec<u8>) {
    let (mode, size, links) = match node {
        FILE => (0o100_600_u32, disk.bytes, 1_u32),
        _ => (0o040_700, 0, 2),
    };
    // Node number, size and blocks, then three times, then their nanoseconds.
    for n in [node, size, size / 512, 0, 0, 0] {
        out.extend_from_slice(&n.to_ne_bytes());
    }
    for n in [0, 0, 0, mode, links, 0, 0, 0, 4096, 0] {
        out.extend_from_slice(&n.to_ne_bytes());
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}
