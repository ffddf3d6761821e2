//! A connection to an LDAP server: one request at a time, each with a deadline.
//!
//! The server is not trusted with this process: the length of a message, the bytes and values of a search, and the time
//! until its end are bounded, whatever the server sends and however slowly.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nagi_tls::{Connector, Secured};

use crate::ber;
use crate::message::{self, Entry, Outcome, Response, code};
use crate::query::Search;

/// The longest message of a server.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The bytes of all messages that answer a search.
const SEARCH_BYTES_MAX: usize = 8 << 20;
/// The number of entries and values that a search finds: a user may have as many roles.
const VALUES_MAX: usize = 10_000;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection broke, or the server did not answer in time or in LDAP: another server may do better.
    Network(String),
    /// The server answered, with a result other than success.
    Answer(Outcome),
    /// The server answered with more than is allowed.
    TooMuch(String),
}

/// A socket whose reads and writes end at a deadline.
struct Deadlined {
    socket: TcpStream,
    deadline: Instant,
}

impl Deadlined {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "the time is over")),
            false => Ok(left),
        }
    }
}

impl Read for Deadlined {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer)
    }
}

impl Write for Deadlined {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

enum Stream {
    Plain(Deadlined),
    Tls(Box<Secured<Deadlined>>),
}

/// An open connection.
pub(crate) struct Connection {
    stream: Stream,
    /// The id of the last request.
    id: u32,
    /// Bytes of the server that were read, but not used.
    unread: Vec<u8>,
}

impl Connection {
    /// Connects to one of the addresses, with TLS if there is a configuration of it.
    pub(crate) fn open(
        host: &str,
        addresses: &[SocketAddr],
        tls: Option<&Connector>,
        deadline: Instant,
    ) -> Result<Connection, Failure> {
        let mut why = "the server did not answer in time".to_owned();
        for address in addresses {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(address, left) {
                Ok(socket) => return Connection::on(socket, host, tls, deadline),
                Err(error) => why = format!("{address}: {error}"),
            }
        }
        Err(Failure::Network(why))
    }

    /// A connection on an open socket.
    pub(crate) fn on(
        socket: TcpStream,
        host: &str,
        tls: Option<&Connector>,
        deadline: Instant,
    ) -> Result<Connection, Failure> {
        // Requests are short and wait for their answers.
        let _ = socket.set_nodelay(true);
        let socket = Deadlined { socket, deadline };
        let stream = match tls {
            None => Stream::Plain(socket),
            Some(tls) => {
                Stream::Tls(Box::new(tls.connect(host, socket).map_err(Failure::Network)?))
            }
        };
        Ok(Connection { stream, id: 0, unread: Vec::new() })
    }

    /// Sets when the following requests must be done.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        match &mut self.stream {
            Stream::Plain(socket) => socket.deadline = deadline,
            Stream::Tls(tls) => tls.get_mut().deadline = deadline,
        }
    }

    /// Checks a password by a simple bind. The name and the password must not be empty: that would be an anonymous
    /// bind, which succeeds without a check.
    pub(crate) fn bind(&mut self, name: &str, password: &str) -> Result<(), Failure> {
        assert!(!name.is_empty() && !password.is_empty(), "an anonymous bind proves nothing");
        let id = self.next_id();
        self.send(&message::bind(id, name, password))?;
        match self.receive(id)?.0 {
            Response::Bound(outcome) if outcome.code == code::SUCCESS => Ok(()),
            Response::Bound(outcome) => Err(Failure::Answer(outcome)),
            _ => Err(Failure::Network("the server answered a bind with another message".into())),
        }
    }

    /// Runs a search. References to parts of the tree on other servers are skipped: Active Directory adds them to each
    /// search at the root of a domain.
    pub(crate) fn search(
        &mut self,
        search: &Search,
        time: Duration,
    ) -> Result<Vec<Entry>, Failure> {
        let id = self.next_id();
        let seconds = u32::try_from(time.as_secs()).unwrap_or(0).max(1);
        self.send(&message::search(id, search, VALUES_MAX as u32, seconds))?;
        let (mut entries, mut bytes, mut values) = (Vec::new(), 0, 0);
        loop {
            let (response, length) = self.receive(id)?;
            bytes += length;
            match response {
                Response::Found(entry) => {
                    values += 1 + entry.value_count();
                    entries.push(entry);
                }
                Response::Reference => values += 1,
                Response::Done(outcome) if outcome.code == code::SUCCESS => return Ok(entries),
                Response::Done(outcome) => return Err(Failure::Answer(outcome)),
                _ => {
                    return Err(Failure::Network(
                        "the server answered a search with another message".into(),
                    ));
                }
            }
            if bytes > SEARCH_BYTES_MAX || values > VALUES_MAX {
                return Err(Failure::TooMuch(format!(
                    "the answer to a search has more than {SEARCH_BYTES_MAX} bytes or {VALUES_MAX} values"
                )));
            }
        }
    }

    fn next_id(&mut self) -> u32 {
        self.id = if self.id == i32::MAX as u32 { 1 } else { self.id + 1 };
        self.id
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        // Bytes without a request are of a server that is out of step.
        if !self.unread.is_empty() {
            return Err(Failure::Network("the server sent a message without a request".into()));
        }
        let sent = match &mut self.stream {
            Stream::Plain(socket) => socket.write_all(request),
            Stream::Tls(tls) => tls.write_all(request).and_then(|()| tls.flush()),
        };
        sent.map_err(|error| broken(&error))
    }

    /// The next answer to the request `id`, and its length in bytes.
    fn receive(&mut self, id: u32) -> Result<(Response, usize), Failure> {
        let not_ldap = |_| Failure::Network("the server's answer is not LDAP".to_owned());
        let (head, length) = loop {
            if self.unread.first().is_some_and(|tag| *tag != ber::SEQUENCE) {
                return Err(not_ldap(ber::Malformed));
            }
            if let Some(found) = ber::header(&self.unread).map_err(not_ldap)? {
                break found;
            }
            self.read_more(64 * 1024)?;
        };
        if length > MESSAGE_BYTES_MAX {
            return Err(Failure::Network(format!(
                "the server's answer has more than {MESSAGE_BYTES_MAX} bytes"
            )));
        }
        let end = head + length;
        while self.unread.len() < end {
            self.read_more(end - self.unread.len())?;
        }
        let response = message::response(&self.unread[head..end]).map_err(not_ldap)?;
        self.unread.drain(..end);
        match response {
            (_, Response::Disconnects(outcome)) => {
                Err(Failure::Network(format!("the server closes the connection: {}", outcome.text)))
            }
            (found, response) if u32::try_from(found) == Ok(id) => Ok((response, end)),
            _ => Err(Failure::Network("the server answered another request".into())),
        }
    }

    /// Reads some bytes, at most `most`.
    fn read_more(&mut self, most: usize) -> Result<(), Failure> {
        let mut buffer = [0; 16 * 1024];
        let most = most.min(buffer.len());
        let read = match &mut self.stream {
            Stream::Plain(socket) => socket.read(&mut buffer[..most]),
            Stream::Tls(tls) => tls.read(&mut buffer[..most]),
        };
        match read {
            Ok(0) => Err(Failure::Network("the server closed the connection".into())),
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Tells the server that the connection ends.
    pub(crate) fn close(mut self) {
        self.set_deadline(Instant::now() + Duration::from_millis(100));
        let id = self.next_id();
        let _ = self.send(&message::unbind(id));
    }
}

fn broken(error: &io::Error) -> Failure {
    Failure::Network(match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "the server did not answer in time".to_owned()
        }
        io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
        _ => error.to_string(),
    })
}
