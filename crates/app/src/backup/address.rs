//! The address of a server: `mongodb://[user[:password]@]host[:port][/db][?options]`.
//!
//! An option that would change the behaviour of the connection is honoured or refused, never ignored. This matters most
//! for `tls=true`: password and data would otherwise be sent unencrypted.

use std::time::Duration;

use nagi_server::LoginClient;

const PORT: u16 = 27_017;

/// A parsed `mongodb://` address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    /// The user, and the password if the address contains one.
    pub(super) login: Option<(String, Option<String>)>,
    pub(super) login_db: String,
    /// `authMechanism`.
    pub(super) mechanism: Option<&'static str>,
    /// `appName`.
    pub(super) app_name: Option<String>,
    /// `replicaSet`: the server must be a member of this set.
    pub(super) replica_set: Option<String>,
    /// `connectTimeoutMS`; `None` uses the system's timeout.
    pub(super) connect_timeout: Option<Duration>,
    /// `socketTimeoutMS`, if specified; the inner `None` (0) means no limit.
    pub(super) silence_max: Option<Option<Duration>>,
}

/// The type of an option's value, and where it is stored.
enum Take {
    Text(fn(&mut Address, String)),
    Mechanism,
    /// Both values have the same effect with a single host.
    Bool,
    /// Milliseconds.
    Time(fn(&mut Address, Option<Duration>)),
    /// Only `false` is accepted.
    NoTls,
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
    ("ssl", Take::NoTls),
    ("tls", Take::NoTls),
];

/// Parses an address.
pub(super) fn parse(uri: &str) -> Result<Address, String> {
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
    let mut seen = Vec::new();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        take(&mut address, name, decode(value)).map_err(|why| refused(&why))?;
        let name = name.to_ascii_lowercase();
        if seen.contains(&name) {
            return Err(refused(&format!("the option '{name}' occurs twice")));
        }
        seen.push(name);
    }
    Ok(address)
}

/// Checks and stores one option.
fn take(address: &mut Address, name: &str, value: String) -> Result<(), String> {
    let row = OPTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((name, take)) = row else {
        if name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("tls")) {
            return Err(no_tls(name));
        }
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
            let known = LoginClient::MECHANISMS;
            match known.iter().find(|known| **known == value) {
                Some(mechanism) => address.mechanism = Some(mechanism),
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
        Take::NoTls if value == "false" => {}
        Take::NoTls => return Err(no_tls(&format!("{name}={value}"))),
    }
    Ok(())
}

fn no_tls(option: &str) -> String {
    format!(
        "{option}: there is no TLS, the connection would not be encrypted; remove the option, and use an \
         encrypted network, a tunnel or a TLS proxy"
    )
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
                   &connectTimeoutMS=250&sockettimeoutms=0&directConnection=true&tls=false&ssl=false";
        let address = parse(all).unwrap();
        assert_eq!(address.mechanism, Some("SCRAM-SHA-1"));
        assert_eq!(address.app_name.as_deref(), Some("nightly backup"));
        assert_eq!(address.replica_set.as_deref(), Some("rs"));
        assert_eq!(address.connect_timeout, Some(Duration::from_millis(250)));
        assert_eq!(address.silence_max, Some(None));
        for (option, says) in [
            ("tls=true", "there is no TLS"),
            ("SSL=true", "there is no TLS"),
            ("ssl", "there is no TLS"),
            ("tlsCAFile=/ca.pem", "there is no TLS"),
            ("tlsInsecure=true", "there is no TLS"),
            ("authMechanism=PLAIN", "expected SCRAM-SHA-1 or SCRAM-SHA-256"),
            ("authMechanism=", "expected SCRAM-SHA-1 or SCRAM-SHA-256"),
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
}
