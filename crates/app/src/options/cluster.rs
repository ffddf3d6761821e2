//! The address of a cluster, `storage.uri`, and the options that do not go with a storage engine whose data are there.

use nagi_host::EngineKind;

use super::Settings;

const KEY: &str = "storage.uri";

/// What a server over a cluster cannot do: key, flag, and why.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "replication.replSetName",
        "replSet",
        "it keeps no oplog yet, so there are no change streams and no transactions of clients",
    ),
    ("repair", "repair", "its data are repaired by the cluster"),
];

/// The address of the cluster; `None` for the engines whose data are in a directory. `engine` is the specified one.
///
/// # Errors
/// A text for the user.
pub(super) fn from_settings(
    settings: &Settings,
    engine: Option<EngineKind>,
) -> Result<Option<String>, String> {
    let address = settings.get(KEY);
    if engine != Some(EngineKind::Distributed) {
        return match address {
            Some(_) => Err(format!(
                "BadValue: {KEY} (--storageUri) is for the storage engine tikv: add --storageEngine tikv \
                 (storage.engine)"
            )),
            None => Ok(None),
        };
    }
    let Some(address) = address else {
        return Err(missing("--storageEngine tikv (storage.engine)"));
    };
    for (key, flag, why) in REFUSED {
        if settings.get(key).is_some_and(|value| value != "false") {
            let name =
                if key.contains('.') { format!("{key} (--{flag})") } else { format!("--{flag}") };
            return Err(format!("BadValue: {name} is not for the storage engine tikv: {why}"));
        }
    }
    nagi_host::check_address(address).map_err(|why| {
        format!("BadValue: bad value '{address}' for {KEY} (--storageUri): {why}")
    })?;
    Ok(Some(address.to_owned()))
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

    #[cfg(feature = "tikv")]
    #[test]
    fn an_address_is_checked_and_kept_as_it_is_given() {
        refused(&[
            ("--storageEngine tikv --storageUri pd:2379", "bad value 'pd:2379' for storage.uri"),
            ("--storageEngine tikv --storageUri tikv://pd/A", "a prefix has 1 to 32 of a-z"),
        ]);
        let given = "tikv://pd1:2379,pd2/orders";
        let options = read(&format!("--storageEngine tikv --storageUri {given}")).unwrap();
        assert_eq!(options.cluster.as_deref(), Some(given));
        assert!(options.engine == nagi_host::EngineKind::Distributed && options.engine_chosen);
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
