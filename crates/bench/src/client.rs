//! A minimal blocking client connection that sends prepared frames and reads replies.
//!
//! A frame is a header, flag bits and one body section. [`frame`] builds it once. A load then patches the bytes
//! that change (request id, `_id`) in place and sends the frame with one write.
use crate::args::{Outcome, Problem, failed};
use nagi_bson::{Doc, DocBuf, Value, doc};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

const HEADER_BYTES: usize = 16;
/// Offset of the body in a message.
pub(crate) const BODY_AT: usize = 21;
const OP_MSG: i32 = 2013;
/// Maximum length of a reply. No command of this program has a longer one.
const REPLY_BYTES_MAX: usize = 48_000_000;
/// Read timeout: a server that sends nothing for this long is considered hung.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Returns `HOST:PORT` of a `mongodb://` URI; the rest of the URI is ignored.
pub(crate) fn address(uri: &str) -> Outcome<String> {
    let rest = uri.strip_prefix("mongodb://").unwrap_or(uri);
    let host = rest.split(['/', '?', ',']).next().unwrap_or("");
    if host.is_empty() || host.contains('@') {
        return Err(Problem::Usage(format!("`{uri}`: mongodb://HOST:PORT without login\n")));
    }
    Ok(if host.contains(':') { host.to_owned() } else { format!("{host}:27017") })
}

/// Builds an OP_MSG with one body section.
pub(crate) fn frame(body: Doc<'_>) -> Vec<u8> {
    let body = body.as_bytes();
    let mut out = Vec::with_capacity(BODY_AT + body.len());
    for number in [(BODY_AT + body.len()) as i32, 1, 0, OP_MSG, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(0);
    out.extend_from_slice(body);
    out
}

pub(crate) struct Connection {
    stream: Stream,
    buffer: Vec<u8>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => &stream.sock,
        }
    }
}

impl Connection {
    pub(crate) fn open(address: &str) -> Outcome<Connection> {
        let stream = TcpStream::connect(address).map_err(failed(address))?;
        stream.set_nodelay(true).map_err(failed("TCP_NODELAY"))?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(failed("read timeout"))?;
        Ok(Connection { stream: Stream::Plain(stream), buffer: vec![0; 64 << 10] })
    }

    /// Opens a connection with TLS.
    pub(crate) fn open_tls(address: &str, config: &Arc<ClientConfig>) -> Outcome<Connection> {
        let plain = Connection::open(address)?;
        let Connection { stream: Stream::Plain(socket), buffer } = plain else {
            return Ok(plain);
        };
        let name = ServerName::try_from("localhost").map_err(failed("the server's name"))?;
        let tls = ClientConnection::new(config.clone(), name).map_err(failed("TLS"))?;
        let stream = Stream::Tls(Box::new(StreamOwned::new(tls, socket)));
        Ok(Connection { stream, buffer })
    }

    /// Sets a longer read timeout, for commands that run for minutes before they reply.
    pub(crate) fn be_patient(&self, silence_max: Duration) -> Outcome {
        self.stream.socket().set_read_timeout(Some(silence_max)).map_err(failed("read timeout"))
    }

    /// Sends a whole frame and returns the whole reply frame, which is borrowed until the next call.
    pub(crate) fn call(&mut self, frame: &[u8]) -> std::io::Result<&[u8]> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(frame)?,
            Stream::Tls(stream) => stream.write_all(frame)?,
        }
        let mut have = 0;
        loop {
            let place = &mut self.buffer[have..];
            let got = match &mut self.stream {
                Stream::Plain(stream) => stream.read(place)?,
                Stream::Tls(stream) => stream.read(place)?,
            };
            if got == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            have += got;
            if let Some(length) = self.buffer[..have].first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if !(HEADER_BYTES..=REPLY_BYTES_MAX).contains(&length) || have > length {
                    return Err(std::io::ErrorKind::InvalidData.into());
                }
                if have == length {
                    return Ok(&self.buffer[..length]);
                }
                if self.buffer.len() < length {
                    self.buffer.resize(length, 0);
                }
            }
        }
    }

    /// Runs a command and returns the reply's document, whether its `ok` is 1 or 0.
    pub(crate) fn command(&mut self, body: Doc<'_>) -> std::io::Result<DocBuf> {
        let reply = self.call(&frame(body))?;
        let body = reply.get(BODY_AT..).unwrap_or(&[]);
        DocBuf::from_bytes(body.to_vec())
            .map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e.to_string()))
    }

    /// Runs a command that returns a cursor and reads the cursor to its end. Calls the function once for each
    /// document and returns the number of documents. `getMore` is sent to the command's database.
    pub(crate) fn each(
        &mut self,
        command: Doc<'_>,
        collection: &str,
        mut look: impl FnMut(Doc<'_>) -> Outcome,
    ) -> Outcome<u64> {
        let Value::String(database) = command.get("$db") else {
            return Err(Problem::Failed("a command without $db".to_owned()));
        };
        let (mut count, mut batch) = (0, "firstBatch");
        let mut reply = self.expect(command)?;
        loop {
            let Value::Doc(cursor) = reply.get("cursor") else {
                return Err(Problem::Failed("a reply without a cursor".to_owned()));
            };
            if let Value::Array(docs) = cursor.get(batch) {
                for value in docs.iter() {
                    count += 1;
                    if let Value::Doc(doc) = value {
                        look(doc)?;
                    }
                }
            }
            let id = integer(cursor.get("id")).unwrap_or(0);
            if id == 0 {
                return Ok(count);
            }
            batch = "nextBatch";
            let more = doc! { "getMore": (id), "collection": collection, "$db": database };
            reply = self.expect(more.as_doc())?;
        }
    }

    /// Runs a command that must succeed.
    pub(crate) fn expect(&mut self, body: Doc<'_>) -> Outcome<DocBuf> {
        let reply = self.command(body).map_err(failed("command"))?;
        match complaint(reply.as_doc()) {
            None => Ok(reply),
            Some(text) => {
                let name = body.first().map_or("", |first| first.name());
                Err(Problem::Failed(format!("{name}: {text:.600}")))
            }
        }
    }
}

/// The error in a reply: the command's error, or its first write error.
pub(crate) fn complaint(reply: Doc<'_>) -> Option<String> {
    if !is_one(reply.get("ok")) {
        return Some(format!("{reply:?}"));
    }
    match reply.get("writeErrors") {
        Value::Array(errors) if errors.count() > 0 => Some(format!("{reply:?}")),
        _ => None,
    }
}

pub(crate) fn is_one(value: Value<'_>) -> bool {
    matches!(value, Value::Double(1.0) | Value::Int32(1) | Value::Int64(1) | Value::Bool(true))
}

/// An integer of a reply, whatever its width.
pub(crate) fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(n) => Some(n.into()),
        Value::Int64(n) => Some(n),
        Value::Double(n) if n.fract() == 0.0 && n.abs() < 9e15 => Some(n as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(address("mongodb://a:1/x?y").unwrap(), "a:1");
        assert_eq!(address("mongodb://a").unwrap(), "a:27017");
        assert!(address("mongodb://u:p@a").is_err());
    }

    #[test]
    fn frames_have_their_length() {
        let built = frame(doc! { "ping": 1 }.as_doc());
        assert_eq!(built[..4], (built.len() as i32).to_le_bytes());
        assert_eq!(built[12..16], 2013_i32.to_le_bytes());
    }
}
