//! The address of a server: `mongodb://[user[:password]@]host[:port][/db][?options]`.
//!
//! An option that would change the behaviour of the connection is honoured or refused, never ignored. This matters most
//! for `tls=true`: password and data would otherwise be sent unencrypted.

use std::path::PathBuf;
use std::time::Duration;

use nagi_server::LoginClient;
use nagi_tls::ClientFiles;
use zeroize::Zeroizing;

const PORT: u16 = 27_017;

/// The login by the certificate of the connection.
pub(crate) const BY_CERTIFICATE: &str = "MONGODB-X509";

/// A parsed `mongodb://` address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    /// The user, and the password if the address contains one.
    pub(crate) login: Option<(String, Option<String>)>,
    pub(crate) login_db: String,
    /// `authMechanism`.
    pub(crate) mechanism: Option<&'static str>,
    /// `appName`.
    pub(crate) app_name: Option<String>,
    /// `replicaSet`: the server must be a member of this set.
    pub(crate) replica_set: Option<String>,
    /// `connectTimeoutMS`; `None` uses the system's timeout.
    pub(crate) connect_timeout: Option<Duration>,
    /// `socketTimeoutMS`, if specified; the inner `None` (0) means no limit.
    pub(crate) silence_max: Option<Option<Duration>>,
    /// `tls` or `ssl`, if specified.
    pub(crate) tls: Option<bool>,
    /// The other options of TLS.
    pub(crate) files: ClientFiles,
}

/// The type of an option's value, and where it is stored.
enum Take {
    Text(fn(&mut Address, String)),
    Mechanism,
    /// Both values have the same effect with a single host.
    Bool,
    /// Milliseconds.
    Time(fn(&mut Address, Option<Duration>)),
    /// `true` or `false`.
    Switch(fn(&mut Address, bool)),
}

/// The honoured options. Their names are case-insensitive.
const OPTIONS: &[(&str, Take)] = &[
    ("appName", Take::Text(|address, name| address.app_name = Some(name))),
    ("authMechanism", Take::Mechanism),
    ("authSource", Take::Text(|address, db| address.login_db = db)),
    ("connectTimeoutMS", Take::Time(|address, time| address.connect_timeout = time)),
    ("directConnection", Take::Bool),
    ("replicaSet", Take::Text(|address, name| address.replica_set = Some(name))),
    ("socketTimeoutMS", Take::Time(|address, time| address.silence_max = Some(time))),
    ("ssl", Take::Switch(|address, on| address.tls = Some(on))),
    ("tls", Take::Switch(|address, on| address.tls = Some(on))),
    (
        "tlsAllowInvalidCertificates",
        Take::Switch(|address, on| address.files.allow_invalid_certificates = on),
    ),
    (
        "tlsAllowInvalidHostnames",
        Take::Switch(|address, on| address.files.allow_invalid_hostnames = on),
    ),
    ("tlsCAFile", Take::Text(|address, path| address.files.ca_file = Some(PathBuf::from(path)))),
    (
        "tlsCertificateKeyFile",
        Take::Text(|address, path| address.files.certificate_key_file = Some(PathBuf::from(path))),
    ),
    (
        "tlsCertificateKeyFilePassword",
        Take::Text(|address, text| {
            address.files.certificate_key_password = Some(Zeroizing::new(text));
        }),
    ),
    (
        "tlsInsecure",
        Take::Switch(|address, on| {
            address.files.allow_invalid_certificates = on;
            address.files.allow_invalid_hostnames = on;
        }),
    ),
];

/// Parses an address. `more`: options by flags, as `("tls", "true")`.
pub(crate) fn parse(uri: &str, more: &[(String, String)]) -> Result<Address, String> {
    let refused = |why: &str| format!("--uri {}: {why}", uri.split('@').next_back().unwrap_or(""));
    let rest = uri.strip_prefix("mongodb://");
    let rest = rest.ok_or_else(|| refused("it must begin with mongodb://"))?;
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (login, place) = match rest.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, rest),
    };
    let (host, db) = place.split_once('/').unwrap_or((place, ""));
    if host.is_empty() || host.contains(',') {
        return Err(refused("one host is needed"));
    }
    let login = login.map(|login| match login.split_once(':') {
        Some((user, password)) => (decode(user), Some(decode(password))),
        None => (decode(login), None),
    });
    if login.as_ref().is_some_and(|(user, _)| user.is_empty()) {
        return Err(refused("a user is needed before the @"));
    }
    let mut address = Address {
        host: with_port(host).ok_or_else(|| refused("a port is a number from 1 to 65535"))?,
        login,
        login_db: if db.is_empty() { "admin".to_owned() } else { decode(db) },
        ..Address::default()
    };
    let options = options.split('&').filter(|option| !option.is_empty()).map(|option| {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        (name.to_owned(), decode(value))
    });
    let mut seen = Vec::new();
    for (name, value) in options.chain(more.iter().cloned()) {
        take(&mut address, &name, value).map_err(|why| refused(&why))?;
        // One name for both.
        let name = name.to_ascii_lowercase();
        let name = if name == "ssl" { "tls".to_owned() } else { name };
        if seen.contains(&name) {
            return Err(refused(&format!("the option '{name}' occurs twice")));
        }
        seen.push(name);
    }
    // A flag that needs another is named as such.
    if address.tls != Some(true)
        && let Some((name, _)) =
            more.iter().find(|(name, _)| name.starts_with("tls") && name != "tls")
    {
        return Err(format!("--{name} needs --tls"));
    }
    check(&address, &seen).map_err(|why| refused(&why))?;
    Ok(address)
}

/// Checks which options need which others.
fn check(address: &Address, seen: &[String]) -> Result<(), String> {
    if address.tls != Some(true)
        && let Some(name) = seen.iter().find(|name| name.len() > 3 && name.starts_with("tls"))
    {
        return Err(format!("the option '{name}' needs tls=true"));
    }
    if address.mechanism == Some(BY_CERTIFICATE) {
        if address.files.certificate_key_file.is_none() {
            return Err(format!("authMechanism={BY_CERTIFICATE} needs tlsCertificateKeyFile"));
        }
        if matches!(address.login, Some((_, Some(_)))) {
            return Err(format!("a password cannot be used with authMechanism={BY_CERTIFICATE}"));
        }
    }
    Ok(())
}

/// Checks and stores one option.
fn take(address: &mut Address, name: &str, value: String) -> Result<(), String> {
    let row = OPTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((name, take)) = row else {
        let known: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "the option '{name}' is not supported (supported: {})",
            known.join(", ")
        ));
    };
    let bad = |expected: &str| {
        format!("the option '{name}' has the value '{value}': expected {expected}")
    };
    match take {
        Take::Text(_) if value.is_empty() => return Err(bad("a text")),
        Take::Text(set) => set(address, value),
        Take::Mechanism => {
            let known = [LoginClient::MECHANISMS, &[BY_CERTIFICATE]].concat();
            match known.iter().find(|known| **known == value) {
                Some(mechanism) => address.mechanism = Some(*mechanism),
                None => return Err(bad(&known.join(" or "))),
            }
        }
        Take::Bool if value != "true" && value != "false" => return Err(bad("true or false")),
        Take::Bool => {}
        Take::Time(set) => match value.parse::<u32>() {
            Ok(0) => set(address, None),
            Ok(ms) => set(address, Some(Duration::from_millis(u64::from(ms)))),
            Err(_) => return Err(bad("milliseconds")),
        },
        Take::Switch(set) => match value.as_str() {
            "true" => set(address, true),
            "false" => set(address, false),
            _ => return Err(bad("true or false")),
        },
    }
    Ok(())
}

/// The host with a port; `None` if the part after the colon is no port.
fn with_port(host: &str) -> Option<String> {
    // The colons of an IPv6 address are in brackets.
    let after_name = host.rfind(']').map_or(0, |end| end + 1);
    match host[after_name..].split_once(':') {
        None => Some(format!("{host}:{PORT}")),
        Some((_, port)) => {
            port.parse::<u16>().ok().filter(|port| *port > 0).map(|_| host.to_owned())
        }
    }
}

/// Decodes percent-encoding: `%41` is `A`.
fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = || u8::from_str_radix(std::str::from_utf8(after.get(..2)?).ok()?, 16).ok();
        match (*first == b'%').then(hex).flatten() {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(uri: &str) -> Result<Address, String> {
        super::parse(uri, &[])
    }

    #[test]
    fn addresses() {
        let plain = parse("mongodb://localhost").unwrap();
        assert_eq!(plain.host, "localhost:27017");
        assert_eq!(plain.login, None);
        let full = parse("mongodb://a%40b:p%3Aw@h:1/db?authSource=other").unwrap();
        assert_eq!(full.login, Some(("a@b".to_owned(), Some("p:w".to_owned()))));
        assert_eq!((full.host.as_str(), full.login_db.as_str()), ("h:1", "other"));
        assert_eq!(parse("mongodb://u:p@h/db").unwrap().login_db, "db");
        assert_eq!(parse("mongodb://user@h").unwrap().login, Some(("user".to_owned(), None)));
        assert_eq!(parse("mongodb://[::1]").unwrap().host, "[::1]:27017");
        assert_eq!(parse("mongodb://[::1]:5").unwrap().host, "[::1]:5");
        for bad in [
            "localhost",
            "mongodb://",
            "mongodb://a,b",
            "mongodb://@h",
            "mongodb://:p@h",
            "mongodb://h:0",
            "mongodb://h:x",
            "mongodb://h:70000",
            "mongodb+srv://h",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(!parse("mongodb://u:secret@a,b").unwrap_err().contains("secret"));
    }

    #[test]
    fn options_are_honoured_or_refused() {
        let all = "mongodb://u@h/db?authMechanism=SCRAM-SHA-1&APPNAME=nightly%20backup&replicaSet=rs\
                   &connectTimeoutMS=250&sockettimeoutms=0&directConnection=true&tls=false";
        let address = parse(all).unwrap();
        assert_eq!(address.mechanism, Some("SCRAM-SHA-1"));
        assert_eq!(address.app_name.as_deref(), Some("nightly backup"));
        assert_eq!(address.replica_set.as_deref(), Some("rs"));
        assert_eq!(address.connect_timeout, Some(Duration::from_millis(250)));
        assert_eq!(address.silence_max, Some(None));
        for (option, says) in [
            ("ssl", "expected true or false"),
            ("tls=true&ssl=false", "'tls' occurs twice"),
            ("tlsCAFile=/ca.pem", "'tlscafile' needs tls=true"),
            ("tls=false&tlsInsecure=true", "'tlsinsecure' needs tls=true"),
            ("tls=true&tlsCRLFile=/crl.pem", "'tlsCRLFile' is not supported"),
            ("tls=true&tlsCAFile=", "expected a text"),
            ("tls=true&authMechanism=MONGODB-X509", "needs tlsCertificateKeyFile"),
            ("tls=true&tlsCertificateKeyFile=/k&authMechanism=MONGODB-X509", "a password cannot"),
            ("authMechanism=PLAIN", "expected SCRAM-SHA-1 or SCRAM-SHA-256 or MONGODB-X509"),
            ("authMechanism=", "expected SCRAM-SHA-1 or SCRAM-SHA-256 or MONGODB-X509"),
            ("directConnection=yes", "expected true or false"),
            ("connectTimeoutMS=1.5", "expected milliseconds"),
            ("socketTimeoutMS=-1", "expected milliseconds"),
            ("appName=", "expected a text"),
            ("readPreference=secondary", "'readPreference' is not supported"),
            ("w=majority", "'w' is not supported"),
            ("x=1", "'x' is not supported"),
            ("appName=a&appname=b", "twice"),
        ] {
            let error = parse(&format!("mongodb://u:secret@h/?{option}")).unwrap_err();
            assert!(error.contains(says) && !error.contains("secret"), "{option}: {error}");
        }
    }

    #[test]
    fn options_of_tls_come_from_the_address_and_from_flags() {
        let uri = "mongodb://h/?tls=true&tlsCAFile=%2Fca.pem&tlsCertificateKeyFilePassword=p%26w";
        let address = parse(uri).unwrap();
        assert_eq!(address.tls, Some(true));
        assert_eq!(address.files.ca_file.as_deref(), Some(std::path::Path::new("/ca.pem")));
        assert_eq!(address.files.certificate_key_password.as_ref().unwrap().as_str(), "p&w");
        assert!(!format!("{address:?}").contains("p&w"));
        let flag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let flags = [flag("tls", "true"), flag("tlsCertificateKeyFile", "/client.pem")];
        let by_flags = super::parse("mongodb://h/?authMechanism=MONGODB-X509", &flags).unwrap();
        assert_eq!((by_flags.tls, by_flags.mechanism), (Some(true), Some(BY_CERTIFICATE)));
        assert!(super::parse(uri, &flags).unwrap_err().contains("'tls' occurs twice"));
        assert!(
            super::parse("mongodb://h", &flags[1..])
                .unwrap_err()
                .contains("--tlsCertificateKeyFile needs --tls")
        );
        let insecure = parse("mongodb://h/?ssl=true&tlsInsecure=true").unwrap().files;
        assert!(insecure.allow_invalid_certificates && insecure.allow_invalid_hostnames);
    }
}
