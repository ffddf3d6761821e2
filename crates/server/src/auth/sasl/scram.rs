//! SCRAM-SHA-1 and SCRAM-SHA-256: the server's side of the conversation, step by step.
//!
//!   client-first  "n,,n=user,r=nonce"        -> server-first "r=noncemore,s=salt,i=count"
//!   client-final  "c=biws,r=noncemore,p=..." -> server-final "v=signature"
//!   (empty)                                  -> (empty), unless the client skips that exchange
//!
//! For a user that does not exist a credential is made up (`decoys`), so that neither the replies nor their timing
//! reveal this.

use nagi_bson::json::{base64_decode, base64_encode};
use nagi_error::{Code, Result, bail};

use super::{Answer, Exchange, Start, failed};
use crate::auth::scram::{Credential, CredentialId, Mechanism};
use crate::auth::{Auth, users};
use crate::names::UserName;
use crate::random::random_bytes;

/// The longest message of a client. Names and nonces are short.
const PAYLOAD_BYTES_MAX: usize = 8 * 1024;

/// A conversation in progress.
struct Scram {
    mechanism: Mechanism,
    /// The user; known after the first message.
    user: Option<UserName>,
    db: Box<str>,
    skip_empty_exchange: bool,
    step: Step,
    /// The credential that the client has proved to know.
    proved: Option<CredentialId>,
}

enum Step {
    First,
    Final(Box<Challenge>),
    /// The password was correct; the client still has to send its empty message.
    Empty,
}

/// The content of the server-first message, and the data to check the client's answer.
struct Challenge {
    /// The GS2 header in base64; the client must repeat it.
    channel: String,
    nonce: String,
    /// `client-first-bare "," server-first ","`.
    message: String,
    /// False if the user does not exist and the credential is made up.
    known: bool,
    credential: Credential,
}

pub(super) fn start_sha1(start: &Start<'_>) -> Box<dyn Exchange> {
    Box::new(Scram::new(Mechanism::Sha1, start))
}

pub(super) fn start_sha256(start: &Start<'_>) -> Box<dyn Exchange> {
    Box::new(Scram::new(Mechanism::Sha256, start))
}

impl Exchange for Scram {
    fn user(&self) -> Option<&UserName> {
        self.user.as_ref()
    }

    fn shows_secret(&self) -> bool {
        matches!(self.step, Step::Final(_))
    }

    fn credential(&self) -> Option<CredentialId> {
        self.proved
    }

    fn step(&mut self, auth: &Auth, payload: &[u8]) -> Result<Answer> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(failed("SCRAM message is too long"));
        }
        match std::mem::replace(&mut self.step, Step::Empty) {
            Step::First => self.first(auth, text(payload)?),
            Step::Final(challenge) => self.last(&challenge, text(payload)?),
            // The client has proved the password. What it sends now is ignored, as by mongod: drivers for Java before 4
            // repeat the server's last message instead of sending nothing.
            Step::Empty => Ok(Answer { payload: Vec::new(), done: true }),
        }
    }
}

impl Scram {
    fn new(mechanism: Mechanism, start: &Start<'_>) -> Scram {
        Scram {
            mechanism,
            user: None,
            db: start.db.into(),
            skip_empty_exchange: start.skip_empty_exchange,
            step: Step::First,
            proved: None,
        }
    }

    fn first(&mut self, auth: &Auth, message: &str) -> Result<Answer> {
        let first = ClientFirst::parse(message)?;
        let user = UserName::new(&first.user, &self.db);
        self.user = Some(user.clone());
        let (known, credential) = users::credential(auth, &user, self.mechanism)?;
        let mut nonce = first.nonce.to_owned();
        base64_encode(&mut nonce, &[random_bytes()?, random_bytes()?].concat()[..24]);
        let mut reply = format!("r={nonce},s=");
        base64_encode(&mut reply, &credential.salt);
        reply.push_str(&format!(",i={}", credential.iteration_count));
        let mut channel = String::new();
        base64_encode(&mut channel, first.header.as_bytes());
        let message = format!("{},{reply},", first.bare);
        self.step = Step::Final(Box::new(Challenge { channel, nonce, message, known, credential }));
        Ok(Answer { payload: reply.into_bytes(), done: false })
    }

    fn last(&mut self, challenge: &Challenge, message: &str) -> Result<Answer> {
        let (without_proof, proof) = message
            .rsplit_once(",p=")
            .ok_or_else(|| failed("Incorrect SCRAM client-final message: no proof"))?;
        let mut parts = without_proof.split(',');
        let channel = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        if channel != Some(&challenge.channel) {
            return Err(failed("Incorrect SCRAM channel binding"));
        }
        if nonce != Some(&challenge.nonce) {
            return Err(failed("Unmatched SCRAM nonce received from client in second step"));
        }
        let proof = base64_decode(proof)
            .ok_or_else(|| failed("Incorrect SCRAM client proof: no base64"))?;
        let mut signed = challenge.message.clone();
        signed.push_str(without_proof);
        let right = self.mechanism.verify(&challenge.credential, signed.as_bytes(), &proof);
        if !right || !challenge.known {
            return Err(failed(match challenge.known {
                true => "SCRAM authentication failed, storedKey mismatch",
                false => "UserNotFound: Could not find the user",
            }));
        }
        self.proved = Some(challenge.credential.id(self.mechanism));
        let signature = self.mechanism.hmac(&challenge.credential.server_key, signed.as_bytes());
        let mut reply = "v=".to_owned();
        base64_encode(&mut reply, &signature);
        Ok(Answer { payload: reply.into_bytes(), done: self.skip_empty_exchange })
    }
}

fn text(payload: &[u8]) -> Result<&str> {
    std::str::from_utf8(payload).map_err(|_| failed("SCRAM message is not UTF-8"))
}

/// The parts of a client-first message.
struct ClientFirst<'m> {
    /// `n,,` or `n,a=user,`.
    header: &'m str,
    bare: &'m str,
    user: String,
    nonce: &'m str,
}

impl<'m> ClientFirst<'m> {
    fn parse(message: &'m str) -> Result<ClientFirst<'m>> {
        let mut commas = message.match_indices(',').map(|(at, _)| at);
        let (Some(_), Some(second)) = (commas.next(), commas.next()) else {
            bail!(Code::AUTHENTICATION_FAILED, "Incorrect number of arguments for SCRAM message");
        };
        let (header, bare) = message.split_at(second + 1);
        let mut gs2 = header.split(',');
        match gs2.next() {
            Some("n") => {}
            Some(flag) if flag.starts_with("p=") => {
                return Err(failed("Server does not support channel binding"));
            }
            _ => return Err(failed("Incorrect SCRAM client message prefix")),
        }
        let identity = gs2.next().unwrap_or("");
        let mut fields = bare.split(',');
        let user = fields.next().and_then(|field| field.strip_prefix("n="));
        let nonce = fields.next().and_then(|field| field.strip_prefix("r="));
        let (Some(user), Some(nonce)) = (user, nonce) else {
            bail!(Code::AUTHENTICATION_FAILED, "Invalid SCRAM user name or client nonce");
        };
        if user.is_empty() || nonce.is_empty() {
            return Err(failed("Empty SCRAM user name or client nonce"));
        }
        if !identity.is_empty() && identity.strip_prefix("a=") != Some(user) {
            return Err(failed("SCRAM user name does not match the authorization identity"));
        }
        Ok(ClientFirst { header, bare, user: unescape(user)?, nonce })
    }
}

/// Decodes a user name: `=2C` is a comma, `=3D` an equals sign. Any other `=` is refused.
fn unescape(name: &str) -> Result<String> {
    let mut parts = name.split('=');
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let (sign, rest) = match part.as_bytes() {
            [b'2', b'C', ..] => (',', &part[2..]),
            [b'3', b'D', ..] => ('=', &part[2..]),
            _ => return Err(failed("Invalid escape in a SCRAM user name")),
        };
        out.push(sign);
        out.push_str(rest);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_client_first() {
        let first = ClientFirst::parse("n,,n=a=2Cb=3Dc,r=xyz").unwrap();
        assert_eq!((first.header, first.nonce), ("n,,", "xyz"));
        assert_eq!((first.user.as_str(), first.bare), ("a,b=c", "n=a=2Cb=3Dc,r=xyz"));
        assert!(ClientFirst::parse("n,a=u,n=u,r=x").is_ok());
        for bad in [
            "",
            "n",
            "n,,",
            "n,,n=u",
            "n,,n=,r=x",
            "n,,n=u,r=",
            "p=tls-unique,,n=u,r=x",
            "y,,n=u,r=x",
            "n,a=v,n=u,r=x",
            "n,,n=a=2D,r=x",
            "n,,n=a=,r=x",
            "n,,m=1,n=u,r=x",
        ] {
            assert!(ClientFirst::parse(bad).is_err(), "{bad}");
        }
    }

    /// Any message of a client is parsed or refused; none causes a panic.
    #[test]
    fn survives_any_message() {
        let pieces =
            ["n", ",", "=", "a", "r", "2C", "3D", "p", "y", "x", "\u{e9}", "\0", "n,,n=u,r=x"];
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..20_000 {
            let mut message = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                message.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            }
            if let Ok(first) = ClientFirst::parse(&message) {
                assert!(message.starts_with(first.header) && message.ends_with(first.bare));
                assert!(!first.user.is_empty() && !first.nonce.is_empty());
            }
        }
    }
}
