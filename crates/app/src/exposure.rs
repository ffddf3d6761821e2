//! Who can reach the server, and whether it asks for a login: the protected mode.
//!
//! A server that other machines can reach and that needs no login does not start, unless `--allowUnsafe` says that this
//! is meant. Databases without a login are found and erased within hours by programs that scan the Internet.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nagi_bson::DocBuf;
use nagi_doctor::AtRest;
use nagi_server::{Log, Server, TlsMode};

use crate::door::{Door, is_loopback, is_on};
use crate::options::{KeyPlace, KeySource, Options, PASSWORD_FLAGS};
use crate::{encryption, mechanisms};

/// Returns the refusal of a start, if other machines could use the server without a login.
///
/// Names are resolved here, before the data directory is opened. One that has no address is left to the listener, which
/// cannot be opened either; [`check_bound`] repeats the check for the bound address.
pub(crate) fn check(options: &Options) -> Result<(), String> {
    match beyond_loopback(options) {
        // A repair listens nowhere.
        Some(name) if !options.repair => refusal(options, &name),
        _ => Ok(()),
    }
}

/// As [`check`], for the address that was bound.
pub(crate) fn check_bound(options: &Options, bound: Option<SocketAddr>) -> Result<(), String> {
    bound.map_or(Ok(()), |address| refusal(options, &address.ip().to_string()))
}

fn refusal(options: &Options, name: &str) -> Result<(), String> {
    if options.allow_unsafe || options.authorization {
        return Ok(());
    }
    Err(format!(
        "BadValue: the server would listen at {name}, where other machines can reach it, and needs no login: everyone \
         who reaches the port could read and erase all data. Choose one:\n  \
         --auth                  clients log in (security.authorization: enabled); the first user is created from this \
         machine\n  \
         --bind_ip 127.0.0.1     only this machine can connect (net.bindIp: 127.0.0.1)\n  \
         --allowUnsafe           start nevertheless (security.allowUnsafe: true), where a firewall or a container \
         keeps others away"
    ))
}

/// The first name to listen at that is not an address of this machine only; Unix sockets are files.
fn beyond_loopback(options: &Options) -> Option<String> {
    let console = options.console.iter().flat_map(|console| &console.bind_ip);
    let mut names = options.net.bind_ip.iter().filter(|name| !name.starts_with('/')).chain(console);
    names.find(|name| *name != "localhost" && !is_loopback(name)).cloned()
}

/// Logs the open doors as warnings of the start, which shells show when they connect.
pub(crate) fn warn(options: &Options, args: &[String], server: &Server, log: &Log) {
    let mut doors = of_options(options, args);
    doors.extend(mechanisms::doors(options));
    let console = options.console.iter().flat_map(|console| &console.bind_ip);
    for name in console.filter(|name| *name != "localhost" && !is_loopback(name)) {
        doors.push(Door {
            id: 8_200_231,
            text: "The web console sends passwords and documents without encryption to other machines",
            place: name.clone(),
            fix: "--consoleBindIp 127.0.0.1, and a proxy with TLS or an SSH tunnel in front of it",
        });
    }
    if options.authorization && server.is_first_user_awaited() {
        doors.push(Door {
            id: 8_200_183,
            text: "There are no users: every client on this machine may create the first one, without a login",
            place: "localhost".to_owned(),
            fix: "create a user, or start with --setParameter enableLocalhostAuthBypass=false",
        });
        let here = IpAddr::from([127, 0, 0, 1]);
        if options.net.allowed.as_ref().is_some_and(|allowed| !allowed.contain(here)) {
            doors.push(Door {
                id: 8_200_289,
                text: "The first user can be created through the Unix socket only: net.ipAllowlist does not have this \
                       machine's own address",
                place: "net.ipAllowlist".to_owned(),
                fix: "add 127.0.0.1",
            });
        }
    }
    for door in doors {
        let attr = DocBuf::build(|doc| {
            doc.put("place", door.place.as_str());
            doc.put("fix", door.fix);
        });
        log.startup_warning("CONTROL", door.id, door.text, attr.as_doc());
    }
}

fn of_options(options: &Options, args: &[String]) -> Vec<Door> {
    let mut doors = Vec::new();
    let mut add = |id, text, place: &str, fix| {
        doors.push(Door { id, text, place: place.to_owned(), fix });
    };
    if let Some(name) = beyond_loopback(options) {
        if !options.authorization {
            add(
                8_200_181,
                "Other machines can use this server without a login",
                &name,
                "--auth, or --bind_ip 127.0.0.1",
            );
            if options.javascript {
                add(
                    8_200_186,
                    "Everyone who reaches the port can run JavaScript in this server",
                    &name,
                    "--noscripting",
                );
            }
        }
        if options.tls.as_ref().is_none_or(|tls| tls.mode != TlsMode::Require) {
            add(
                8_200_182,
                "Connections of other machines need not be encrypted",
                &name,
                "--tlsMode requireTLS",
            );
        }
    }
    if is_on(options, "enableTestCommands") {
        add(
            8_200_185,
            "Commands for tests are enabled; clients can make this server fail",
            "enableTestCommands",
            "remove the parameter",
        );
    }
    if let Some(file) = open_configuration(options) {
        add(
            8_200_184,
            "Other users of this machine can read the configuration file, which has a password",
            &file,
            "chmod 600, as the owner of the file",
        );
    }
    let flag = |arg: &&String| {
        let name = arg.split('=').next().unwrap_or("").trim_start_matches('-');
        arg.starts_with('-') && PASSWORD_FLAGS.contains(&name)
    };
    if let Some(arg) = args.iter().find(flag) {
        add(
            8_200_187,
            "A password is in the command line of this process: every user of this machine can see it, or could until \
             the start erased it",
            arg.split('=').next().unwrap_or(arg),
            "write it to a configuration file with mode 0600",
        );
    }
    doors
}

/// The configuration file, if it has a password and users beside the owner's group can read it.
fn open_configuration(options: &Options) -> Option<String> {
    let (_, path) = options.parsed.iter().find(|(key, _)| key == "config")?;
    let has_password = options.parsed.iter().any(|(_, value)| value == crate::options::HIDDEN);
    let mode = std::fs::metadata(path).ok()?.mode();
    (has_password && mode & 0o004 != 0).then(|| path.clone())
}

/// What the doctor judges.
pub(crate) fn for_doctor(options: &Options) -> nagi_doctor::Exposure {
    let tls = options.tls.as_ref();
    let keys = tls.and_then(|tls| tls.certificate_key_file.as_ref()).into_iter();
    let key_file = options.encryption.as_ref().and_then(|chosen| match &chosen.from {
        KeySource::Place(KeyPlace::File(path)) => Some(path),
        KeySource::Kmip(kmip) => kmip.certificate_file.as_ref(),
        KeySource::Place(_) => None,
    });
    let keys = keys
        .chain(key_file)
        .chain(tls.and_then(|tls| tls.cluster_file.as_ref()))
        .chain(&options.key_file);
    let open = |path: &&std::path::PathBuf| {
        std::fs::metadata(path).is_ok_and(|about| about.mode() & 0o007 != 0)
    };
    let mut open_files: Vec<String> =
        keys.filter(open).map(|path| path.display().to_string()).collect();
    open_files.extend(open_configuration(options));
    nagi_doctor::Exposure {
        reachable_at: beyond_loopback(options),
        has_logins: options.authorization,
        requires_tls: tls.is_some_and(|tls| tls.mode == TlsMode::Require),
        open_files,
        has_plain_logins: mechanisms::enables(options, "PLAIN") && options.ldap.is_some(),
        clear_ldap_server: mechanisms::clear_ldap_server(options),
        has_test_commands: is_on(options, "enableTestCommands"),
        has_javascript: options.javascript,
        at_rest: at_rest(options),
    }
}

/// The encryption of the data files, as the configuration and the directory have it.
fn at_rest(options: &Options) -> AtRest {
    let folder = Path::new(&options.db_path);
    let has_keys = encryption::has_keys(folder);
    let has_data = || nagi_host::found_in(folder).is_ok_and(|engine| engine.is_some());
    let Some(chosen) = &options.encryption else {
        return if has_keys { AtRest::NoKey } else { AtRest::Plain };
    };
    if !has_keys && has_data() {
        return AtRest::PlainData;
    }
    let file = match &chosen.from {
        KeySource::Place(KeyPlace::File(path)) => path,
        _ => return AtRest::Encrypted,
    };
    let real = |path: &Path| path.canonicalize().ok();
    let is_beside =
        real(file).zip(real(folder)).is_some_and(|(file, folder)| file.starts_with(folder));
    match is_beside {
        true => AtRest::KeyBesideData(file.display().to_string()),
        false => AtRest::Encrypted,
    }
}

/// Turns core dumps off if the memory has secrets: a dump contains keys and passwords and is often copied to others.
/// `RLIMIT_CORE` also tells systemd-coredump and apport to keep nothing.
pub(crate) fn without_core_dumps(options: &Options) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    if !has_secrets(options) || options.core_dumps {
        return;
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        log::warn!(target: "CONTROL", id = 8_200_188, error = error.to_string();
            "Core dumps could not be turned off");
    }
}

fn has_secrets(options: &Options) -> bool {
    options.authorization
        || options.key_file.is_some()
        || options.tls.is_some()
        || options.ldap.is_some()
        || options.encryption.is_some()
}
