//! What the fuzz target `tokens` calls: the parsers of documents that are fetched, without a fetch.

use nagi_bson::DocBuf;
use nagi_server::check_key_address;

use crate::fetch;
use crate::key::KeySet;
use crate::token::Token;

/// Reads a key set, and checks the signature of a token with it. Returns the keys as they are shown, and whether one of
/// them verifies the token.
///
/// # Errors
/// Why the set is refused.
pub fn verify_with(key_set: &[u8], token: &str) -> Result<(DocBuf, bool), String> {
    let mut number = 0;
    let set = KeySet::parse(key_set, &KeySet::default(), || {
        number += 1;
        number
    })?;
    let token = Token::parse(token)?;
    let is_verified = set.find(&token.key_id).is_some_and(|key| token.verify(key).is_ok());
    Ok((set.shown, is_verified))
}

/// The address of the keys from a discovery document, as far as it may be asked, also after a redirect to `next`.
///
/// # Errors
/// Why the document or the address is refused.
pub fn keys_address(document: &[u8], issuer: &str, next: &str) -> Result<String, String> {
    let address = fetch::keys_address(document, issuer, issuer)?;
    check_key_address(&address, false)?;
    let next = fetch::absolute(&address, next);
    check_key_address(&next, false)?;
    Ok(next)
}
