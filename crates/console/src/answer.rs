//! Replies, each with the headers that keep a browser from doing what the pages do not need.

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc::Receiver;

pub(crate) type Answer = Response<Content>;

/// The bytes of a reply: at once, or as they come.
pub(crate) enum Content {
    Whole(Option<Bytes>),
    Events(Receiver<Bytes>, Option<Held>),
}

/// What a reply holds until its last bytes are sent.
type Held = Box<dyn Any + Send + Sync>;

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|all| Ok(Frame::data(all)))),
            Content::Events(events, _) => {
                events.poll_recv(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |all| all.len() as u64))
            }
            Content::Events(..) => SizeHint::default(),
        }
    }
}

/// Scripts and styles come from this server only, nothing is fetched from elsewhere, no page may contain these, and
/// nothing is cached by anyone in between.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn guard(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

pub(crate) fn answer(status: StatusCode, kind: &'static str, content: Content) -> Answer {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    guard(response.headers_mut());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(crate) fn bytes_answer(kind: &'static str, bytes: impl Into<Bytes>) -> Answer {
    answer(StatusCode::OK, kind, Content::Whole(Some(bytes.into())))
}

pub(crate) fn json_answer(status: StatusCode, text: String) -> Answer {
    answer(status, "application/json", Content::Whole(Some(text.into())))
}

/// Says to a client that must log in how it may: by user and password in each request.
pub(crate) fn ask_for_basic(mut answer: Answer) -> Answer {
    if answer.status() == StatusCode::UNAUTHORIZED {
        let how = HeaderValue::from_static("Basic realm=\"Nagi\", charset=\"UTF-8\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, how);
    }
    answer
}

/// The bytes of a reply with what they hold until they are sent.
struct Tied<T> {
    bytes: Bytes,
    _held: T,
}

impl<T> AsRef<[u8]> for Tied<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The length of a reply that is there as a whole.
pub(crate) fn length(answer: &Answer) -> usize {
    match answer.body() {
        Content::Whole(Some(bytes)) => bytes.len(),
        Content::Whole(None) | Content::Events(..) => 0,
    }
}

/// Ties something to a reply, which is dropped when the last bytes are sent.
pub(crate) fn tied<T: Send + Sync + 'static>(answer: Answer, held: T) -> Answer {
    answer.map(|content| match content {
        Content::Whole(Some(bytes)) => {
            Content::Whole(Some(Bytes::from_owner(Tied { bytes, _held: held })))
        }
        Content::Whole(None) => Content::Whole(None),
        Content::Events(events, others) => Content::Events(events, Some(Box::new((held, others)))),
    })
}

/// Nothing to say, and a cookie to set or to forget.
pub(crate) fn cookie_answer(cookie: &str) -> Answer {
    let mut response = answer(StatusCode::NO_CONTENT, "application/json", Content::Whole(None));
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}
