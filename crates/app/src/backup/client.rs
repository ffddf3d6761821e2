//! One connection to a server: commands, and a login if the address names a user.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use nagi_bson::{Binary, Doc, DocBuf, Value};
use nagi_server::LoginClient;

use super::password;

const HEADER_BYTES: usize = 16;
const BODY_AT: usize = 21;
const OP_MSG: i32 = 2013;
const REPLY_BYTES_MAX: usize = 48_000_000;
/// A checkpoint may take a while on a slow disk.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// What a `mongodb://` address says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    /// User, and the password if the address has one.
    login: Option<(String, Option<String>)>,
    login_db: String,
}

/// Reads an address. One host; of the options only `authSource` counts.
pub(super) fn parse(uri: &str) -> Result<Address, String> {
    let refused = |why: &str| format!("--uri {}: {why}", uri.split('@').next_back().unwrap_or(""));
    let rest = uri.strip_prefix("mongodb://");
    let rest = rest.ok_or_else(|| refused("it must begin with mongodb://"))?;
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, rest),
    };
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
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
    let source = options.split('&').find_map(|option| option.strip_prefix("authSource="));
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(Address {
        host: if has_port { host.to_owned() } else { format!("{host}:27017") },
        login,
        login_db: match (source, db) {
            (Some(source), _) => decode(source),
            (None, "") => "admin".to_owned(),
            (None, db) => decode(db),
        },
    })
}

/// `%41` stands for `A`.
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

pub(super) struct Client {
    stream: TcpStream,
    host: String,
}

impl Client {
    /// Connects and logs in; a password that the address lacks is looked for elsewhere.
    pub(super) fn connect(
        address: &Address,
        password_file: Option<&Path>,
    ) -> Result<Client, String> {
        let login = match &address.login {
            Some((_, Some(_))) if password_file.is_some() => {
                return Err("--uri has a password, and --passwordFile names another".to_owned());
            }
            Some((user, Some(password))) => Some((user, password.clone())),
            Some((user, None)) => Some((user, password::find(user, password_file)?)),
            None if password_file.is_some() => {
                return Err("--passwordFile needs a user: --uri mongodb://user@host".to_owned());
            }
            None => None,
        };
        let host = address.host.clone();
        let stream = TcpStream::connect(&host).map_err(|error| format!("{host}: {error}"))?;
        let set =
            stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(SILENCE_MAX)));
        set.map_err(|error| format!("{host}: {error}"))?;
        let mut client = Client { stream, host };
        if let Some((user, password)) = &login {
            client.log_in(user, password, &address.login_db)?;
        }
        Ok(client)
    }

    fn log_in(&mut self, user: &str, password: &str, db: &str) -> Result<(), String> {
        let mut login = LoginClient::new(user, password)?;
        let first = login.first();
        let start = DocBuf::build(|w| {
            w.put("saslStart", 1);
            w.put("mechanism", "SCRAM-SHA-256");
            w.put("payload", Value::Binary(Binary { subtype: 0, bytes: &first }));
            w.doc("options", |options| options.put("skipEmptyExchange", true));
            w.put("$db", db);
        });
        let reply = self.run(start.as_doc())?;
        let last = login.answer(payload(reply.as_doc()))?;
        let next = DocBuf::build(|w| {
            w.put("saslContinue", 1);
            w.put("conversationId", reply.get("conversationId"));
            w.put("payload", Value::Binary(Binary { subtype: 0, bytes: &last }));
            w.put("$db", db);
        });
        let reply = self.run(next.as_doc())?;
        match login.accepts(payload(reply.as_doc())) {
            true => Ok(()),
            false => Err(format!("{}: the server could not show that it knows {user}", self.host)),
        }
    }

    /// Runs a command; an error of the server is a text.
    pub(super) fn run(&mut self, body: Doc<'_>) -> Result<DocBuf, String> {
        let reply = self.exchange(body).map_err(|error| format!("{}: {error}", self.host))?;
        if reply.get("ok").is_truthy() {
            return Ok(reply);
        }
        let text = reply.get("errmsg").as_str().unwrap_or("the command failed").to_owned();
        Err(format!("{}: {text} ({})", self.host, reply.get("codeName").as_str().unwrap_or("")))
    }

    fn exchange(&mut self, body: Doc<'_>) -> std::io::Result<DocBuf> {
        let invalid = || std::io::Error::from(std::io::ErrorKind::InvalidData);
        let body = body.as_bytes();
        let mut frame = Vec::with_capacity(BODY_AT + body.len());
        for number in [(BODY_AT + body.len()) as i32, 1, 0, OP_MSG, 0] {
            frame.extend_from_slice(&number.to_le_bytes());
        }
        frame.push(0);
        frame.extend_from_slice(body);
        self.stream.write_all(&frame)?;
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        let length = header.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let length = length as usize;
        if !(BODY_AT..=REPLY_BYTES_MAX).contains(&length) {
            return Err(invalid());
        }
        let mut reply = vec![0; length - HEADER_BYTES];
        self.stream.read_exact(&mut reply)?;
        DocBuf::from_bytes(reply.split_off(BODY_AT - HEADER_BYTES)).map_err(|_| invalid())
    }
}

fn payload<'d>(reply: Doc<'d>) -> &'d [u8] {
    match reply.get("payload") {
        Value::Binary(binary) => binary.bytes,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let plain = parse("mongodb://localhost").unwrap();
        assert_eq!(plain.host, "localhost:27017");
        assert_eq!(plain.login, None);
        let full = parse("mongodb://a%40b:p%3Aw@h:1/db?x=1&authSource=other").unwrap();
        assert_eq!(full.login, Some(("a@b".to_owned(), Some("p:w".to_owned()))));
        assert_eq!((full.host.as_str(), full.login_db.as_str()), ("h:1", "other"));
        assert_eq!(parse("mongodb://u:p@h/db").unwrap().login_db, "db");
        assert_eq!(parse("mongodb://user@h").unwrap().login, Some(("user".to_owned(), None)));
        for bad in ["localhost", "mongodb://", "mongodb://a,b", "mongodb://@h", "mongodb://:p@h"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(!parse("mongodb://u:secret@a,b").unwrap_err().contains("secret"));
    }
}
