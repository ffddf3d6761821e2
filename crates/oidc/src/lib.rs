//! Tokens of identity providers, for MONGODB-OIDC: JSON web tokens (RFC 7519), verified with keys that are fetched from
//! the providers.
//!
//! ```text
//!   oidcIdentityProviders --> Trust: providers, and one Source of keys per issuer
//!                                |                       |  fetch: a file, or HTTPS (poll, or an unknown key)
//!   a token --> Token: header and claims --> provider --> KeySet --> signature
//!                                                             |
//!                                                        TokenIdentity: user, roles, end --> `nagi_server`
//! ```
//!
//! Invariants
//! - A token is data of a stranger until its signature is verified: its length is bounded before it is decoded, its
//!   JSON is that of RFC 8259 without names that come twice, and of its claims only issuer, audience and times are
//!   looked at.
//! - A key says for which algorithms it may be used; a token only chooses among them. Keys of symmetric algorithms are
//!   never held, so a public key cannot be taken for a secret.
//! - No login fetches keys itself. A source fetches once at a time, and bounds time, size and redirects.
//! - Keys that cannot be fetched leave the old ones in place.
//! - Nothing of a token is logged here. The reason of a refusal, which the log gets and the client does not, has its
//!   issuer, audience, key id and user, bounded and without characters that cannot be printed.

mod algorithm;
mod claims;
mod fetch;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod json;
mod key;
mod source;
#[cfg(test)]
mod tests;
mod token;
mod trust;

pub use trust::Trust;
