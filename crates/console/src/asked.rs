//! A request, read as a whole.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, StatusCode};
use nagi_bson::{DocBuf, json};
use nagi_error::Code;

use crate::client::Client;
use crate::login_turn::Login;
use crate::refusal::Refusal;

/// The largest body: a command that writes a document.
pub(crate) const BODY_BYTES_MAX: usize = 2 << 20;
/// The time that a client has to send it.
const BODY_TIME_MAX: Duration = Duration::from_secs(20);

/// A request.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) client: Arc<Client>,
    /// The login that it tries: as such it waits for its turn.
    pub(crate) login: Option<Login>,
}

impl Asked {
    /// Reads the body.
    ///
    /// # Errors
    /// If it is too large, or does not come in time.
    pub(crate) async fn read(
        request: Request<Incoming>,
        peer: SocketAddr,
        local: SocketAddr,
        client: Arc<Client>,
    ) -> Result<Asked, Refusal> {
        let (head, body) = request.into_parts();
        let too_large = || {
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            Refusal::new(status, Code::BSON_OBJECT_TOO_LARGE, "The request is larger than 2 MiB")
        };
        // Not after it was waited for.
        if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
            return Err(too_large());
        }
        let collected =
            tokio::time::timeout(BODY_TIME_MAX, Limited::new(body, BODY_BYTES_MAX).collect());
        let body = match collected.await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(too_large());
            }
            Ok(Err(_)) => return Err(Refusal::bad_request("The request is not complete")),
            Err(_) => {
                let status = StatusCode::REQUEST_TIMEOUT;
                let text = "The request did not arrive in time";
                return Err(Refusal::new(status, Code::EXCEEDED_TIME_LIMIT, text));
            }
        };
        Ok(Asked {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or("").to_owned(),
            headers: head.headers,
            body,
            peer,
            local,
            client,
            login: None,
        })
    }

    /// The body as a document; the text may be in the shell's notation.
    ///
    /// # Errors
    /// If it is not one.
    pub(crate) fn json(&self) -> Result<DocBuf, Refusal> {
        let text = std::str::from_utf8(&self.body)
            .map_err(|_| Refusal::bad_request("The request is not UTF-8"))?;
        json::parse(text)
            .map_err(|why| Refusal::bad_request(format!("The request is not JSON: {why}")))
    }

    /// The value of a cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        self.headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find_map(|(own, value)| (own == name).then_some(value))
    }

    /// A parameter of the address, decoded.
    ///
    /// # Errors
    /// If it is not UTF-8 in percent encoding.
    pub(crate) fn parameter(&self, name: &str) -> Result<Option<String>, Refusal> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let Some((_, value)) = pairs.find(|(own, _)| *own == name) else { return Ok(None) };
        let text = decoded(value).and_then(|bytes| String::from_utf8(bytes).ok());
        let wrong = || Refusal::bad_request(format!("The parameter '{name}' is not UTF-8"));
        text.map(Some).ok_or_else(wrong)
    }

    /// A header's text.
    pub(crate) fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The bytes of a text in percent encoding.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push((high * 16 + low) as u8);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        assert_eq!(decoded("a%20b%C3%A9+%2f").unwrap(), "a b\u{e9}+/".as_bytes());
        for bad in ["%", "%2", "%zz", "a%-1", "%+1"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
