//! A connection to a KMIP server: one request, and one answer within a limit of time.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use nagi_tls::Connector;
use zeroize::Zeroizing;

use super::ttlv::{self, tag};
use crate::options::KmipOptions;

/// The limit of an answer: a key with its description takes some hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Connects, sends a message and reads the answer to it.
pub(super) fn exchange(
    options: &KmipOptions,
    server: &str,
    connector: &Connector,
    request: &[u8],
) -> Result<Zeroizing<Vec<u8>>, String> {
    let text = |error: std::io::Error| told(&error, options.timeout);
    let until = Instant::now() + options.timeout;
    let socket = connect(server, options.port, until)?;
    let socket = Timed { socket, until };
    let mut stream = connector.connect(server, socket)?;
    stream.write_all(request).and_then(|()| stream.flush()).map_err(text)?;
    let mut head = [0; 8];
    stream.read_exact(&mut head).map_err(text)?;
    let length = ttlv::length_of(head, tag::RESPONSE_MESSAGE).ok_or("it does not speak KMIP")?;
    if length > ANSWER_BYTES_MAX {
        return Err(format!("its answer has {length} bytes"));
    }
    let mut answer = Zeroizing::new(vec![0; length]);
    stream.read_exact(&mut answer).map_err(text)?;
    Ok(answer)
}

fn connect(server: &str, port: u16, until: Instant) -> Result<TcpStream, String> {
    let addresses = (server, port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut failure = "it has no address".to_owned();
    for address in addresses {
        let connected = left(until).and_then(|left| TcpStream::connect_timeout(&address, left));
        match connected {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error.to_string(),
        }
    }
    Err(failure)
}

/// The time until a deadline.
fn left(until: Instant) -> std::io::Result<Duration> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(std::io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// A socket with a deadline for everything: a server that sends a byte now and then does not delay the start for ever.
struct Timed {
    socket: TcpStream,
    until: Instant,
}

impl Read for Timed {
    fn read(&mut self, place: &mut [u8]) -> std::io::Result<usize> {
        self.socket.set_read_timeout(Some(left(self.until)?))?;
        self.socket.read(place)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.socket.set_write_timeout(Some(left(self.until)?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}

/// An error of a connection: the texts of the system and of the library for TLS do not say what happened.
fn told(error: &std::io::Error, timeout: Duration) -> String {
    use std::io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock,
    };
    match error.kind() {
        WouldBlock | TimedOut => {
            format!(
                "it has not answered within {} ms (security.kmip.connectTimeoutMS)",
                timeout.as_millis()
            )
        }
        UnexpectedEof | BrokenPipe | ConnectionReset | ConnectionAborted => {
            "it has closed the connection without an answer".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends a byte now and then does not reach the end of the time with each of them.
    #[test]
    fn the_time_is_that_of_the_whole_answer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let timeout = Duration::from_millis(200);
        let mut timed = Timed { socket, until: Instant::now() + timeout };
        std::thread::spawn(move || while peer.write_all(b"x").is_ok() {});
        let mut place = [0; 1];
        let error = loop {
            if let Err(error) = timed.read(&mut place) {
                break error;
            }
        };
        let text = told(&error, timeout);
        assert!(text.contains("has not answered within 200 ms"), "{text}");
        assert!(told(&std::io::ErrorKind::UnexpectedEof.into(), timeout).contains("has closed"));
    }
}
