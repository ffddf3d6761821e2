//! The password of a login that the address does not contain. It is not a command-line argument, because those are
//! visible to every user of the machine and are stored in the history of shells.
//!
//! The sources are, in this order: `--passwordFile FILE`, `NAGI_PASSWORD` in the environment, a prompt on the terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::encryption;

/// The environment variable.
const VARIABLE: &str = "NAGI_PASSWORD";
const TERMINAL: &str = "/dev/tty";
const FILE_BYTES_MAX: u64 = 4096;

/// Returns the password of `user`.
pub(crate) fn find(user: &str, file: Option<&Path>) -> Result<String, String> {
    if let Some(file) = file {
        return from_file(file);
    }
    match TAKEN.get().map(|bytes| str::from_utf8(bytes)) {
        Some(Ok(password)) => Ok(password.to_owned()),
        Some(Err(_)) => Err(format!("{VARIABLE} is not UTF-8")),
        None => prompt(user),
    }
}

/// The value of [`VARIABLE`].
static TAKEN: OnceLock<Zeroizing<Vec<u8>>> = OnceLock::new();

/// Takes the secrets out of the environment, which other processes can read. Called while the process has one thread.
pub(crate) fn take_variables() {
    if let Some(password) = encryption::take_for_command(VARIABLE) {
        // Set once: there is one command.
        let _ = TAKEN.set(password);
    }
}

/// Whether the environment had a password.
pub(crate) fn is_taken() -> bool {
    TAKEN.get().is_some()
}

/// Reads the first line of a file that only its owner may access. A shell's pipe (`<(...)`) is accepted too.
fn from_file(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("--passwordFile {shown}: {error}");
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(format!("--passwordFile {shown}: it is a directory"));
    }
    if about.is_file() && about.mode() & 0o077 != 0 {
        return Err(format!("--passwordFile: {}", crate::paths::too_open(path, about.mode())));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(format!("--passwordFile {shown}: its first line is empty")),
    }
}

/// Prompts on the terminal, without echo.
fn prompt(user: &str) -> Result<String, String> {
    let missing = |_| {
        format!(
            "a password for {user} is needed, and there is no terminal to prompt for it: use \
             --passwordFile FILE or the environment's {VARIABLE}"
        )
    };
    let terminal = OpenOptions::new().read(true).write(true).open(TERMINAL).map_err(missing)?;
    let failed = |error: std::io::Error| format!("{TERMINAL}: {error}");
    let quiet = Quiet::new(&terminal).map_err(failed)?;
    write!(&terminal, "Password for {user}: ").map_err(failed)?;
    let mut line = String::new();
    BufReader::new((&terminal).take(FILE_BYTES_MAX)).read_line(&mut line).map_err(failed)?;
    drop(quiet);
    writeln!(&terminal).map_err(failed)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// Disables the terminal's echo until it is dropped.
struct Quiet<'t> {
    terminal: &'t fs::File,
    before: Termios,
}

impl Quiet<'_> {
    fn new(terminal: &fs::File) -> std::io::Result<Quiet<'_>> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Quiet { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // This fails only if the terminal is closed.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_the_owners_alone() {
        let path = std::env::temp_dir().join(format!("nagi-password-{}", std::process::id()));
        fs::write(&path, "s3cret\nmore\n").unwrap();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o640);
        assert!(from_file(&path).unwrap_err().contains("too open"));
        mode(0o600);
        assert_eq!(find("u", Some(&path)), Ok("s3cret".to_owned()));
        fs::write(&path, "\n").unwrap();
        assert!(from_file(&path).unwrap_err().contains("empty"));
        fs::remove_file(&path).unwrap();
        assert!(from_file(&path).is_err());
        assert!(from_file(&std::env::temp_dir()).unwrap_err().contains("directory"));
    }
}
