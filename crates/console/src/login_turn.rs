//! Whose turn a login waits for.

use std::net::IpAddr;

use crate::sessions::{Token, token_of};
use crate::visitors;

/// A login that is tried, before it has its turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Login {
    /// Tells the user at an address from all others. Clients of one address may be different people, as behind a
    /// proxy, and users may be tried by people who are not them.
    pub(crate) of: Token,
    /// A directory checks the password, which may take seconds.
    pub(crate) is_external: bool,
}

impl Login {
    /// The login of a user; `None`: the request does not say of which one.
    pub(crate) fn new(address: IpAddr, user: Option<(&str, &str)>) -> Login {
        let (name, db) = user.unwrap_or_default();
        // Names have no NUL.
        let of = token_of(&format!("{}\0{db}\0{name}", visitors::source(address)));
        Login { of, is_external: db == "$external" }
    }
}
