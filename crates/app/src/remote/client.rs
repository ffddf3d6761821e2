//! A connection to a server: runs commands, and logs in if the address names a user.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use nagi_bson::{Binary, Doc, DocBuf, Value};
use nagi_server::LoginClient;
use nagi_tls::Connector;

use super::address::{Address, BY_CERTIFICATE};
use super::password;

const HEADER_BYTES: usize = 16;
/// The offset of the body in a message that [`message`] builds, and in its reply.
pub(crate) const BODY_AT: usize = 21;
const OP_MSG: i32 = 2013;
const REPLY_BYTES_MAX: usize = 48_000_000;
/// The read timeout: a checkpoint may take a while on a slow disk.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// Why a command has no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    Connection(String),
    /// The server's error; `reply` is empty if it has not sent one.
    Refused {
        code: i64,
        text: String,
        reply: DocBuf,
    },
}

impl Failure {
    /// An error that has no code.
    fn other(text: impl Into<String>) -> Failure {
        Failure::Refused { code: 0, text: text.into(), reply: DocBuf::new() }
    }

    pub(crate) fn into_text(self) -> String {
        match self {
            Failure::Connection(text) | Failure::Refused { text, .. } => text,
        }
    }
}

/// A connection, with TLS or without.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

pub(crate) struct Client {
    stream: Box<dyn Stream>,
    host: String,
    with_tls: bool,
    /// The server's reply to the greeting.
    greeting: DocBuf,
}

impl Client {
    /// Connects and logs in. A password that is missing in the address comes from a file, the environment or a prompt.
    pub(crate) fn connect(
        address: &Address,
        password_file: Option<&Path>,
    ) -> Result<Client, String> {
        Client::try_connect(address, password_file).map_err(Failure::into_text)
    }

    /// The same, with an error that tells what happened.
    pub(crate) fn try_connect(
        address: &Address,
        password_file: Option<&Path>,
    ) -> Result<Client, Failure> {
        let login = match &address.login {
            _ if address.mechanism == Some(BY_CERTIFICATE) && password_file.is_none() => None,
            Some((_, Some(_))) if password_file.is_some() => {
                return Err(Failure::other(
                    "--uri has a password, and --passwordFile names another",
                ));
            }
            Some((user, Some(password))) => Some((user, password.clone())),
            Some((user, None)) => {
                Some((user, password::find(user, password_file).map_err(Failure::other)?))
            }
            None if password_file.is_some() => {
                return Err(Failure::other(
                    "--passwordFile needs a user: --uri mongodb://user@host",
                ));
            }
            None => None,
        };
        let host = address.host.clone();
        let named = |error: String| Failure::Connection(format!("{host}: {error}"));
        // Files that cannot be used are no reason to try again.
        let connector = match address.tls {
            Some(true) => Some(Connector::new(&address.files).map_err(Failure::other)?),
            _ => None,
        };
        let socket = open(address).map_err(|error| named(error.to_string()))?;
        let with_tls = connector.is_some();
        let stream: Box<dyn Stream> = match connector {
            Some(connector) => {
                let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
                Box::new(connector.connect(name, socket).map_err(named)?)
            }
            None => Box::new(socket),
        };
        let mut client = Client { stream, host, with_tls, greeting: DocBuf::new() };
        let offered = client.greet(address)?;
        if address.mechanism == Some(BY_CERTIFICATE) {
            client.log_in_by_certificate(address)?;
        } else if let Some((user, password)) = &login {
            let mechanism = address.mechanism.unwrap_or(offered);
            client.log_in(mechanism, user, password, &address.login_db)?;
        }
        Ok(client)
    }

    /// Sends the hello. Returns the login mechanism for the user: SCRAM-SHA-256, unless the user has only SCRAM-SHA-1.
    fn greet(&mut self, address: &Address) -> Result<&'static str, Failure> {
        let hello = DocBuf::build(|w| {
            w.put("hello", 1);
            if let Some((user, _)) = &address.login {
                w.put("saslSupportedMechs", format!("{}.{user}", address.login_db).as_str());
            }
            w.doc("client", |w| {
                if let Some(name) = &address.app_name {
                    w.doc("application", |w| w.put("name", name.as_str()));
                }
                w.doc("driver", |w| {
                    w.put("name", "nagi backup");
                    w.put("version", crate::build::VERSION);
                });
                w.doc("os", |w| w.put("type", "Linux"));
            });
            w.put("$db", "admin");
        });
        let reply = self.try_run(hello.as_doc())?;
        if let Some(wanted) = &address.replica_set
            && reply.get("setName").as_str() != Some(wanted)
        {
            let found = reply.get("setName").as_str().unwrap_or("none");
            return Err(Failure::other(format!(
                "{}: it is a member of the replica set '{found}', not of '{wanted}'",
                self.host
            )));
        }
        let list = reply.get("saslSupportedMechs").as_array();
        let has =
            |name: &str| list.is_some_and(|list| list.iter().any(|m| m.as_str() == Some(name)));
        let mechanism = match has("SCRAM-SHA-1") && !has("SCRAM-SHA-256") {
            true => "SCRAM-SHA-1",
            false => "SCRAM-SHA-256",
        };
        self.greeting = reply;
        Ok(mechanism)
    }

    /// The server's reply to `hello`, from when the connection was made.
    pub(crate) fn greeting(&self) -> Doc<'_> {
        self.greeting.as_doc()
    }

    /// The user is the subject of the certificate.
    fn log_in_by_certificate(&mut self, address: &Address) -> Result<(), Failure> {
        let login = DocBuf::build(|w| {
            w.put("authenticate", 1);
            w.put("mechanism", BY_CERTIFICATE);
            if let Some((user, _)) = &address.login {
                w.put("user", user.as_str());
            }
            w.put("$db", "$external");
        });
        self.try_run(login.as_doc()).map(drop)
    }

    fn log_in(
        &mut self,
        mechanism: &str,
        user: &str,
        password: &str,
        db: &str,
    ) -> Result<(), Failure> {
        let mut login = LoginClient::new(mechanism, user, password).map_err(Failure::other)?;
        let first = login.first();
        let start = DocBuf::build(|w| {
            w.put("saslStart", 1);
            w.put("mechanism", mechanism);
            w.put("payload", Value::Binary(Binary { subtype: 0, bytes: &first }));
            w.doc("options", |options| options.put("skipEmptyExchange", true));
            w.put("$db", db);
        });
        let reply = self.try_run(start.as_doc())?;
        let last = login.answer(payload(reply.as_doc())).map_err(Failure::other)?;
        let next = DocBuf::build(|w| {
            w.put("saslContinue", 1);
            w.put("conversationId", reply.get("conversationId"));
            w.put("payload", Value::Binary(Binary { subtype: 0, bytes: &last }));
            w.put("$db", db);
        });
        let reply = self.try_run(next.as_doc())?;
        match login.accepts(payload(reply.as_doc())) {
            true => Ok(()),
            false => Err(Failure::other(format!(
                "{}: the server could not prove that it has the credentials of \
                                  {user}",
                self.host
            ))),
        }
    }

    /// Runs a command; an error of the server is returned as text.
    pub(crate) fn run(&mut self, body: Doc<'_>) -> Result<DocBuf, String> {
        self.try_run(body).map_err(Failure::into_text)
    }

    /// The same, with an error that tells what happened.
    pub(crate) fn try_run(&mut self, body: Doc<'_>) -> Result<DocBuf, Failure> {
        self.send(&message(body))
    }

    /// Runs a command whose array `name` has the documents `docs`, one behind the other: as a sequence of the message,
    /// since a body with documents of 16 MiB would be too large.
    pub(crate) fn run_with(
        &mut self,
        body: Doc<'_>,
        name: &str,
        docs: &[u8],
    ) -> Result<DocBuf, Failure> {
        self.send(&message_with(body, name, docs))
    }

    fn send(&mut self, message: &[u8]) -> Result<DocBuf, Failure> {
        let reply = self.exchange(message).map_err(|error| {
            Failure::Connection(format!("{}: {}", self.host, told(&error, self.with_tls)))
        })?;
        if reply.get("ok").is_truthy() {
            return Ok(reply);
        }
        let text = reply.get("errmsg").as_str().unwrap_or("the command failed");
        let name = reply.get("codeName").as_str().unwrap_or("");
        Err(Failure::Refused {
            code: nagi_bson::number::truncate_to_i64(reply.get("code")).unwrap_or(0),
            text: format!("{}: {text} ({name})", self.host),
            reply,
        })
    }

    fn exchange(&mut self, message: &[u8]) -> std::io::Result<DocBuf> {
        let invalid = || std::io::Error::from(std::io::ErrorKind::InvalidData);
        self.stream.write_all(message)?;
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

/// A message with a command.
pub(crate) fn message(body: Doc<'_>) -> Vec<u8> {
    let body = body.as_bytes();
    let mut message = Vec::with_capacity(BODY_AT + body.len());
    for number in [(BODY_AT + body.len()) as i32, 1, 0, OP_MSG, 0] {
        message.extend_from_slice(&number.to_le_bytes());
    }
    message.push(0);
    message.extend_from_slice(body);
    message
}

/// A message with a command and a sequence of documents.
fn message_with(body: Doc<'_>, name: &str, docs: &[u8]) -> Vec<u8> {
    let mut message = message(body);
    // The kind of the section, its length without the kind, and its name with a zero.
    message.push(1);
    message.extend_from_slice(&((4 + name.len() + 1 + docs.len()) as i32).to_le_bytes());
    message.extend_from_slice(name.as_bytes());
    message.push(0);
    message.extend_from_slice(docs);
    let length = message.len() as i32;
    message[..4].copy_from_slice(&length.to_le_bytes());
    message
}

/// An error of a connection for the user: the system's texts name neither a timeout nor a foreign protocol.
fn told(error: &std::io::Error, with_tls: bool) -> String {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            "the server has not answered in time".to_owned()
        }
        std::io::ErrorKind::InvalidData => {
            "what answers there is no server with MongoDB's protocol".to_owned()
        }
        // A server that only accepts TLS closes a connection without it.
        std::io::ErrorKind::UnexpectedEof
        | std::io::ErrorKind::ConnectionReset
        | std::io::ErrorKind::BrokenPipe => match with_tls {
            true => "the server has closed the connection without an answer".to_owned(),
            false => "the server has closed the connection without an answer; if it accepts only connections \
                      with TLS, use --tls"
                .to_owned(),
        },
        _ => error.to_string(),
    }
}

/// Connects to the first of the host's addresses that accepts a connection.
fn open(address: &Address) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for place in address.host.to_socket_addrs()? {
        let connected = match address.connect_timeout {
            Some(timeout) => TcpStream::connect_timeout(&place, timeout),
            None => TcpStream::connect(place),
        };
        match connected {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(address.silence_max.unwrap_or(Some(SILENCE_MAX)))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn payload<'d>(reply: Doc<'d>) -> &'d [u8] {
    match reply.get("payload") {
        Value::Binary(binary) => binary.bytes,
        _ => &[],
    }
}
