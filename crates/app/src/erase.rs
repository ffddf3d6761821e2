//! Passwords in the command line are overwritten when the program starts, as mongod does, so that the list of processes
//! does not show them any longer. Until then, and in the history of shells, they can be seen.
//!
//! The kernel shows the arguments from the memory of the process, which it can write by `/proc/self/mem`. The values
//! have been copied before.

use std::fs::{self, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::options::PASSWORD_FLAGS;

/// The field of `/proc/self/stat` with the address of the arguments (`arg_start`), counted from the one after the name.
const ARGUMENTS_FIELD: usize = 45;

/// The flag of `nagi ldap-check`.
const PASSWORD: &str = "--password";

/// Overwrites the passwords in the arguments of this process. Where the system does not allow it they stay; a server
/// warns of them in either case.
pub(crate) fn passwords() {
    // A system without /proc shows no arguments either.
    let _ = overwrite();
}

fn overwrite() -> Result<()> {
    let line = fs::read("/proc/self/cmdline")?;
    let places = places(&line);
    if places.is_empty() {
        return Ok(());
    }
    let unexpected = || Error::from(ErrorKind::InvalidData);
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the process, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(") ").ok_or_else(unexpected)?;
    let start = fields.split(' ').nth(ARGUMENTS_FIELD).and_then(|field| field.parse::<u64>().ok());
    let start = start.ok_or_else(unexpected)?;
    let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
    for place in places {
        let at = start + place.start as u64;
        let mut found = vec![0; place.len()];
        memory.read_exact_at(&mut found, at)?;
        if found != line[place.clone()] {
            return Err(unexpected());
        }
        memory.write_all_at(&vec![b'x'; place.len()], at)?;
    }
    Ok(())
}

/// Where the passwords are among arguments that end with zeros.
fn places(line: &[u8]) -> Vec<Range<usize>> {
    let (mut places, mut at, mut is_value) = (Vec::new(), 0, false);
    for arg in line.split(|byte| *byte == 0) {
        let text = std::str::from_utf8(arg).unwrap_or("");
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let is_flag = name == PASSWORD
            || name.starts_with('-') && PASSWORD_FLAGS.contains(&name.trim_start_matches('-'));
        let within = match is_value {
            true => Some(0..arg.len()),
            false if is_flag => Some(text.len() - value.len()..text.len()),
            false => of_address(text),
        };
        places.extend(within.map(|part| at + part.start..at + part.end).filter(|p| !p.is_empty()));
        is_value = !is_value && is_flag && !text.contains('=');
        at += arg.len() + 1;
    }
    places
}

/// The password within `--uri=mongodb://user:password@host` or its value.
fn of_address(text: &str) -> Option<Range<usize>> {
    let start = text.find("mongodb://")? + "mongodb://".len();
    let rest = text.get(start..)?;
    // As the address is read: the last @ before the options ends the login.
    let end = rest.split('?').next()?.rfind('@')?;
    let colon = rest.get(..end)?.find(':')?;
    Some(start + colon + 1..start + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_among_arguments() {
        for (args, expected) in [
            (&["nagi", "serve", "--tlsMode", "requireTLS"][..], &[][..]),
            (&["nagi", "--tlsCertificateKeyFilePassword", "s3cret", "-v"], &["s3cret"]),
            (&["nagi", "--sslPEMKeyPassword=s3=cret", "-v"], &["s3=cret"]),
            (&["nagi", "--tlsClusterPassword=", "x"], &[]),
            (
                &["nagi", "--tlsClusterPassword", "--sslPEMKeyPassword", "x"],
                &["--sslPEMKeyPassword"],
            ),
            (&["nagi", "ldap-check", "--password", "pw", "--user", "u"], &["pw"]),
            (&["nagi", "ldap-check", "--passwordFile", "pw"], &[]),
            (&["nagi", "ping", "--uri=mongodb://u:p@w@h:1/db?a=b@c"], &["p@w"]),
            (&["nagi", "ping", "--uri", "mongodb://u:pw@h"], &["pw"]),
            (&["nagi", "ping", "--uri", "mongodb://u@h:1/"], &[]),
            (&["nagi", "ping", "--uri", "mongodb://h:27017/?appName=a@b"], &[]),
        ] {
            let line = args.join("\0") + "\0";
            let found: Vec<&str> = places(line.as_bytes()).into_iter().map(|p| &line[p]).collect();
            assert_eq!(found, expected, "{args:?}");
        }
    }
}
