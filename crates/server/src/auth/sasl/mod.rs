//! SASL conversations: the choice of a mechanism, and what all mechanisms have in common.
//!
//!   saslStart {mechanism, payload}  --> row of [`MECHANISMS`] --> Conversation --> step --> Answer
//!   saslContinue {payload}          --> the connection's Conversation          --> step --> Answer
//!   Answer with `done`              --> the connection is logged in as the conversation's user  (crate::core::login)
//!
//! Each mechanism is one file and one row. Reasons of failures are written to the log only; the client gets
//! "Authentication failed.".

mod oidc;
mod plain;
mod scram;

use nagi_bson::Doc;
use nagi_error::{Code, Error, Result, err};

use super::scram::{CredentialId, Mechanism as Hash};
use super::tokens::TokenLogin;
use super::{Auth, By};
use crate::names::{RoleName, UserName};
use crate::settings::params::Parameters;

/// A mechanism of `saslStart`.
pub(crate) struct Mechanism {
    pub(crate) by: By,
    start: fn(&Start<'_>) -> Box<dyn Exchange>,
}

/// What `saslStart` says besides the first message.
pub(crate) struct Start<'a> {
    /// The database of the user.
    pub(crate) db: &'a str,
    /// True if the client does without an empty message at the end.
    pub(crate) skip_empty_exchange: bool,
}

/// The mechanisms, by name.
static MECHANISMS: &[Mechanism] = &[
    Mechanism { by: By::Token, start: oidc::start },
    Mechanism { by: By::Plain, start: plain::start },
    Mechanism { by: By::Scram(Hash::Sha1), start: scram::start_sha1 },
    Mechanism { by: By::Scram(Hash::Sha256), start: scram::start_sha256 },
];

impl Mechanism {
    /// The mechanism with this name, if the parameter `authenticationMechanisms` lists it.
    pub(crate) fn enabled(name: &str, params: &Parameters) -> Option<&'static Mechanism> {
        let found = MECHANISMS.iter().find(|mechanism| mechanism.by.name() == name)?;
        params.lists("authenticationMechanisms", name).then_some(found)
    }
}

/// The server's side of one mechanism.
pub(crate) trait Exchange: Send {
    /// The user, once it is known. When the exchange is done, this is the user that was proved.
    fn user(&self) -> Option<&UserName>;

    /// Returns true if the next message shows or proves a secret, which a client could guess.
    fn shows_secret(&self) -> bool;

    /// Handles the next message of the client. An error ends the conversation; its text is for the log only.
    fn step(&mut self, auth: &Auth, payload: &[u8]) -> Result<Answer>;

    /// The roles that came with the proof. They replace those of the user's document, which need not exist.
    fn roles(&mut self) -> Option<Vec<RoleName>> {
        None
    }

    /// What the login depends on, if it was proved by a token.
    fn token(&self) -> Option<&TokenLogin> {
        None
    }

    /// The stored credential that the client knows, once the exchange is done; `None`: it is not stored here.
    fn credential(&self) -> Option<CredentialId> {
        None
    }

    /// What a token says that the log is to tell.
    fn claims(&self) -> Option<Doc<'_>> {
        None
    }
}

/// A conversation in progress.
pub(crate) struct Conversation {
    pub(crate) by: By,
    pub(crate) speculative: bool,
    pub(crate) exchange: Box<dyn Exchange>,
}

impl Conversation {
    pub(crate) fn new(mechanism: &Mechanism, start: &Start<'_>, speculative: bool) -> Conversation {
        Conversation { by: mechanism.by, speculative, exchange: (mechanism.start)(start) }
    }
}

/// The reply of a step.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) payload: Vec<u8>,
    pub(crate) done: bool,
}

/// The error of a failed login (18). `reason` is for the log.
fn failed(reason: &str) -> Error {
    err!(Code::AUTHENTICATION_FAILED, "{reason}")
}
