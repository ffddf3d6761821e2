//! MONGODB-OIDC: the server's side of the conversation. Payloads are BSON documents.
//!
//!   {n: "principal"} or {}  -> {issuer, clientId, requestScopes}   where the client gets a token, if it needs to know
//!   {jwt: "token"}          -> (empty), done
//!
//! A client that has a token begins with the second message. The server verifies the token; it never sends it anywhere,
//! nor writes it anywhere.

use std::time::Duration;

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::Result;

use super::{Answer, Exchange, Start, failed};
use crate::auth::Auth;
use crate::auth::tokens::{Proved, TokenLogin};
use crate::names::{RoleName, UserName};

/// The longest message of a client. Tokens with hundreds of groups have some ten thousand bytes.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// The longest principal name by which a provider is chosen.
const PRINCIPAL_BYTES_MAX: usize = 1024;

/// A conversation in progress.
struct Oidc {
    is_external: bool,
    directed: bool,
    proved: Option<Proved>,
}

pub(super) fn start(start: &Start<'_>) -> Box<dyn Exchange> {
    Box::new(Oidc { is_external: start.db == "$external", directed: false, proved: None })
}

impl Exchange for Oidc {
    fn user(&self) -> Option<&UserName> {
        self.proved.as_ref().map(|proved| &proved.user)
    }

    /// A token is not guessed, but the check of a signature costs time, so floods of refused ones are slowed down.
    fn shows_secret(&self) -> bool {
        true
    }

    fn step(&mut self, auth: &Auth, payload: &[u8]) -> Result<Answer> {
        if !self.is_external {
            return Err(failed("MONGODB-OIDC must use the $external database"));
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(failed("The message with the token is too long"));
        }
        let message = DocBuf::from_bytes(payload.to_vec())
            .map_err(|_| failed("The message is not a BSON document"))?;
        match message.as_doc().get("jwt") {
            Value::String(token) => self.verify(auth, token),
            Value::Missing if !self.directed => self.direct(auth, message.as_doc()),
            _ => Err(failed("The message has no string 'jwt'")),
        }
    }

    fn roles(&mut self) -> Option<Vec<RoleName>> {
        self.proved.as_mut().and_then(|proved| proved.roles.take())
    }

    fn token(&self) -> Option<&TokenLogin> {
        self.proved.as_ref().map(|proved| &proved.login)
    }

    fn claims(&self) -> Option<Doc<'_>> {
        self.proved.as_ref().map(|proved| proved.claims.as_doc())
    }
}

impl Oidc {
    fn verify(&mut self, auth: &Auth, token: &str) -> Result<Answer> {
        let quiet = auth.params.int("JWKSMinimumQuiescePeriodSecs");
        let quiet = Duration::from_secs(u64::try_from(quiet).unwrap_or(0));
        self.proved = Some(auth.tokens.verify(token, quiet)?);
        Ok(Answer { payload: Vec::new(), done: true })
    }

    fn direct(&mut self, auth: &Auth, message: Doc<'_>) -> Result<Answer> {
        let principal = match message.get("n") {
            Value::String(name) if name.len() <= PRINCIPAL_BYTES_MAX => Some(name),
            Value::Missing | Value::Null => None,
            _ => return Err(failed("The principal name is no string, or too long")),
        };
        let provider = auth.tokens.choose(principal)?;
        self.directed = true;
        let reply = DocBuf::build(|out| {
            out.put("issuer", provider.issuer.as_str());
            if let Some(client) = &provider.client_id {
                out.put("clientId", client.as_str());
            }
            if !provider.request_scopes.is_empty() {
                out.array("requestScopes", |out| {
                    provider.request_scopes.iter().for_each(|scope| out.push(scope.as_str()));
                });
            }
        });
        Ok(Answer { payload: reply.as_doc().as_bytes().to_vec(), done: false })
    }
}
