//! Errors of the interface itself. Errors of commands are their replies.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use nagi_bson::{Doc, DocBuf, json};
use nagi_error::Code;

use crate::answer::{Answer, json_answer};

/// A request that is refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    code: i32,
    code_name: String,
    message: String,
    /// How long the client must wait for it.
    pub(crate) delay: Duration,
    /// A login that was remembered has ended: the request may be repeated as one that logs in.
    pub(crate) is_login_ended: bool,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: Code, message: impl Into<String>) -> Refusal {
        Refusal {
            status,
            code: code.0,
            code_name: code.name().into_owned(),
            message: message.into(),
            delay: Duration::ZERO,
            is_login_ended: false,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, Code::BAD_VALUE, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, Code::UNAUTHORIZED, message)
    }

    pub(crate) fn login_required() -> Refusal {
        let text = "Log in as a user of the database first";
        Refusal::new(StatusCode::UNAUTHORIZED, Code::UNAUTHORIZED, text)
    }

    pub(crate) fn login_ended() -> Refusal {
        Refusal { is_login_ended: true, ..Refusal::login_required() }
    }

    pub(crate) fn busy(message: impl Into<String>) -> Refusal {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Refusal::new(status, Code::OPERATION_FAILED, message)
    }

    /// The error of a command's reply.
    pub(crate) fn of_reply(status: StatusCode, reply: Doc<'_>) -> Refusal {
        let text = |name: &str| reply.get(name).as_str().unwrap_or("").to_owned();
        let code = nagi_bson::number::as_f64(reply.get("code")).unwrap_or(0.0) as i32;
        let (code_name, message) = (text("codeName"), text("errmsg"));
        Refusal { code, code_name, message, ..Refusal::new(status, Code::OPERATION_FAILED, "") }
    }

    /// The same refusal, which the client gets after this time.
    pub(crate) fn after(self, delay: Duration) -> Refusal {
        Refusal { delay, ..self }
    }

    pub(crate) fn answer(&self) -> Answer {
        let body = DocBuf::build(|out| {
            out.doc("error", |error| {
                error.put("code", self.code);
                error.put("codeName", self.code_name.as_str());
                error.put("message", self.message.as_str());
            });
        });
        let mut answer = json_answer(self.status, json::to_relaxed(body.as_doc()));
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }
}
