//! The version of the layout, in the store under a key of its own: written by the first process that opens a prefix,
//! checked by all others.

use std::{io, sync::Arc};

use nagi_kv::{Error, Result};

use crate::{
    client::{Change, Page},
    core::Core,
};

const TEXT: &[u8] = b"nagi kv-tikv format ";
const VERSION: u32 = 1;
/// Attempts against other processes that open the same new prefix.
const ATTEMPTS: usize = 10;

/// Checks the version, and writes it if nothing is stored under the prefix.
///
/// # Errors
/// If the prefix is used by another program or another version of this one.
pub(crate) fn check(core: &Arc<Core>) -> Result<()> {
    let key = core.layout.format_key();
    for _ in 0..ATTEMPTS {
        let begun = core.client.begin()?;
        if let Some(stored) = core.client.get(begun.version(), key.clone())? {
            return check_text(&core.options.address.prefix, &stored);
        }
        let (from, to) = core.layout.all();
        let page = Page { from, to, limit: 1, reverse: false, keys_only: true };
        if !core.client.scan(begun.version(), page)?.is_empty() {
            return Err(foreign(&core.options.address.prefix));
        }
        let text = [TEXT, VERSION.to_string().as_bytes()].concat();
        match core.client.commit(begun, vec![Change::Put(key.clone(), text)]) {
            // Another process was first, or it is not known if this one was: read again.
            Err(Error::Conflict | Error::Undetermined) => {}
            other => return other.map(|_| ()),
        }
    }
    Err(Error::other("the version of the format could not be written: too many conflicts"))
}

fn check_text(prefix: &str, stored: &[u8]) -> Result<()> {
    let number = stored.strip_prefix(TEXT).and_then(|number| std::str::from_utf8(number).ok());
    match number.and_then(|number| number.parse::<u32>().ok()) {
        Some(VERSION) => Ok(()),
        Some(other) => Err(refused(format!(
            "the data under the prefix '{prefix}' of TiKV have format {other}; this program has {VERSION}"
        ))),
        None => Err(foreign(prefix)),
    }
}

fn foreign(prefix: &str) -> Error {
    refused(format!("the prefix '{prefix}' of TiKV is in use by another program"))
}

/// Data that are not of this program, or not of this version: what the other engines return for those of a folder.
fn refused(text: String) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::InvalidData, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        assert!(check_text("p", b"nagi kv-tikv format 1").is_ok());
        for (text, why) in [
            (&b"nagi kv-tikv format 2"[..], "have format 2; this program has 1"),
            (b"nagi kv-tikv format x", "another program"),
            (b"\xff", "another program"),
            (b"", "another program"),
        ] {
            let error = check_text("p", text).expect_err("not this version").to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
