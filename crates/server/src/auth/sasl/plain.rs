//! PLAIN (RFC 4616): the client sends its password, and a directory (LDAP) checks it.
//!
//!   [identity] NUL user NUL password   -> (empty), done
//!
//! The user is of the database `$external`. The password is visible to everyone who can read the connection, so the
//! connection should have TLS.

use nagi_error::{Code, Result, err};

use super::{Answer, Exchange, Start, failed};
use crate::auth::Auth;
use crate::directory::DirectoryError;
use crate::names::{EXTERNAL, UserName};

/// The longest message of a client: two names and a password.
const PAYLOAD_BYTES_MAX: usize = 8 * 1024;

struct Plain {
    db: Box<str>,
    user: Option<UserName>,
    is_done: bool,
}

pub(super) fn start(start: &Start<'_>) -> Box<dyn Exchange> {
    Box::new(Plain { db: start.db.into(), user: None, is_done: false })
}

impl Exchange for Plain {
    fn user(&self) -> Option<&UserName> {
        self.user.as_ref()
    }

    fn shows_secret(&self) -> bool {
        true
    }

    fn step(&mut self, auth: &Auth, payload: &[u8]) -> Result<Answer> {
        if std::mem::replace(&mut self.is_done, true) {
            return Err(failed("Unexpected payload after the PLAIN conversation"));
        }
        let (user, password) = parse(payload)?;
        self.user = Some(UserName::new(user, &self.db));
        if &*self.db != EXTERNAL {
            return Err(failed("PLAIN authentication must use the $external database"));
        }
        let Some(directory) = auth.directory.directory() else {
            return Err(failed(
                "PLAIN authentication needs LDAP: security.ldap.servers is not set",
            ));
        };
        match directory.authenticate(user, password) {
            Ok(()) => Ok(Answer { payload: Vec::new(), done: true }),
            Err(DirectoryError::Refused(why)) => Err(failed(&why)),
            Err(DirectoryError::Unavailable(why)) => {
                Err(err!(Code::OPERATION_FAILED, "LDAP could not check the password: {why}"))
            }
        }
    }
}

/// The user and the password in a message. Neither is empty.
fn parse(payload: &[u8]) -> Result<(&str, &str)> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(failed("PLAIN message is too long"));
    }
    let text = std::str::from_utf8(payload).map_err(|_| failed("PLAIN message is not UTF-8"))?;
    let mut parts = text.split('\0');
    let (Some(identity), Some(user), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(failed("Incorrect PLAIN message: it has not three parts"));
    };
    if !identity.is_empty() && identity != user {
        return Err(failed("SASL authorization identity must match authentication identity"));
    }
    match (user, password) {
        ("", _) => Err(failed("Incorrect PLAIN message: the user is empty")),
        // Directories take this for an anonymous login, which succeeds.
        (_, "") => Err(failed("Incorrect PLAIN message: the password is empty")),
        both => Ok(both),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_messages() {
        assert_eq!(parse(b"\0ann\0secret").unwrap(), ("ann", "secret"));
        assert_eq!(parse(b"ann\0ann\0s=,\\").unwrap(), ("ann", "s=,\\"));
        assert_eq!(parse("\0\u{e9}\0\u{df}".as_bytes()).unwrap(), ("\u{e9}", "\u{df}"));
        let long = [b"\0ann\0".to_vec(), vec![b'x'; PAYLOAD_BYTES_MAX]].concat();
        for bad in [
            &b""[..],
            b"\0",
            b"\0\0",
            b"\0ann\0",
            b"\0\0secret",
            b"bob\0ann\0secret",
            b"\0ann\0secret\0",
            b"\0ann\0sec\0ret",
            b"ann",
            b"\0ann\0\xFF",
            &long,
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    /// Any message of a client is parsed or refused; a parsed one has exactly the two texts that were sent.
    #[test]
    fn survives_any_message() {
        let pieces: [&[u8]; 9] =
            [b"\0", b"a", b"\0\0", b"ann", b"\xC3\xA9", b"\xC3", b"*)(uid=*", b",", b"\xFF"];
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut parsed_count = 0;
        for _ in 0..50_000 {
            let mut message = Vec::new();
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                message.extend_from_slice(pieces[(state >> 33) as usize % pieces.len()]);
            }
            if let Ok((user, password)) = parse(&message) {
                parsed_count += 1;
                assert!(!user.is_empty() && !password.is_empty());
                assert!(message.ends_with(format!("\0{user}\0{password}").as_bytes()));
            }
        }
        assert!(parsed_count > 10, "{parsed_count}");
    }
}
