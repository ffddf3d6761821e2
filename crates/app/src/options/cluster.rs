//! The address of a cluster, `storage.uri`, its certificates, and the options that do not go with a storage engine
//! whose data are there.

use nagi_host::{Cluster, ClusterGarbage, ClusterTls, EngineKind};

use super::Settings;

const KEY: &str = "storage.uri";

/// Keys and flags of the files for encrypted connections, as TiKV's own programs name them.
const FILES: [(&str, &str); 3] = [
    ("storage.tikv.caPath", "tikvCaPath"),
    ("storage.tikv.certPath", "tikvCertPath"),
    ("storage.tikv.keyPath", "tikvKeyPath"),
];

/// Whether it has old versions removed.
const GARBAGE: (&str, &str) = ("storage.tikv.garbageCollection", "tikvGarbageCollection");

/// What a server over a cluster cannot do: key, flag, and why.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "replication.replSetName",
        "replSet",
        "it keeps no oplog yet, so there are no change streams and no transactions of clients",
    ),
    ("repair", "repair", "its data are repaired by the cluster"),
];

/// The cluster; `None` for the engines whose data are in a directory. `engine` is the specified one.
///
/// # Errors
/// A text for the user.
pub(super) fn from_settings(
    settings: &Settings,
    engine: Option<EngineKind>,
) -> Result<Option<Cluster>, String> {
    if engine != Some(EngineKind::Distributed) {
        let mut own = [(KEY, "storageUri"), GARBAGE].into_iter().chain(FILES);
        // Its default is that of every engine.
        let is_given =
            |key| settings.get(key).is_some_and(|value| key != GARBAGE.0 || value != "auto");
        return match own.find(|(key, _)| is_given(*key)) {
            Some((key, flag)) => Err(format!(
                "BadValue: {key} (--{flag}) is for the storage engine tikv: add --storageEngine tikv \
                 (storage.engine)"
            )),
            None => Ok(None),
        };
    }
    let Some(address) = settings.get(KEY) else {
        return Err(missing("--storageEngine tikv (storage.engine)"));
    };
    for (key, flag, why) in REFUSED {
        if settings.get(key).is_some_and(|value| value != "false") {
            let name =
                if key.contains('.') { format!("{key} (--{flag})") } else { format!("--{flag}") };
            return Err(format!("BadValue: {name} is not for the storage engine tikv: {why}"));
        }
    }
    let garbage = match settings.get(GARBAGE.0) {
        Some("always") => ClusterGarbage::Always,
        Some("never") => ClusterGarbage::Never,
        _ => ClusterGarbage::Auto,
    };
    let cluster = Cluster { address: address.to_owned(), tls: files(settings)?, garbage };
    cluster.check_address().map_err(|why| {
        format!("BadValue: bad value '{address}' for {KEY} (--storageUri): {why}")
    })?;
    Ok(Some(cluster))
}

/// The files for encrypted connections: all or none, because a cluster with TLS knows its clients by certificates.
fn files(settings: &Settings) -> Result<Option<ClusterTls>, String> {
    match FILES.map(|(key, _)| settings.get(key)) {
        [None, None, None] => Ok(None),
        [Some(ca), Some(cert), Some(key)] => {
            Ok(Some(ClusterTls { ca: ca.into(), cert: cert.into(), key: key.into() }))
        }
        some => {
            let named = |given: bool| {
                let names = FILES.iter().zip(&some).filter(|(_, value)| value.is_some() == given);
                let names: Vec<_> =
                    names.map(|((key, flag), _)| format!("{key} (--{flag})")).collect();
                names.join(", ")
            };
            Err(format!("BadValue: {} also needs {}", named(true), named(false)))
        }
    }
}

/// The error of a server that should find its data in a cluster and does not know which.
pub(crate) fn missing(what: &str) -> String {
    format!(
        "BadValue: {what} needs the address of the cluster: {KEY} (--storageUri), such as \
         tikv://pd1:2379,pd2:2379/nagi"
    )
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "tikv")]
    use nagi_host::{Cluster, ClusterGarbage, ClusterTls};

    use crate::options::{self, Request};

    fn read(args: &str) -> Result<Box<options::Options>, String> {
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        match options::read(&args)? {
            Request::Serve(options) => Ok(options),
            other => panic!("{other:?}"),
        }
    }

    fn refused(cases: &[(&str, &str)]) {
        for (args, text) in cases {
            let error = read(args).unwrap_err();
            assert!(error.contains(text), "{args}: {error}");
        }
    }

    #[test]
    fn an_address_and_its_engine_belong_together() {
        refused(&[
            (
                "--storageEngine tikv",
                "needs the address of the cluster: storage.uri (--storageUri)",
            ),
            ("--storageUri tikv://pd", "is for the storage engine tikv: add --storageEngine tikv"),
            ("--storageEngine mmapv1 --storageUri tikv://pd", "is for the storage engine tikv"),
            ("--storageEngine tikv --storageUri tikv://pd --replSet r", "it keeps no oplog yet"),
            (
                "--storageEngine tikv --storageUri tikv://pd --repair",
                "--repair is not for the storage engine tikv",
            ),
            (
                "--storageEngine tikv --storageUri tikv://pd --enableEncryption --encryptionKeyFile k",
                "tikv keeps its data in the cluster",
            ),
        ]);
        assert!(read("--storageEngine wiredTiger").unwrap().cluster.is_none());
    }

    #[test]
    fn certificates_belong_to_a_cluster_and_together() {
        refused(&[
            (
                "--tikvCaPath ca",
                "storage.tikv.caPath (--tikvCaPath) is for the storage engine tikv",
            ),
            (
                "--tikvGarbageCollection never",
                "storage.tikv.garbageCollection (--tikvGarbageCollection) is for the storage engine tikv",
            ),
            (
                "--storageEngine tikv --storageUri tikv://pd --tikvCaPath ca --tikvKeyPath key",
                "storage.tikv.caPath (--tikvCaPath), storage.tikv.keyPath (--tikvKeyPath) also needs \
                 storage.tikv.certPath (--tikvCertPath)",
            ),
        ]);
    }

    #[cfg(feature = "tikv")]
    #[test]
    fn an_address_is_checked_and_kept_as_it_is_given() {
        refused(&[
            ("--storageEngine tikv --storageUri pd:2379", "bad value 'pd:2379' for storage.uri"),
            ("--storageEngine tikv --storageUri tikv://pd/A", "a prefix has 1 to 32 of a-z"),
        ]);
        let given = "tikv://pd1:2379,pd2/orders";
        let options = read(&format!("--storageEngine tikv --storageUri {given}")).unwrap();
        let expected = Cluster { address: given.into(), ..Cluster::default() };
        assert_eq!(options.cluster, Some(expected));
        assert!(options.engine == nagi_host::EngineKind::Distributed && options.engine_chosen);
        let files = "--tikvCaPath a --tikvCertPath b --tikvKeyPath c";
        let options = read(&format!("--storageEngine tikv --storageUri {given} {files}")).unwrap();
        let tls = ClusterTls { ca: "a".into(), cert: "b".into(), key: "c".into() };
        assert_eq!(options.cluster.and_then(|cluster| cluster.tls), Some(tls));
        for (value, garbage) in [
            ("auto", ClusterGarbage::Auto),
            ("always", ClusterGarbage::Always),
            ("never", ClusterGarbage::Never),
        ] {
            let args = format!(
                "--storageEngine tikv --storageUri {given} --tikvGarbageCollection {value}"
            );
            assert_eq!(read(&args).unwrap().cluster.map(|cluster| cluster.garbage), Some(garbage));
        }
    }

    #[cfg(not(feature = "tikv"))]
    #[test]
    fn a_program_without_the_engine_says_how_to_get_it() {
        refused(&[(
            "--storageEngine tikv --storageUri tikv://pd",
            "built without the client of TiKV; in a clone, `make build FEATURES=tikv` or",
        )]);
    }
}
