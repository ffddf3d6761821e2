//! The flags of `nagi copy`.

use std::path::PathBuf;
use std::time::Duration;

use super::filter::Filter;
use crate::flag::{self, Flag, switch, takes};
use crate::remote::address::{self, Address, BY_CERTIFICATE};
use crate::remote::password;

#[rustfmt::skip]
pub(crate) static FLAGS: &[Flag] = &[
    takes("--from", "uri", "none",
        "source: mongodb://[user[:password]@]host[:port][,host...][/?options]; a replica set or a router"),
    takes("--to", "uri", "none", "target, with the same syntax"),
    takes("--fromPasswordFile", "file", "NAGI_PASSWORD, or a prompt",
        "file whose first line is the password of the user of --from; only its owner may read it"),
    takes("--toPasswordFile", "file", "NAGI_PASSWORD, or a prompt", "the same for the user of --to"),
    takes("--include", "name", "all", "copy only this database, or this database.collection; may occur again"),
    takes("--exclude", "name", "none", "leave out this database, or this database.collection; may occur again"),
    switch("--cutOver", "when the target is near the source, block the source's writes, finish, and exit"),
    switch("--finish", "apply the changes until now, finish, and exit; nothing must write to the source any more"),
    switch("--verify", "with --cutOver or --finish: compare all documents, and not only their counts"),
    switch("--users", "with --cutOver or --finish: copy the users and roles that the target does not have"),
    takes("--workers", "threads", "4", "collections and parts of collections that are copied at once"),
    takes("--retrySeconds", "seconds", "300", "how long the source or the target may be away"),
];

const WORKERS: usize = 4;
/// Each worker has a connection to both sides, and up to some 50 MB of memory.
const WORKERS_MAX: usize = 64;
const RETRY_SECONDS: u64 = 300;
const RETRY_SECONDS_MAX: u64 = 7 * 24 * 3600;
/// The most hosts of an address.
const HOSTS_MAX: usize = 50;

/// When the command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    BySignal,
    Finish,
    CutOver,
}

/// What the end of a copy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Last {
    /// All documents are compared, and not only their counts.
    pub(super) verify: bool,
    /// Users and roles are copied.
    pub(super) users: bool,
}

/// The parsed flags.
#[derive(Debug)]
pub(super) struct Flags {
    pub(super) from: Vec<Address>,
    pub(super) to: Vec<Address>,
    from_password: Option<PathBuf>,
    to_password: Option<PathBuf>,
    pub(super) filter: Filter,
    pub(super) end: End,
    pub(super) last: Last,
    pub(super) workers: usize,
    pub(super) patience: Duration,
}

impl Flags {
    pub(super) fn parse(args: &[String]) -> Result<Flags, String> {
        let mut filter = Filter::default();
        let (mut from, mut to) = (None, None);
        let (mut from_password, mut to_password) = (None, None);
        let (mut cut_over, mut finish) = (false, false);
        let mut last = Last { verify: false, users: false };
        let (mut workers, mut seconds) = (WORKERS as u64, RETRY_SECONDS);
        flag::parse(args, FLAGS, |name, value| {
            let value = value.unwrap_or_default();
            match name {
                "--from" => from = Some(value),
                "--to" => to = Some(value),
                "--fromPasswordFile" => from_password = Some(PathBuf::from(value)),
                "--toPasswordFile" => to_password = Some(PathBuf::from(value)),
                "--include" => filter.include.push(value),
                "--exclude" => filter.exclude.push(value),
                "--cutOver" => cut_over = true,
                "--finish" => finish = true,
                "--verify" => last.verify = true,
                "--users" => last.users = true,
                "--workers" => workers = number(name, &value, WORKERS_MAX as u64)?,
                _ => seconds = number(name, &value, RETRY_SECONDS_MAX)?,
            }
            Ok(())
        })?;
        let (Some(from), Some(to)) = (from, to) else {
            return Err("--from and --to are needed".to_owned());
        };
        filter.check()?;
        let end = match (cut_over, finish) {
            (true, true) => return Err("--cutOver and --finish exclude each other".to_owned()),
            (true, false) => End::CutOver,
            (false, true) => End::Finish,
            (false, false) if last.verify || last.users => {
                return Err("--verify and --users need --cutOver or --finish".to_owned());
            }
            (false, false) => End::BySignal,
        };
        Ok(Flags {
            from: addresses("--from", &from)?,
            to: addresses("--to", &to)?,
            from_password,
            to_password,
            filter,
            end,
            last,
            workers: workers as usize,
            patience: Duration::from_secs(seconds),
        })
    }

    /// Reads the passwords that the addresses do not have: once, because a person may have to type them.
    pub(super) fn read_passwords(&mut self) -> Result<(), String> {
        let sides = [
            ("--fromPasswordFile", &mut self.from, &self.from_password),
            ("--toPasswordFile", &mut self.to, &self.to_password),
        ];
        for (flag, addresses, file) in sides {
            let Some(first) = addresses.first() else { continue };
            let user = match &first.login {
                Some((user, None)) if first.mechanism != Some(BY_CERTIFICATE) => user,
                _ if file.is_some() => {
                    return Err(format!("{flag} needs a user without a password in the address"));
                }
                _ => continue,
            };
            let found = password::find(user, file.as_deref())?;
            for address in addresses.iter_mut() {
                if let Some((_, password)) = &mut address.login {
                    *password = Some(found.clone());
                }
            }
        }
        Ok(())
    }
}

fn number(name: &str, text: &str, most: u64) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        format!("{name} has the bad value '{text}': expected an integer from 1 to {most}")
    })
}

/// The servers of an address, which are alike but for the host.
fn addresses(flag: &str, uri: &str) -> Result<Vec<Address>, String> {
    let refused = |why: &str| why.replacen("--uri", flag, 1);
    let after_scheme = uri.find("://").map_or(0, |at| at + 3);
    let place = uri[after_scheme..].find(['/', '?']).map_or(uri.len(), |at| after_scheme + at);
    let begin = uri[..place].rfind('@').map_or(after_scheme, |at| at + 1);
    let hosts: Vec<&str> = uri[begin..place].split(',').collect();
    if hosts.len() > HOSTS_MAX {
        return Err(format!("{flag}: more than {HOSTS_MAX} hosts"));
    }
    let one = |host: &str| {
        address::parse(&format!("{}{host}{}", &uri[..begin], &uri[place..]), &[])
            .map_err(|why| refused(&why))
    };
    hosts.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Flags, String> {
        Flags::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_read() {
        let flags = parse(&[
            "--from",
            "mongodb://u:p@a,b:5/db?replicaSet=rs",
            "--to=mongodb://t",
            "--include",
            "x",
            "--include=y.z",
            "--exclude",
            "x.tmp",
            "--cutOver",
            "--verify",
            "--workers",
            "8",
            "--retrySeconds",
            "5",
        ])
        .unwrap();
        let hosts: Vec<&str> = flags.from.iter().map(|address| address.host.as_str()).collect();
        assert_eq!(hosts, ["a:27017", "b:5"]);
        assert!(flags.from.iter().all(|a| a.login_db == "db" && a.login.is_some()));
        assert_eq!((flags.filter.include.len(), flags.filter.exclude.len()), (2, 1));
        assert_eq!((flags.end, flags.workers), (End::CutOver, 8));
        assert_eq!(flags.last, Last { verify: true, users: false });
        assert_eq!(flags.patience, Duration::from_secs(5));
        let plain = parse(&["--from", "mongodb://a", "--to", "mongodb://b"]).unwrap();
        assert_eq!((plain.end, plain.workers), (End::BySignal, WORKERS));
    }

    #[test]
    fn wrong_usage_is_named() {
        let both = ["--from", "mongodb://a", "--to", "mongodb://b"];
        for (more, text) in [
            (&["--cutOver", "--finish"][..], "exclude each other"),
            (&["--verify"], "--verify and --users need"),
            (&["--users"], "--verify and --users need"),
            (&["--workers", "65"], "expected an integer from 1 to 64"),
            (&["--retrySeconds", "0"], "--retrySeconds has the bad value '0'"),
            (&["--include", "admin"], "never copied"),
            (&["--inclde", "x"], "did you mean '--include'"),
        ] {
            let error = parse(&[&both[..], more].concat()).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        assert!(parse(&both[..2]).unwrap_err().contains("--from and --to are needed"));
        for (bad, text) in [
            ("mongodb://a,,b", "--to"),
            ("b", "--to b: it must begin with mongodb://"),
            ("mongodb://h/?x=1", "'x' is not supported"),
        ] {
            let error = parse(&["--from", "mongodb://a", "--to", bad]).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        let many = format!("mongodb://{}", vec!["h"; HOSTS_MAX + 1].join(","));
        assert!(
            parse(&["--from", &many, "--to", "mongodb://b"]).unwrap_err().contains("more than")
        );
    }
}
