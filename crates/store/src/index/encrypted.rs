//! Which indexes a collection with encrypted fields (Queryable Encryption) may have.

use nagi_error::{Code, Error, Result, bail, err};
use nagi_lang::filter::EncryptedFields;

use super::IndexSpec;

impl IndexSpec {
    /// Refuses an index on an encrypted field, or above or below one: no query could use it, and with `unique` it
    /// would be of no effect, because equal values are stored differently. Documents do not expire: their tags in the
    /// state collections would be left.
    ///
    /// # Errors
    /// 6346501 for an index with an expiry, 6346502 for one on an encrypted field.
    pub(crate) fn check_encrypted(&self, fields: &EncryptedFields) -> Result<()> {
        if self.expire_after_seconds.is_some() {
            return Err(IndexSpec::ttl_of_encrypted());
        }
        match self.key.iter().find_map(|part| fields.covered_by_index(&part.path)) {
            None => Ok(()),
            Some(path) => bail!(
                Code::Location(6_346_502),
                "Index not allowed on, or a prefix of, the encrypted field {path}"
            ),
        }
    }

    /// An index of a collection with encrypted fields may not have an expiry.
    #[cold]
    pub(crate) fn ttl_of_encrypted() -> Error {
        err!(Code::Location(6_346_501), "TTL indexes are not allowed on encrypted collections")
    }
}
