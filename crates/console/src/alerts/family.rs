//! Ends a program with everything that it started.
//!
//! A process group is not enough: what calls `setsid` leaves it, and what forks twice has no parent that leads back to
//! the program. So each run of a program has a mark in its environment, which its descendants inherit, and all
//! processes that have the mark are killed. A descendant that clears its environment as well as its group is not found;
//! only a control group or a namespace would find it, and a server has no right to make one on most machines.
//!
//! A process is held by a descriptor while its environment is read, so that no other process that has got its number is
//! killed.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::process::Child;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// The variable with the mark.
pub(super) const VARIABLE: &str = "NAGI_ALERT_RUN";
/// What is read of an environment: more than the system lets a program begin with, as the variable may be the last one.
const ENVIRONMENT_BYTES_MAX: u64 = 8 << 20;
/// What is read of it at once.
const PIECE_BYTES: usize = 64 << 10;
/// Processes that are born while the list is read are found in the next round.
const ROUNDS_MAX: usize = 10;

/// A mark that no other run has.
///
/// # Errors
/// If the system has no random numbers.
pub(super) fn mark() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    Ok(format!("{:032x}", u128::from_le_bytes(random)))
}

/// Kills the program and what it started. Costs some reads for each process of the machine. The caller waits for the
/// program itself.
pub(super) fn kill(child: &Child, mark: &str) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    let wanted = format!("{VARIABLE}={mark}");
    for _ in 0..ROUNDS_MAX {
        if processes().filter(|pid| kill_marked(*pid, wanted.as_bytes())).count() == 0 {
            return;
        }
    }
}

/// All processes of the machine.
fn processes() -> impl Iterator<Item = Pid> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    folders.filter_map(|folder| Pid::from_raw(folder.file_name().to_str()?.parse().ok()?))
}

/// Kills a process if it has the mark. True if it had.
fn kill_marked(pid: Pid, wanted: &[u8]) -> bool {
    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // Also unreadable for processes of other users, and empty for one that was killed before.
    let environment = File::open(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    environment.is_ok_and(|environment| has_variable(environment, wanted))
        && pidfd_send_signal(&held, Signal::KILL).is_ok()
}

/// Whether an environment has a variable that begins so. It is read in pieces: many processes may have much of it.
fn has_variable(environment: impl Read, wanted: &[u8]) -> bool {
    let wanted = [b"\0", wanted].concat();
    let mut environment = environment.take(ENVIRONMENT_BYTES_MAX);
    // Every variable follows the end of another one, the first one too.
    let mut bytes = vec![0];
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match environment.read(&mut piece) {
            Ok(0) => return false,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return false,
        }
        if bytes.windows(wanted.len()).any(|part| part == wanted) {
            return true;
        }
        // What may begin in this piece and end in the next one.
        let kept = bytes.len().min(wanted.len() - 1);
        bytes.drain(..bytes.len() - kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mark is wherever a piece ends, and is not a part of another variable.
    #[test]
    fn variables_are_found_wherever_they_are() {
        let wanted = format!("{VARIABLE}={}", mark().unwrap());
        for before in (PIECE_BYTES - 60..PIECE_BYTES + 2).chain([0, 1, 3 * PIECE_BYTES, 5 << 20]) {
            for (ends, found) in [(0, true), (b'x', before == 0)] {
                let mut environment = vec![b'x'; before.saturating_sub(1)];
                environment.extend((before > 0).then_some(ends));
                environment.extend_from_slice(wanted.as_bytes());
                environment.extend_from_slice(b"\0Z=1\0");
                let is_found = has_variable(environment.as_slice(), wanted.as_bytes());
                assert_eq!(is_found, found, "{before} {ends}");
            }
        }
        assert!(!has_variable([].as_slice(), wanted.as_bytes()));
    }

    #[test]
    fn only_marked_processes_are_killed() {
        only_marked_are_killed(0);
    }

    #[test]
    fn a_large_environment_hides_no_mark() {
        only_marked_are_killed(8);
    }

    /// With so many variables of 100 KB before the mark.
    fn only_marked_are_killed(large: usize) {
        let sleep = |mark: &str| {
            let mut command = std::process::Command::new("/bin/sleep");
            // They are passed in the order of their names.
            let large = (0..large).map(|n| (format!("A{n}"), "x".repeat(100_000)));
            command.arg("300").env_clear().envs(large).env(VARIABLE, mark).spawn().unwrap()
        };
        let (own, other) = (mark().unwrap(), mark().unwrap());
        assert_ne!(own, other);
        let (mut killed, mut spared) = (sleep(&own), sleep(&other));
        let pid = |child: &Child| Pid::from_child(child);
        let wanted = format!("{VARIABLE}={own}");
        // It has its environment once it has become the program.
        while !kill_marked(pid(&killed), wanted.as_bytes()) {
            assert!(killed.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        assert!(!killed.wait().unwrap().success());
        assert!(!kill_marked(pid(&spared), wanted.as_bytes()));
        assert!(spared.try_wait().unwrap().is_none());
        spared.kill().unwrap();
        spared.wait().unwrap();
    }
}
