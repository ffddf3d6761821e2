//! The options of encryption at rest: `security.enableEncryption`, the places of keys, `security.kmip`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use nagi_host::EngineKind;
use zeroize::Zeroizing;

use super::{HIDDEN, Settings};

/// The port of KMIP servers.
const KMIP_PORT: u16 = 5696;
const KMIP_TIMEOUT_MS: u64 = 5000;

/// Encryption at rest.
#[derive(Debug, Clone)]
pub(crate) struct EncryptionOptions {
    pub(crate) from: KeySource,
    /// The master key until now, if this start changes it.
    pub(crate) old: Option<KeyPlace>,
}

/// Where the master key is.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    Place(KeyPlace),
    Kmip(Box<KmipOptions>),
}

/// A place of a master key as text.
#[derive(Clone)]
pub(crate) enum KeyPlace {
    File(PathBuf),
    /// An environment variable that was not read yet.
    Variable(String),
    /// The text of an environment variable, which the environment no longer has.
    Taken(String, Zeroizing<String>),
    /// A credential of systemd: a file in `$CREDENTIALS_DIRECTORY`.
    Credential(String),
}

impl KeyPlace {
    fn parse(key: &str, text: &str) -> Result<KeyPlace, String> {
        let named = |name: &str| match name.is_empty() || name.contains(['/', '=', '\0']) {
            true => Err(format!("BadValue: {key}: '{text}' has no valid name behind the colon")),
            false => Ok(name.to_owned()),
        };
        match text.split_once(':') {
            Some(("env", name)) => Ok(KeyPlace::Variable(named(name)?)),
            Some(("credential", name)) => Ok(KeyPlace::Credential(named(name)?)),
            _ if text.is_empty() => Err(format!("BadValue: {key} is empty")),
            _ => Ok(KeyPlace::File(text.into())),
        }
    }
}

impl fmt::Debug for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyPlace::File(path) => write!(f, "{}", path.display()),
            KeyPlace::Variable(name) | KeyPlace::Taken(name, _) => write!(f, "env:{name}"),
            KeyPlace::Credential(name) => write!(f, "credential:{name}"),
        }
    }
}

/// A server that has the master key.
#[derive(Clone)]
pub(crate) struct KmipOptions {
    pub(crate) servers: Vec<String>,
    pub(crate) port: u16,
    pub(crate) certificate_file: Option<PathBuf>,
    pub(crate) password: Option<Zeroizing<String>>,
    pub(crate) ca_file: PathBuf,
    /// The key to use; none: that of the data directory, or a new one.
    pub(crate) key_id: Option<String>,
    pub(crate) retries: u32,
    pub(crate) timeout: Duration,
    /// New keys are activated, and others than active ones are refused.
    pub(crate) activates: bool,
    /// Make a new key, wrap the keys with it, and exit.
    pub(crate) rotates: bool,
    /// Version 1.0 of the protocol instead of 1.2.
    pub(crate) is_legacy: bool,
}

impl fmt::Debug for KmipOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| HIDDEN);
        f.debug_struct("KmipOptions")
            .field("servers", &self.servers)
            .field("password", &password)
            .finish_non_exhaustive()
    }
}

/// The options; `None` without encryption. `engine` is the specified one.
pub(super) fn from_settings(
    settings: &Settings,
    engine: Option<EngineKind>,
) -> Result<Option<EncryptionOptions>, String> {
    let says = |text: &str| Err(format!("BadValue: {text}"));
    if !settings.is_on("security.enableEncryption") {
        let is_ours = |key: &&&str| {
            key.starts_with("security.encryption") || key.starts_with("security.kmip.")
        };
        let is_usual = |key: &&str| {
            matches!(
                (*key, settings.get(key)),
                ("security.encryptionCipherMode", _)
                    | ("security.kmip.activateKeys", Some("true"))
                    | (_, Some("false"))
            )
        };
        let numbers = ["port", "connectRetries", "connectTimeoutMS"];
        let is_number = |key: &&str| numbers.iter().any(|name| key.ends_with(name));
        let mut stray = settings.values.keys().filter(is_ours);
        return match stray.find(|key| !is_usual(key) && !is_number(key)) {
            Some(key) => {
                says(&format!("{key} needs security.enableEncryption (--enableEncryption)"))
            }
            None => Ok(None),
        };
    }
    if let Some(engine) = engine.filter(|engine| *engine != EngineKind::Embedded) {
        return Err(not_with(engine));
    }
    let place = |key: &str| settings.get(key).map(|text| KeyPlace::parse(key, text)).transpose();
    let old = place("security.encryptionOldKeyFile")?;
    let from = match (
        place("security.encryptionKeyFile")?,
        settings.get("security.kmip.serverName"),
    ) {
        (Some(_), Some(_)) => {
            return says(
                "security.encryptionKeyFile and security.kmip.serverName exclude each other: there is one \
                 master key; security.encryptionOldKeyFile names that of a file which one of KMIP replaces",
            );
        }
        (Some(place), None) => {
            if settings.is_on("security.kmip.rotateMasterKey") {
                return says("security.kmip.rotateMasterKey needs security.kmip.serverName");
            }
            KeySource::Place(place)
        }
        (None, Some(servers)) => KeySource::Kmip(Box::new(kmip(settings, servers)?)),
        (None, None) => {
            return says(
                "security.enableEncryption needs the place of the master key: \
                 security.encryptionKeyFile (--encryptionKeyFile) or security.kmip.serverName \
                 (--kmipServerName)",
            );
        }
    };
    if old.is_some() && matches!(&from, KeySource::Kmip(kmip) if kmip.rotates) {
        return says(
            "security.kmip.rotateMasterKey and security.encryptionOldKeyFile exclude each other",
        );
    }
    Ok(Some(EncryptionOptions { from, old }))
}

/// The refusal of an engine that cannot encrypt.
pub(crate) fn not_with(engine: EngineKind) -> String {
    let why = match engine {
        EngineKind::Memory => "has no data files",
        EngineKind::Distributed => {
            "keeps its data in the cluster, which has an encryption of its own"
        }
        _ => "cannot encrypt its data file",
    };
    format!(
        "BadValue: security.enableEncryption is for the storage engine wiredTiger: {} {why}",
        engine.name()
    )
}

fn kmip(settings: &Settings, servers: &str) -> Result<KmipOptions, String> {
    let number = |name: &str| {
        settings.get(&format!("security.kmip.{name}")).and_then(|text| text.parse::<u64>().ok())
    };
    let text = |name: &str| settings.get(&format!("security.kmip.{name}")).map(str::to_owned);
    let names = servers.split(',').map(str::trim).filter(|name| !name.is_empty());
    let servers: Vec<String> = names.map(str::to_owned).collect();
    if servers.is_empty() {
        return Err("BadValue: security.kmip.serverName is empty".to_owned());
    }
    let Some(ca_file) = text("serverCAFile") else {
        return Err("BadValue: security.kmip.serverName needs security.kmip.serverCAFile, the \
                    authorities of the server's certificate"
            .to_owned());
    };
    Ok(KmipOptions {
        servers,
        port: number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(KMIP_PORT),
        certificate_file: text("clientCertificateFile").map(PathBuf::from),
        password: text("clientCertificatePassword").map(Zeroizing::new),
        ca_file: ca_file.into(),
        key_id: text("keyIdentifier").filter(|id| !id.is_empty()),
        retries: number("connectRetries").and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        timeout: Duration::from_millis(number("connectTimeoutMS").unwrap_or(KMIP_TIMEOUT_MS)),
        activates: settings.get("security.kmip.activateKeys") != Some("false"),
        rotates: settings.is_on("security.kmip.rotateMasterKey"),
        is_legacy: settings.is_on("security.kmip.useLegacyProtocol"),
    })
}

#[cfg(test)]
mod tests {
    use crate::options::{self, Request};

    use super::*;

    fn read(args: &str) -> Result<Box<options::Options>, String> {
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        match options::read(&args)? {
            Request::Serve(options) => Ok(options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_encryption_belong_together() {
        for (args, text) in [
            ("--enableEncryption", "needs the place of the master key"),
            ("--encryptionKeyFile k", "needs security.enableEncryption"),
            ("--kmipServerName h", "needs security.enableEncryption"),
            ("--kmipRotateMasterKey", "needs security.enableEncryption"),
            ("--enableEncryption --encryptionKeyFile k --kmipServerName h", "exclude each other"),
            ("--enableEncryption --kmipServerName h", "needs security.kmip.serverCAFile"),
            ("--enableEncryption --kmipServerName , --kmipServerCAFile c", "is empty"),
            (
                "--enableEncryption --encryptionKeyFile k --kmipRotateMasterKey",
                "needs security.kmip",
            ),
            ("--enableEncryption --encryptionKeyFile env:", "no valid name"),
            ("--enableEncryption --encryptionKeyFile credential:../x", "no valid name"),
            ("--enableEncryption --encryptionKeyFile k --storageEngine mmapv1", "cannot encrypt"),
            ("--enableEncryption --encryptionKeyFile k --storageEngine inMemory", "no data files"),
            ("--encryptionCipherMode AES256-CBC", "(supported: AES256-CTR): files are encrypted"),
            ("--encryptionCipherMode AES256-GCM", "(supported: AES256-CTR): files are encrypted"),
            ("--encryptionCipherMode rot13", "expected one of AES256-CBC, AES256-CTR, AES256-GCM"),
            ("--kmipKeyStatePollingSeconds 5", "checked at the start only"),
        ] {
            let error = read(args).unwrap_err();
            assert!(error.contains(text), "{args}: {error}");
        }
        assert!(read("--port 1").unwrap().encryption.is_none());
    }

    #[test]
    fn places_of_keys() {
        let place = |args: &str| {
            let options = read(&format!("--enableEncryption {args}")).unwrap();
            format!("{:?}", options.encryption.unwrap())
        };
        for (args, shown) in [
            ("--encryptionKeyFile /etc/nagi/key", "Place(/etc/nagi/key), old: None"),
            ("--encryptionKeyFile env:KEY --encryptionCipherMode AES256-CTR", "Place(env:KEY)"),
            ("--encryptionKeyFile credential:key --encryptionOldKeyFile o", "old: Some(o)"),
        ] {
            assert!(place(args).contains(shown), "{args}: {}", place(args));
        }
        let options = read(
            "--enableEncryption --kmipServerName a,b --kmipServerCAFile c --kmipPort 7 \
             --kmipClientCertificatePassword hush --kmipConnectRetries 3",
        );
        let options = options.unwrap();
        assert!(!format!("{options:?}").contains("hush"));
        let Some(EncryptionOptions { from: KeySource::Kmip(kmip), .. }) = options.encryption else {
            panic!("not KMIP");
        };
        assert_eq!((kmip.servers.len(), kmip.port, kmip.retries), (2, 7, 3));
        assert!(kmip.activates && !kmip.rotates && kmip.timeout == Duration::from_secs(5));
    }
}
