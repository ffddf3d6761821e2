//! Server parameters: the table behind `getParameter` and `setParameter`.
//!
//! Each row has a parameter's name, when it may be set, its kind with default and range, and the effect of setting it.
//! The values are in an array of atomics (texts behind a lock), so reading one during a request is a load. A parameter
//! that is known but has no effect here can only be set to its default.

use std::fmt::Display;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use nagi_bson::{Doc, DocBuf, Value, json, number};
use nagi_error::{Code, Result, bail, err};
use parking_lot::RwLock;

use crate::cache_size::{CacheSize, DEFAULT_SIZE};
use crate::directory::DirectorySetting;
use crate::limits::{READ_TICKETS, TICKETS_MAX, WRITE_TICKETS};
use crate::logging::{COMPONENTS, Log};
use crate::number::truncate;
use crate::settings::identity_providers::{self, Provider};
use crate::transport_security::TlsMode;

/// The names of the authentication mechanisms, for the parameter that enables them.
pub(crate) const MECHANISM_NAMES: &[&str] =
    &["MONGODB-OIDC", "MONGODB-X509", "PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256"];

/// When a parameter may be set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetAt {
    Startup,
    Both,
    /// At run time only: an option sets it at the start.
    Running,
    /// Read only.
    Never,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Bool(bool),
    /// Default, minimum, maximum.
    Int(i64, i64, i64),
    /// Default, minimum, maximum.
    Double(f64, f64, f64),
    Text(&'static str),
    /// Bytes of memory, or a percentage of the memory budget, with the unit: the default.
    Size(&'static str),
    /// One of several words: the default, and all words.
    Word(&'static str, &'static [&'static str]),
    /// A comma-separated list, which is never empty: the default, and the allowed names.
    List(&'static str, &'static [&'static str]),
    /// The mode of TLS, which is stored elsewhere; true: with the names of options before 4.2.
    Mode(bool),
    /// A setting of the directory (LDAP), which stores it.
    Directory(DirectorySetting),
    /// Identity providers, which are stored elsewhere.
    Providers,
    /// The value is stored elsewhere: see [`special`].
    Special,
}

/// The effect of setting a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The value is read where it is needed.
    Live,
    /// [`Parameters::apply`] passes the value on.
    Applied,
    /// Shown, but nothing depends on it, so only the default may be set.
    Kept,
    /// Shown, because it is common in configurations. If it is not the default, the given text is logged: it tells what
    /// applies instead.
    Told(&'static str),
}

pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) set_at: SetAt,
    pub(crate) kind: Kind,
    pub(crate) effect: Effect,
}

const fn row(name: &'static str, set_at: SetAt, kind: Kind, effect: Effect) -> Param {
    Param { name, set_at, kind, effect }
}

use DirectorySetting::{
    AuthzQueryTemplate, QueryPassword, QueryUser, Servers, TimeoutMs, UserToDnMapping,
};
use Effect::{Applied, Kept, Live, Told};
use Kind::{Bool, Directory, Double, Int, List, Mode, Size, Special, Text, Word};
use SetAt::{Both, Never, Running, Startup};

const MAX: i64 = i64::MAX;
/// The largest value of parameters that are integers of 32 bits in MongoDB.
const INT_MAX: i64 = i32::MAX as i64;

/// Sorted by name.
#[rustfmt::skip]
pub(crate) static PARAMETERS: &[Param] = &[
    row("JWKSMinimumQuiescePeriodSecs", Both, Int(10, 0, 86_400), Live),
    row("allowDiskUseByDefault", Both, Bool(true), Live),
    row("auditAuthorizationSuccess", Both, Bool(false), Live),
    row("auditQueueFullAction", Both, Word("block", QUEUE_ACTIONS), Live),
    row("auditQueueWaitMaxMs", Both, Int(1000, 0, 60_000), Live),
    row("authFailedDelayMaxMs", Both, Int(2000, 0, 10_000), Live),
    row("authFailedDelayMs", Startup, Int(0, 0, 5000), Live),
    row("authSchemaVersion", Never, Int(5, 5, 5), Live),
    row("authenticationMechanisms", Startup, List("MONGODB-X509,SCRAM-SHA-1,SCRAM-SHA-256", MECHANISM_NAMES), Live),
    row("clientCursorMonitorFrequencySecs", Both, Int(4, 1, 3600), Live),
    row("connPoolMaxConnsPerHost", Startup, Int(200, 1, MAX), Told(NO_POOLS)),
    row("cursorTimeoutMillis", Both, Int(600_000, 1, MAX), Live),
    row("diagnosticDataCollectionDirectoryPath", Both, Text(""), Live),
    row("diagnosticDataCollectionDirectorySizeMB", Both, Int(250, 10, INT_MAX), Live),
    row("diagnosticDataCollectionEnabled", Both, Bool(true), Live),
    row("diagnosticDataCollectionFileSizeMB", Both, Int(10, 1, INT_MAX), Live),
    row("diagnosticDataCollectionPeriodMillis", Both, Int(1000, 100, INT_MAX), Live),
    row("diagnosticDataCollectionSamplesPerChunk", Both, Int(300, 2, INT_MAX), Live),
    row("diagnosticDataCollectionSamplesPerInterimUpdate", Both, Int(10, 2, INT_MAX), Live),
    row("disabledSecureAllocatorDomains", Startup, Text(""), Told(NO_LOCKED_MEMORY)),
    row("enableLocalhostAuthBypass", Startup, Bool(true), Live),
    row("enableTestCommands", Startup, Bool(false), Live),
    row("enforceUserClusterSeparation", Startup, Bool(true), Live),
    row("featureCompatibilityVersion", Never, Special, Live),
    row("honorSystemUmask", Startup, Bool(false), Live),
    row("indexMaxNumGeneratedKeysPerDocument", Both, Int(100_000, 1, MAX), Kept),
    row("internalDocumentSourceBucketAutoMaxMemoryBytes", Both, Int(104_857_600, 1, MAX), Live),
    row("internalDocumentSourceDensifyMaxMemoryBytes", Both, Int(104_857_600, 1, MAX), Live),
    row("internalDocumentSourceGraphLookupMaxMemoryBytes", Both, Int(104_857_600, 1, MAX), Live),
    row("internalDocumentSourceGroupMaxMemoryBytes", Both, Int(104_857_600, 1, MAX), Live),
    row("internalDocumentSourceSetWindowFieldsMaxMemoryBytes", Both, Int(104_857_600, 1, MAX), Live),
    row("internalInsertMaxBatchSize", Both, Int(500, 1, 100_000), Kept),
    row("internalLookupStageIntermediateDocumentMaxSizeBytes", Both, Int(104_857_600, 16_777_216, MAX), Live),
    row("internalQueryExecYieldIterations", Both, Int(1000, -1, MAX), Told(NO_YIELDS)),
    row("internalQueryExecYieldPeriodMS", Both, Int(10, 0, MAX), Told(NO_YIELDS)),
    row("internalQueryFLEAlwaysUseEncryptedCollScanMode", Both, Bool(false), Live),
    row("internalQueryFLERewriteMemoryLimit", Both, Int(14_680_064, 1, MAX), Live),
    row("internalQueryFacetBufferSizeBytes", Both, Int(104_857_600, 1, MAX), Live),
    row("internalQueryForceClassicEngine", Both, Bool(true), Told(ONE_EXECUTOR)),
    row("internalQueryFrameworkControl", Both, Word("forceClassicEngine", FRAMEWORKS), Told(ONE_EXECUTOR)),
    row("internalQueryMaxAllowedDensifyDocs", Both, Int(500_000, 0, MAX), Live),
    row("internalQueryMaxBlockingSortMemoryUsageBytes", Both, Int(104_857_600, 0, MAX), Live),
    row("internalQueryParallelScan", Both, Bool(true), Live),
    row("internalQueryRecordsAhead", Both, Int(256, 1, 256), Live),
    row("internalQueryStatsCacheSize", Both, Size(DEFAULT_SIZE), Applied),
    row("internalQueryStatsRateLimit", Both, Int(0, -1, INT_MAX), Live),
    row("internalTextOrStageMaxMemoryBytes", Both, Int(104_857_600, 1, MAX), Live),
    row("jsHeapLimitMB", Both, Int(1100, 0, 1 << 40), Applied),
    row("ldapAuthzQueryTemplate", Running, Directory(AuthzQueryTemplate), Live),
    row("ldapConcurrentRequestsMax", Startup, Int(64, 1, 1024), Live),
    row("ldapConnectionPoolHostRefreshIntervalMillis", Startup, Int(60_000, 1, MAX), Told(NO_LDAP_PROBES)),
    row("ldapConnectionPoolIdleHostTimeoutSecs", Startup, Int(300, 0, 86_400), Live),
    row("ldapConnectionPoolMaximumConnectionsInProgressPerHost", Startup, Int(2, 1, MAX), Told(LDAP_CONNECTIONS)),
    row("ldapConnectionPoolMaximumConnectionsPerHost", Startup, Int(2_147_483_647, 1, MAX), Told(LDAP_CONNECTIONS)),
    row("ldapConnectionPoolMinimumConnectionsPerHost", Startup, Int(1, 0, MAX), Told(LDAP_CONNECTIONS)),
    row("ldapConnectionPoolUseLatencyForHostPriority", Startup, Bool(true), Told(NO_LDAP_PROBES)),
    row("ldapForceMultiThreadMode", Startup, Bool(false), Told(LDAP_THREADS)),
    row("ldapQueryPassword", Running, Directory(QueryPassword), Live),
    row("ldapQueryUser", Running, Directory(QueryUser), Live),
    row("ldapRetryCount", Startup, Int(0, 0, 100), Live),
    row("ldapServers", Running, Directory(Servers), Live),
    row("ldapShouldRefreshUserCacheEntries", Both, Bool(true), Live),
    row("ldapTimeoutMS", Running, Directory(TimeoutMs), Live),
    row("ldapUseConnectionPool", Startup, Bool(true), Live),
    row("ldapUserCacheInvalidationInterval", Both, Int(30, 1, 86_400), Live),
    row("ldapUserCacheRefreshInterval", Both, Int(30, 1, 86_400), Live),
    row("ldapUserCacheStalenessInterval", Both, Int(90, 1, 86_400), Live),
    row("ldapUserToDNMapping", Running, Directory(UserToDnMapping), Live),
    row("localLogicalSessionTimeoutMinutes", Startup, Int(30, 1, 1440), Live),
    row("logComponentVerbosity", Both, Special, Applied),
    row("logLevel", Both, Int(0, 0, 5), Applied),
    row("logicalSessionRefreshMillis", Startup, Int(300_000, 1, MAX), Live),
    row("maxBSONDepth", Startup, Int(200, 5, 200), Kept),
    row("maxIndexBuildMemoryUsageMegabytes", Both, Int(200, 50, MAX), Live),
    row("maxLogSizeKB", Both, Int(10, 0, MAX), Applied),
    row("maxNumActiveUserIndexBuilds", Both, Int(3, 0, MAX), Live),
    row("maxSessions", Startup, Int(1_000_000, 1, MAX), Live),
    row("maxTransactionLockRequestTimeoutMillis", Both, Int(5, -1, MAX), Told(NO_LOCK_WAIT)),
    row("minSnapshotHistoryWindowInSeconds", Both, Int(300, 0, MAX), Live),
    row("notablescan", Both, Bool(false), Live),
    row("ocspCacheSize", Startup, Int(300, 1, MAX), Told(NO_OCSP)),
    row("ocspEnabled", Startup, Bool(false), Kept),
    row("ocspStaplingRefreshPeriodSecs", Startup, Int(-1, -1, MAX), Told(NO_OCSP)),
    row("ocspValidationRefreshPeriodSecs", Startup, Int(-1, -1, MAX), Told(NO_OCSP)),
    row("oidcIdentityProviders", Both, Kind::Providers, Applied),
    row("opensslCipherConfig", Startup, Text(""), Live),
    row("opensslCipherSuiteConfig", Startup, Text(""), Live),
    row("opensslDiffieHellmanParameters", Startup, Text(""), Told(NO_DHE)),
    row("periodicNoopIntervalSecs", Both, Int(10, 1, MAX), Told(NO_NOOPS)),
    row("processUmask", Startup, Text(""), Live),
    row("quiet", Both, Bool(false), Live),
    row("redactClientLogData", Both, Bool(false), Applied),
    row("reportOpWriteConcernCountersInServerStatus", Startup, Bool(false), Live),
    row("requireApiVersion", Both, Bool(false), Live),
    row("scramIterationCount", Both, Int(10_000, 5000, 100_000_000), Live),
    row("scramSHA256IterationCount", Both, Int(15_000, 5000, 100_000_000), Live),
    row("shutdownTimeoutMillisForSignaledShutdown", Both, Int(15_000, 0, MAX), Live),
    row("sslMode", Running, Mode(true), Live),
    row("sslWithholdClientCertificate", Startup, Bool(false), Told(NO_POOLS)),
    row("storageEngineConcurrencyAdjustmentAlgorithm", Both, Word("throughputProbing", ADJUSTMENTS), Applied),
    row("storageEngineConcurrentReadTransactions", Both, Int(READ_TICKETS, 5, TICKETS_MAX), Applied),
    row("storageEngineConcurrentWriteTransactions", Both, Int(WRITE_TICKETS, 5, TICKETS_MAX), Applied),
    row("suppressNoTLSPeerCertificateWarning", Startup, Bool(false), Live),
    row("syncdelay", Both, Double(60.0, 0.0, 9_000_000.0), Told(SYNC_PERIOD)),
    row("tlsCipherConfig", Startup, Text(""), Live),
    row("tlsMode", Running, Mode(false), Live),
    row("tlsOCSPSlowResponderWarningSecs", Startup, Int(5, 1, MAX), Told(NO_OCSP)),
    row("tlsOCSPStaplingTimeoutSecs", Startup, Int(-1, -1, MAX), Told(NO_OCSP)),
    row("tlsOCSPVerifyTimeoutSecs", Startup, Int(4, 1, MAX), Told(NO_OCSP)),
    row("tlsUseSystemCA", Startup, Bool(false), Kept),
    row("tlsWithholdClientCertificate", Startup, Bool(false), Told(NO_POOLS)),
    row("tlsX509ClusterAuthDNOverride", Startup, Text(""), Live),
    row("tlsX509ExpirationWarningThresholdDays", Startup, Int(30, 0, 36_500), Live),
    row("transactionLifetimeLimitSeconds", Both, Int(60, 1, MAX), Live),
    row("ttlMonitorEnabled", Both, Bool(true), Live),
    row("ttlMonitorSleepSecs", Both, Int(60, 1, MAX), Live),
    row("wiredTigerConcurrentReadTransactions", Both, Int(READ_TICKETS, 5, TICKETS_MAX), Applied),
    row("wiredTigerConcurrentWriteTransactions", Both, Int(WRITE_TICKETS, 5, TICKETS_MAX), Applied),
    row("writePeriodicNoops", Both, Bool(true), Told(NO_NOOPS)),
];

/// The position of the parameter `name`.
pub(crate) fn find(name: &str) -> Option<usize> {
    PARAMETERS.binary_search_by(|row| row.name.cmp(name)).ok()
}

/// Fails for a parameter that can only be set at the start, or not at all.
pub(crate) fn check_run_time(index: usize) -> Result<()> {
    let param = &PARAMETERS[index];
    match param.set_at {
        Both | Running => Ok(()),
        Startup | Never => {
            bail!(Code::ILLEGAL_OPERATION, "not allowed to change [{}] at runtime", param.name)
        }
    }
}

/// Returns true if the value is a password, which is never shown.
pub(crate) fn is_secret(index: usize) -> bool {
    matches!(PARAMETERS[index].kind, Directory(DirectorySetting::QueryPassword))
}

/// The position of `name`, computed at compile time, for parameters that every request reads.
pub(crate) const fn position(name: &str) -> usize {
    let mut index = 0;
    while index < PARAMETERS.len() {
        if same(PARAMETERS[index].name.as_bytes(), name.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("no parameter has this name")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The position of the other name of a renamed parameter.
fn twin(name: &str) -> Option<usize> {
    let (new, old) = ("storageEngineConcurrent", "wiredTigerConcurrent");
    match (name.strip_prefix(new), name.strip_prefix(old)) {
        (Some(rest), _) => find(&format!("{old}{rest}")),
        (_, Some(rest)) => find(&format!("{new}{rest}")),
        _ => None,
    }
}

/// Names of the parameters.
pub fn parameter_names() -> impl Iterator<Item = &'static str> {
    PARAMETERS.iter().map(|param| param.name)
}

/// The values of a parameter, for a message; `None` if there is no such parameter.
pub fn parameter_values(name: &str) -> Option<String> {
    find(name).map(|index| expected(PARAMETERS[index].kind))
}

/// The other name of a renamed parameter.
pub fn other_parameter_name(name: &str) -> Option<&'static str> {
    twin(name).map(|index| PARAMETERS[index].name)
}

/// The parameter whose name is most similar to an unknown one; `None` if no name is similar.
pub fn similar_parameter(name: &str) -> Option<&'static str> {
    nagi_error::nearest(name, parameter_names().map(|name| (name, name)))
}

/// Checks `--setParameter name=value` before anything is opened.
///
/// # Errors
/// If a parameter is unknown, cannot be set at the start, or has an invalid value.
pub fn check_parameters(settings: &[(String, String)]) -> Result<()> {
    // Not whether they fit together: a caller may check one by one, so that is done when the server is built.
    Parameters::parsed(settings).map(drop)
}

/// The values of all parameters.
pub(crate) struct Parameters {
    pub(crate) numbers: Vec<AtomicI64>,
    pub(crate) texts: RwLock<Vec<String>>,
}

impl Parameters {
    /// The defaults, changed by `settings` as given on the command line.
    pub(crate) fn new(settings: &[(String, String)]) -> Result<Parameters> {
        let params = Parameters::parsed(settings)?;
        // Once all are set: their order does not matter.
        params.check_file_size(FILE_SIZE, &Checked::Number(params.number(FILE_SIZE)))?;
        Ok(params)
    }

    fn parsed(settings: &[(String, String)]) -> Result<Parameters> {
        let number = |param: &Param| match param.kind {
            Bool(b) => i64::from(b),
            Int(n, _, _) => n,
            Double(d, _, _) => d.to_bits() as i64,
            Text(_) | Size(_) | Word(..) | List(..) | Mode(_) | Directory(_) => 0,
            Kind::Providers | Special => 0,
        };
        let text = |param: &Param| match param.kind {
            Text(text) | Size(text) | Word(text, _) | List(text, _) => text.to_owned(),
            _ => String::new(),
        };
        let params = Parameters {
            numbers: PARAMETERS.iter().map(|p| AtomicI64::new(number(p))).collect(),
            texts: RwLock::new(PARAMETERS.iter().map(text).collect()),
        };
        for (name, value) in settings {
            params.set_from_text(name, value)?;
        }
        Ok(params)
    }

    fn set_from_text(&self, name: &str, text: &str) -> Result<()> {
        let Some(index) = find(name) else {
            bail!(Code::BAD_VALUE, "Unknown --setParameter '{name}'");
        };
        let param = &PARAMETERS[index];
        if matches!(param.set_at, Never | Running) {
            bail!(Code::BAD_VALUE, "Cannot use --setParameter to set '{name}' at startup");
        }
        let parsed = match (param.kind, text) {
            (Bool(_), "true" | "1") => Value::Bool(true),
            (Bool(_), "false" | "0") => Value::Bool(false),
            (Bool(_), _) => Value::Missing,
            (Text(_) | Size(_) | Word(..) | List(..), text) => Value::String(text),
            (Int(..), text) => text.parse().map_or(Value::Missing, Value::Int64),
            (Double(..), text) => text.parse().map_or(Value::Missing, Value::Double),
            (Mode(_) | Directory(_), _) => Value::Missing,
            (Kind::Providers, text) => {
                identity_providers::parse(Value::String(text))?;
                text.clone_into(&mut self.texts.write()[index]);
                return Ok(());
            }
            (Special, text) => return self.set_verbosity_at_start(index, text),
        };
        if parsed.is_missing() {
            let bad = bad_type(param);
            bail!(Code::BAD_VALUE, "{}, not '{text}'", bad.message());
        }
        self.store(index, check(index, parsed)?);
        Ok(())
    }

    /// `logComponentVerbosity` is a document in extended JSON. It is stored until there is a log to apply it to.
    fn set_verbosity_at_start(&self, index: usize, text: &str) -> Result<()> {
        let name = PARAMETERS[index].name;
        let Ok(spec) = json::parse(text) else {
            bail!(
                Code::BAD_VALUE,
                "Invalid value for parameter {name}: it is not a document: \
                                    {text}"
            );
        };
        set_verbosity(None, "", spec.as_doc())?;
        text.clone_into(&mut self.texts.write()[index]);
        Ok(())
    }

    /// Checks that a file of diagnostic data is not larger than their directory, if `value` is that of one of them.
    pub(crate) fn check_file_size(&self, index: usize, value: &Checked) -> Result<()> {
        let (file, folder) = (PARAMETERS[FILE_SIZE].name, PARAMETERS[FOLDER_SIZE].name);
        let (file_mb, folder_mb) = (self.number(FILE_SIZE), self.number(FOLDER_SIZE));
        match (index, value) {
            (FOLDER_SIZE, Checked::Number(mb)) if *mb < file_mb => bail!(
                Code::BAD_VALUE,
                "{folder} must be greater than or equal to '{file_mb}' which is the current value of {file}."
            ),
            (FILE_SIZE, Checked::Number(mb)) if *mb > folder_mb => bail!(
                Code::BAD_VALUE,
                "{file} must be less than or equal to '{folder_mb}' which is the current value of {folder}."
            ),
            _ => Ok(()),
        }
    }

    /// Stores a checked value; the caller applies the row's effect.
    pub(crate) fn store(&self, index: usize, value: Checked) {
        match value {
            Checked::Number(n) => {
                self.numbers[index].store(n, Relaxed);
                if let Some(twin) = twin(PARAMETERS[index].name) {
                    self.numbers[twin].store(n, Relaxed);
                }
            }
            Checked::Text(text) => self.texts.write()[index] = text,
            // The log has it, or TLS, or the directory, or who verifies tokens.
            Checked::Verbosity(_)
            | Checked::Mode(_)
            | Checked::Directory(..)
            | Checked::Providers(_) => {}
        }
    }

    /// The value of an int parameter. The name must be one of the table: a test checks the names in the sources.
    pub(crate) fn int(&self, name: &str) -> i64 {
        find(name).map_or(0, |index| self.number(index))
    }

    /// The value of the row at `position`.
    pub(crate) fn number(&self, position: usize) -> i64 {
        self.numbers[position].load(Relaxed)
    }

    /// Returns true if the comma-separated list of a text parameter contains `item`.
    pub(crate) fn lists(&self, name: &str, item: &str) -> bool {
        let texts = self.texts.read();
        find(name).is_some_and(|index| texts[index].split(',').any(|one| one.trim() == item))
    }

    pub(crate) fn bool(&self, name: &str) -> bool {
        self.int(name) != 0
    }

    /// The value of a text parameter.
    pub(crate) fn text(&self, name: &str) -> String {
        find(name).map_or_else(String::new, |index| self.texts.read()[index].clone())
    }
}

const FILE_SIZE: usize = position("diagnosticDataCollectionFileSizeMB");
const FOLDER_SIZE: usize = position("diagnosticDataCollectionDirectorySizeMB");

const NO_POOLS: &str =
    "This server opens no connections to other servers, so this parameter has no effect";
const NO_OCSP: &str = "This server neither staples nor asks for OCSP responses, so this parameter has no effect; \
     net.tls.CRLFile has revoked certificates";
const NO_DHE: &str = "TLS has no suites with finite-field Diffie-Hellman, only with elliptic curves, so this \
     parameter has no effect";
const NO_LOCKED_MEMORY: &str = "Secrets are erased after their use, but not held in locked memory, so this parameter \
     has no effect";
const NO_YIELDS: &str = "Reads use a snapshot and do not block writers, so they need not yield: \
     this parameter has no effect";
const ONE_EXECUTOR: &str = "There is one executor of queries, so this parameter has no effect";
const NO_LOCK_WAIT: &str = "\
     Transactions do not queue for locks of collections: they fail at a conflict, so this parameter has no effect";
const NO_NOOPS: &str = "The oplog contains writes only, so this parameter has no effect";
const SYNC_PERIOD: &str = "storage.syncPeriodSecs sets when the mapped engine writes its file, \
     other engines write their files when memory is full: this parameter has no effect";

const NO_LDAP_PROBES: &str = "\
     LDAP servers are tried in the order of security.ldap.servers, and after a failure last for 30 seconds, so this \
     parameter has no effect";
const LDAP_CONNECTIONS: &str = "\
     ldapConcurrentRequestsMax limits the connections to LDAP servers, so this parameter has no effect";
const LDAP_THREADS: &str =
    "Requests to LDAP servers always run at the same time, so this parameter has no effect";

/// The longest timeout of LDAP: an hour.
const TIMEOUT_MS_MAX: i64 = 3_600_000;

/// Whether the number of tickets for writes is adjusted (`tickets/adjustment.rs`).
const ADJUSTMENTS: &[&str] = &["fixedConcurrentTransactions", "throughputProbing"];

/// What a request does while the queue of the audit log is full.
const QUEUE_ACTIONS: &[&str] = &["block", "count"];

const FRAMEWORKS: &[&str] = &["forceClassicEngine", "trySbeEngine", "trySbeRestricted"];

/// Returns true if setting `value` would change nothing, and for values of a wrong type, which other checks refuse.
pub(crate) fn is_default(kind: Kind, value: Value<'_>) -> bool {
    match kind {
        Bool(default) if matches!(value, Value::Bool(_)) || value.is_number() => {
            value.is_truthy() == default
        }
        Int(default, _, _) => truncate(value).is_none_or(|n| n == default),
        Double(default, ..) => number::as_f64(value).is_none_or(|n| n == default),
        Text(default) | Size(default) | Word(default, _) | List(default, _) => {
            value.as_str().is_none_or(|text| text == default)
        }
        _ => true,
    }
}

/// The values of a parameter, for a message.
pub(crate) fn expected(kind: Kind) -> String {
    match kind {
        Bool(_) => "true or false".to_owned(),
        Int(_, i64::MIN, i64::MAX) => "an integer".to_owned(),
        Int(_, least, i64::MAX) => format!("an integer of {least} or more"),
        Int(_, least, greatest) => format!("an integer from {least} to {greatest}"),
        Double(_, least, greatest) if greatest < f64::MAX => {
            format!("a number from {least} to {greatest}")
        }
        Double(_, least, _) => format!("a number of {least} or more"),
        Text(_) => "text".to_owned(),
        Size(_) => "a size: a number and %, KB, MB or GB".to_owned(),
        Word(_, known) => format!("one of {}", known.join(", ")),
        List(_, known) => format!("one or more of {}, separated by commas", known.join(", ")),
        Mode(old) => {
            format!("{} or {}", TlsMode::Prefer.name(old), TlsMode::Require.name(old))
        }
        Directory(DirectorySetting::TimeoutMs) => {
            "a number of milliseconds from 0 to 3600000".to_owned()
        }
        Directory(_) => "text".to_owned(),
        Kind::Providers => "an array of documents, as text in a configuration file".to_owned(),
        Special => {
            "a document (as text in a configuration file: '{query: {verbosity: 2}}')".to_owned()
        }
    }
}

/// A value that a parameter may have.
pub(crate) enum Checked {
    /// An integer, a boolean, or the bits of a double.
    Number(i64),
    Text(String),
    /// A document of verbosities.
    Verbosity(DocBuf),
    Mode(TlsMode),
    Directory(DirectorySetting, String),
    Providers(Vec<Provider>),
}

/// Checks a value, but does not store it.
pub(crate) fn check(index: usize, value: Value<'_>) -> Result<Checked> {
    let param = &PARAMETERS[index];
    let name = param.name;
    if param.effect == Kept && !is_default(param.kind, value) {
        bail!(
            Code::INVALID_OPTIONS,
            "Parameter {name} is known but not honoured yet: it can only be set to its default"
        );
    }
    let checked = match param.kind {
        Bool(_) if matches!(value, Value::Bool(_)) || value.is_number() => {
            Some(Checked::Number(i64::from(value.is_truthy())))
        }
        Int(_, least, greatest) => match integer(value)? {
            Some(n) => Some(Checked::Number(within(name, n, least, greatest)?)),
            None => None,
        },
        Double(_, least, greatest) => match number::as_f64(value) {
            Some(n) => Some(Checked::Number(within(name, n, least, greatest)?.to_bits() as i64)),
            None => None,
        },
        Text(_) => value.as_str().map(|text| Checked::Text(text.to_owned())),
        Size(_) => match value.as_str() {
            Some(text) if CacheSize::parse(text).is_none() => bail!(
                Code::BAD_VALUE,
                "Invalid value for parameter {name}: '{text}' is not {}",
                expected(param.kind)
            ),
            text => text.map(|text| Checked::Text(text.to_owned())),
        },
        Word(_, known) => match value.as_str() {
            Some(text) if !known.contains(&text) => bail!(
                Code::BAD_VALUE,
                "Enumeration value '{text}' for field '{name}' is not a valid value. Expected {}",
                expected(param.kind)
            ),
            text => text.map(|text| Checked::Text(text.to_owned())),
        },
        List(_, known) => match value.as_str() {
            Some(text) => Some(Checked::Text(listed(name, text, known)?)),
            None => None,
        },
        Mode(_) => value.as_str().map(|text| tls_mode(name, text)).transpose()?,
        Directory(DirectorySetting::TimeoutMs) => match integer(value)? {
            Some(ms) => {
                let ms = within(name, ms, 0, TIMEOUT_MS_MAX)?;
                Some(Checked::Directory(DirectorySetting::TimeoutMs, ms.to_string()))
            }
            None => None,
        },
        Directory(setting) => {
            value.as_str().map(|text| Checked::Directory(setting, text.to_owned()))
        }
        Kind::Providers => Some(Checked::Providers(identity_providers::parse(value)?)),
        Special => match (name, value) {
            ("logComponentVerbosity", Value::Doc(spec)) => {
                set_verbosity(None, "", spec)?;
                Some(Checked::Verbosity(DocBuf::from_doc(spec)))
            }
            _ => None,
        },
        Bool(_) => None,
    };
    checked.ok_or_else(|| bad_type(param))
}

fn tls_mode(name: &str, text: &str) -> Result<Checked> {
    match TlsMode::by_name(text) {
        Some(mode) => Ok(Checked::Mode(mode)),
        None => {
            bail!(Code::BAD_VALUE, "Invalid value for {name} via setParameter command: {text}")
        }
    }
}

/// A number without its fraction, as in MongoDB; `None` for other types.
fn integer(value: Value<'_>) -> Result<Option<i64>> {
    match number::as_f64(value) {
        Some(n) if !n.is_finite() => {
            bail!(Code::BAD_VALUE, "Unable to coerce NaN/Inf to integral type")
        }
        _ => Ok(truncate(value)),
    }
}

fn within<N: PartialOrd + Display>(name: &str, n: N, least: N, greatest: N) -> Result<N> {
    if n > greatest {
        bail!(
            Code::BAD_VALUE,
            "Invalid value for parameter {name}: {n} is not less than or equal to {greatest}"
        );
    }
    // NaN is not either.
    if n >= least {
        return Ok(n);
    }
    bail!(
        Code::BAD_VALUE,
        "Invalid value for parameter {name}: {n} is not greater than or equal to {least}"
    )
}

/// Checks a comma-separated list of known names, and returns it without spaces.
fn listed(name: &str, text: &str, known: &[&str]) -> Result<String> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    match names.iter().find(|one| !known.contains(one)) {
        None => Ok(names.join(",")),
        Some(other) => bail!(
            Code::BAD_VALUE,
            "Invalid value for parameter {name}: '{other}' is not supported; it takes one or more of {}, \
             separated by commas",
            known.join(", ")
        ),
    }
}

fn bad_type(param: &Param) -> nagi_error::Error {
    let (name, expected) = (param.name, expected(param.kind));
    err!(Code::BAD_VALUE, "Failed to set parameter {name}: bad type; expected {expected}")
}

/// Applies `{verbosity: 1, storage: {verbosity: 2, journal: {verbosity: 3}}, query: 1}`; without a log it is only
/// checked. `path` is that of `spec`. Components within others that have no lines of their own are accepted.
pub(crate) fn set_verbosity(log: Option<&Log>, path: &str, spec: Doc<'_>) -> Result<()> {
    let at = |path: &str| COMPONENTS.iter().position(|row| row.1 == path);
    for element in spec {
        let (name, value) = (element.name(), element.value());
        let inner = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let level = truncate(value).map(|n| n as i32);
        match (level, value) {
            (Some(level), _) if inner == "verbosity" => {
                log.inspect(|log| log.set_verbosity(level));
            }
            (Some(level), _) if name == "verbosity" => {
                log.zip(at(path))
                    .inspect(|(log, index)| log.set_component_verbosity(*index, level));
            }
            (Some(level), _) if at(&inner).is_some() => {
                log.zip(at(&inner))
                    .inspect(|(log, index)| log.set_component_verbosity(*index, level));
            }
            (None, Value::Doc(spec)) if at(&inner).is_some() => set_verbosity(log, &inner, spec)?,
            (None, Value::Doc(_)) if !path.is_empty() => {}
            _ => bail!(
                Code::BAD_VALUE,
                "Invalid value for parameter logComponentVerbosity: invalid component or level: {name}"
            ),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_settings_checked() {
        assert!(PARAMETERS.is_sorted_by(|a, b| a.name < b.name));
        let set = |name: &str, value: &str| Parameters::new(&[(name.to_owned(), value.to_owned())]);
        assert!(set("enableTestCommands", "1").unwrap().bool("enableTestCommands"));
        assert_eq!(set("cursorTimeoutMillis", "5").unwrap().int("cursorTimeoutMillis"), 5);
        assert!(set("cursorTimeoutMillis", "0").is_err());
        assert!(set("cursorTimeoutMillis", "x").is_err());
        assert!(set("noSuchThing", "1").is_err());
        assert!(set("maxBSONDepth", "100").is_err());
        assert!(set("maxBSONDepth", "200").is_ok());
        for bad in ["", "plain", "scram-sha-256", "SCRAM-SHA-256,", "SCRAM-SHA-1,GSSAPI"] {
            let error = set("authenticationMechanisms", bad).err().unwrap();
            assert!(
                error.message().ends_with("SCRAM-SHA-1, SCRAM-SHA-256, separated by commas"),
                "{bad}"
            );
        }
        let one = set("authenticationMechanisms", " SCRAM-SHA-256").unwrap();
        assert!(one.lists("authenticationMechanisms", "SCRAM-SHA-256"));
        assert!(!one.lists("authenticationMechanisms", "SCRAM-SHA-1"));
        for (name, good, bad) in [
            ("internalQueryFrameworkControl", "trySbeEngine", "sbe"),
            ("internalQueryForceClassicEngine", "false", "no"),
            ("syncdelay", "30", "-1"),
            ("syncdelay", "0", "nan"),
            ("syncdelay", "2.5", "9000001"),
            ("writePeriodicNoops", "false", "2"),
            ("periodicNoopIntervalSecs", "1", "0"),
            ("maxTransactionLockRequestTimeoutMillis", "-1", "-2"),
            ("internalQueryExecYieldIterations", "-1", "x"),
            ("internalQueryExecYieldPeriodMS", "0", "-1"),
            ("connPoolMaxConnsPerHost", "500", "0"),
            ("tlsX509ExpirationWarningThresholdDays", "0", "-1"),
        ] {
            assert!(set(name, good).is_ok(), "{name}: {good}");
            assert!(set(name, bad).is_err(), "{name}: {bad}");
        }
        for bad in ["5", "nan", "yes", ""] {
            assert!(set("notablescan", bad).is_err(), "{bad}");
        }
        assert!(set("logComponentVerbosity", "{command: {verbosity: 2}, storage: 1}").is_ok());
        for bad in ["2", "{nothing: 1}", "{command: 'x'}", "{command: "] {
            assert!(set("logComponentVerbosity", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_tell_the_values() {
        let set = |name: &str, value: &str| Parameters::new(&[(name.to_owned(), value.to_owned())]);
        let algorithm = "storageEngineConcurrencyAdjustmentAlgorithm";
        for (name, value, text) in [
            (algorithm, "probing", "is not a valid value. Expected one of fixedConcurrent"),
            ("storageEngineConcurrentReadTransactions", "7.5", "from 5 to 100000, not '7.5'"),
            ("storageEngineConcurrentReadTransactions", "4", "4 is not greater than or equal to 5"),
        ] {
            let error = set(name, value).err().unwrap();
            assert!(error.message().contains(text), "{}", error.message());
        }
        let sizes = |file: &str, folder: &str| {
            let name = |what: &str| format!("diagnosticDataCollection{what}SizeMB");
            let settings =
                [(name("File"), file.to_owned()), (name("Directory"), folder.to_owned())];
            Parameters::new(&settings).err().map(|error| error.message().to_owned())
        };
        assert_eq!(sizes("400", "400"), None, "the order does not matter");
        let text = "diagnosticDataCollectionFileSizeMB must be less than or equal to '10' which is the current value \
                    of diagnosticDataCollectionDirectorySizeMB.";
        assert_eq!(sizes("11", "10").as_deref(), Some(text));
        let other = other_parameter_name("wiredTigerConcurrentReadTransactions");
        assert_eq!(other, Some("storageEngineConcurrentReadTransactions"));
        assert_eq!(other_parameter_name("quiet"), None);
        assert_eq!(similar_parameter("ttlMonitorEnable"), Some("ttlMonitorEnabled"));
        assert_eq!(parameter_values("notablescan").as_deref(), Some("true or false"));
    }

    #[test]
    fn texts_are_free_only_where_they_are_checked_elsewhere() {
        let free = |row: &&Param| matches!(row.kind, Text(_)) && row.effect != Kept;
        let names: Vec<_> = PARAMETERS.iter().filter(free).map(|row| row.name).collect();
        const NO_EFFECT: [&str; 2] =
            ["disabledSecureAllocatorDomains", "opensslDiffieHellmanParameters"];
        // The crate of TLS checks lists of ciphers and names of members.
        let ciphers = ["opensslCipherConfig", "opensslCipherSuiteConfig"];
        // Parameters without an effect take any text.
        let names: Vec<_> = names.into_iter().filter(|name| !NO_EFFECT.contains(name)).collect();
        let own = ["processUmask", "tlsCipherConfig", "tlsX509ClusterAuthDNOverride"];
        let folder = ["diagnosticDataCollectionDirectoryPath"];
        assert_eq!(names, [&folder[..], &ciphers[..], &own[..]].concat());
    }
}
