//! The engine over TiKV, in a program that was built with it (the feature `tikv`, decision 097).

use std::{path::Path, sync::Arc};

use nagi_kv::Engine;

/// Checks the address of a cluster, `tikv://HOST:PORT,HOST:PORT/PREFIX`. Asks nothing of it.
///
/// # Errors
/// What is wrong with it, for the operator.
#[cfg(feature = "tikv")]
pub fn check_address(address: &str) -> Result<(), String> {
    nagi_kv_tikv::Address::parse(address).map(drop)
}

/// Checks the address of a cluster.
///
/// # Errors
/// Always: this program cannot use one.
#[cfg(not(feature = "tikv"))]
pub fn check_address(_: &str) -> Result<(), String> {
    Err(ABSENT.to_owned())
}

#[cfg(not(feature = "tikv"))]
const ABSENT: &str = "this program was built without the client of TiKV; in a clone, `make build FEATURES=tikv` or \
    `cargo build --release -p nagi-app --features tikv` builds one with it";

/// Opens the engine. The folder, in which only spills and diagnostic data are stored, gets the mark of the engine:
/// a later start without `--storageEngine` must not look like one that has lost all data.
#[cfg(feature = "tikv")]
pub(crate) fn open(
    folder: &Path,
    address: &str,
    name: &'static str,
) -> nagi_kv::Result<Arc<dyn Engine>> {
    use nagi_kv_disk::marker;

    let wrong = |text: String| {
        nagi_kv::Error::Io(std::io::Error::new(std::io::ErrorKind::InvalidInput, text))
    };
    let address = nagi_kv_tikv::Address::parse(address).map_err(wrong)?;
    let engine = nagi_kv_tikv::open(&nagi_kv_tikv::Options::new(address, folder))?;
    marker::claim(folder, name)?;
    marker::write(folder, name)?;
    Ok(engine)
}

#[cfg(not(feature = "tikv"))]
pub(crate) fn open(_: &Path, _: &str, _: &str) -> nagi_kv::Result<Arc<dyn Engine>> {
    Err(nagi_kv::Error::other(ABSENT))
}

#[cfg(all(test, feature = "tikv"))]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_anything_is_asked() {
        assert!(check_address("tikv://pd").is_ok());
        assert!(check_address("pd").is_err_and(|error| error.contains("begins with tikv://")));
        let folder = nagi_testkit::Scratch::new();
        std::fs::create_dir_all(folder.path()).expect("it can be created");
        assert!(open(folder.path(), "tikv://", "tikv").is_err());
        assert!(!nagi_kv_disk::marker::may_hold_data(folder.path()));
    }
}
