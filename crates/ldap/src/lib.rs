//! LDAP: passwords of users are checked, and their groups are found, by the servers of a directory.
//!
//! ```text
//!   saslStart, PLAIN --> nagi_server --> trait Directory --> Ldap --> slots, pool --> Connection --> message, ber
//!   options --> Settings: servers, mapping (names of users), query and filter (groups)
//! ```
//!
//! Invariants
//! - A text of a client is never parsed as a part of a filter or of a query: it is a value in a parsed filter, and in a
//!   distinguished name it is escaped.
//! - Answers of servers are bounded in bytes, values and time, and reading them does not recurse.
//! - A user without a password, or without a name, is refused without a request to a server.
//! - Passwords are in memory that is zeroed, and in no message.
//! - Referrals and aliases are not followed.

mod ber;
mod connection;
mod dn;
mod filter;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod hosts;
mod ldap;
mod mapping;
mod message;
mod placeholder;
mod pool;
mod query;
mod settings;
mod slots;
mod trial;

pub use ldap::Ldap;
pub use settings::{LdapOptions, check};
pub use trial::{Step, Verdict};
