//! The engine over TiKV, in a program that was built with it (the feature `tikv`, decision 097).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nagi_kv::Engine;

/// A cluster of TiKV.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// `tikv://HOST:PORT,HOST:PORT/PREFIX`.
    pub address: String,
    /// Connections to it are encrypted.
    pub tls: Option<ClusterTls>,
    pub garbage: ClusterGarbage,
}

/// Whether this server has old versions removed, where nothing else in the cluster does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClusterGarbage {
    /// Unless TiDB has ever done so.
    #[default]
    Auto,
    /// Unless servers of TiDB run.
    Always,
    Never,
}

/// Files in PEM for connections to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterTls {
    /// The authorities of the certificates of the cluster.
    pub ca: PathBuf,
    /// The certificate of this server for the cluster.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Cluster {
    /// Checks its address. Asks nothing of it.
    ///
    /// # Errors
    /// What is wrong with it, for the operator.
    #[cfg(feature = "tikv")]
    pub fn check_address(&self) -> Result<(), String> {
        nagi_kv_tikv::Address::parse(&self.address).map(drop)
    }

    /// Checks its address.
    ///
    /// # Errors
    /// Always: this program cannot use one.
    #[cfg(not(feature = "tikv"))]
    pub fn check_address(&self) -> Result<(), String> {
        Err(ABSENT.to_owned())
    }
}

#[cfg(not(feature = "tikv"))]
const ABSENT: &str = "this program was built without the client of TiKV; in a clone, `make build FEATURES=tikv` or \
    `cargo build --release -p nagi-app --features tikv` builds one with it";

/// Opens the engine. The folder, in which only spills and diagnostic data are stored, gets the mark of the engine:
/// a later start without `--storageEngine` must not look like one that has lost all data.
#[cfg(feature = "tikv")]
pub(crate) fn open(
    folder: &Path,
    cluster: &Cluster,
    name: &'static str,
) -> nagi_kv::Result<Arc<dyn Engine>> {
    use nagi_kv_disk::marker;

    let wrong = |text: String| {
        nagi_kv::Error::Io(std::io::Error::new(std::io::ErrorKind::InvalidInput, text))
    };
    let address = nagi_kv_tikv::Address::parse(&cluster.address).map_err(wrong)?;
    let mut options = nagi_kv_tikv::Options::new(address, folder);
    if let Some(ClusterTls { ca, cert, key }) = cluster.tls.clone() {
        let tls = nagi_kv_tikv::Tls { ca, cert, key };
        tls.check().map_err(|why| wrong(format!("encrypted connections to TiKV: {why}")))?;
        options.tls = Some(tls);
    }
    options.garbage.mode = match cluster.garbage {
        ClusterGarbage::Auto => nagi_kv_tikv::Collects::Unless,
        ClusterGarbage::Always => nagi_kv_tikv::Collects::Always,
        ClusterGarbage::Never => nagi_kv_tikv::Collects::Never,
    };
    let engine = nagi_kv_tikv::open(&options)?;
    marker::claim(folder, name)?;
    marker::write(folder, name)?;
    Ok(engine)
}

#[cfg(not(feature = "tikv"))]
pub(crate) fn open(_: &Path, _: &Cluster, _: &str) -> nagi_kv::Result<Arc<dyn Engine>> {
    Err(nagi_kv::Error::other(ABSENT))
}

#[cfg(all(test, feature = "tikv"))]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_anything_is_asked() {
        let cluster = |address: &str| Cluster { address: address.into(), ..Cluster::default() };
        assert!(cluster("tikv://pd").check_address().is_ok());
        let refused = cluster("pd").check_address();
        assert!(refused.is_err_and(|error| error.contains("begins with tikv://")));
        let folder = nagi_testkit::Scratch::new();
        std::fs::create_dir_all(folder.path()).expect("it can be created");
        assert!(open(folder.path(), &cluster("tikv://"), "tikv").is_err());
        let absent = || folder.path().join("absent");
        let tls = Some(ClusterTls { ca: absent(), cert: absent(), key: absent() });
        let opened = open(folder.path(), &Cluster { tls, ..cluster("tikv://pd") }, "tikv");
        assert!(opened.is_err_and(|error| error.to_string().contains("absent: No such file")));
        assert!(!nagi_kv_disk::marker::may_hold_data(folder.path()));
    }
}
