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
use std::io::Read;
use std::process::Child;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// The variable with the mark.
pub(super) const VARIABLE: &str = "NAGI_ALERT_RUN";
/// What is read of an environment: the variable is among the first ones.
const ENVIRONMENT_BYTES_MAX: u64 = 256 << 10;
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
    // Also empty for processes of other users, and for one that was killed before.
    let environment = environment(pid).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
        && pidfd_send_signal(&held, Signal::KILL).is_ok()
}

fn environment(pid: Pid) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{}/environ", pid.as_raw_nonzero()))?;
    file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_processes_are_killed() {
        let sleep = |mark: &str| {
            let mut command = std::process::Command::new("/bin/sleep");
            command.arg("300").env_clear().env(VARIABLE, mark).spawn().unwrap()
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
