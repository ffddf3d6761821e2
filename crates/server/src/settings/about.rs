//! One line about each server parameter, with the unit of its value: for `nagi help parameters`, the manual page and
//! `docs/configuration.md`.

use super::params::{Effect, Kind, PARAMETERS, Param, SetAt, expected};

/// What users read about a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterAbout {
    /// Its name.
    pub name: &'static str,
    /// The accepted values, without the unit.
    pub values: String,
    /// The unit of a number; empty for other values and for plain counts.
    pub unit: &'static str,
    /// The default, as text.
    pub default: String,
    /// When it may be set: "at the start", "at the start and at run time", or "never".
    pub set_at: &'static str,
    /// One line: what it sets.
    pub meaning: &'static str,
    /// Why setting it has no effect, if that is so.
    pub no_effect: Option<&'static str>,
}

/// Describes every parameter, sorted by name.
pub fn about_parameters() -> impl Iterator<Item = ParameterAbout> {
    PARAMETERS.iter().zip(MEANINGS).map(|(param, (_, unit, meaning))| of(param, unit, meaning))
}

fn of(param: &Param, unit: &'static str, meaning: &'static str) -> ParameterAbout {
    ParameterAbout {
        name: param.name,
        values: expected(param.kind),
        unit,
        default: match param.kind {
            Kind::Bool(default) => default.to_string(),
            Kind::Int(default, ..) => default.to_string(),
            Kind::Double(default, ..) => default.to_string(),
            Kind::Special if param.set_at == SetAt::Never => "that of the data".to_owned(),
            Kind::Mode(_) | Kind::Directory(_) => "that of the option".to_owned(),
            Kind::Text("") | Kind::Providers | Kind::Special => "none".to_owned(),
            Kind::Text(default)
            | Kind::Size(default)
            | Kind::Word(default, _)
            | Kind::List(default, _) => default.to_owned(),
        },
        set_at: match param.set_at {
            SetAt::Startup => "at the start",
            SetAt::Running => "at run time",
            SetAt::Both => "at the start and at run time",
            SetAt::Never => "never: it is read only",
        },
        meaning,
        no_effect: match param.effect {
            Effect::Live | Effect::Applied => None,
            Effect::Kept => Some("only the default is accepted"),
            Effect::Told(why) => Some(why),
        },
    }
}

/// Name, unit and meaning, in the order of the table of parameters.
#[rustfmt::skip]
static MEANINGS: &[(&str, &str, &str)] = &[
    ("JWKSMinimumQuiescePeriodSecs", "seconds",
        "time after a fetch of a provider's keys before a token with an unknown key causes another"),
    ("allowDiskUseByDefault", "", "aggregations may write temporary files if their command does not say"),
    ("auditAuthorizationSuccess", "", "the audit log also records commands that were allowed"),
    ("auditQueueFullAction", "", "wait for room in a full queue of the audit log, or only count the lost message"),
    ("auditQueueWaitMaxMs", "milliseconds", "longest wait for room in the queue of the audit log"),
    ("authFailedDelayMaxMs", "milliseconds",
        "longest delay of the refusal after many failed logins of an address; 0 is no delay"),
    ("authFailedDelayMs", "milliseconds", "delay of the refusal of each failed login"),
    ("authSchemaVersion", "", "version of the stored users"),
    ("authenticationMechanisms", "", "mechanisms by which users may log in"),
    ("clientCursorMonitorFrequencySecs", "seconds", "time between searches for cursors that were not used for long"),
    ("connPoolMaxConnsPerHost", "connections", "limit of connections to another server"),
    ("cursorTimeoutMillis", "milliseconds", "time without use after which a cursor is closed"),
    ("diagnosticDataCollectionDirectoryPath", "directory",
        "directory of the files with diagnostic data; without it diagnostic.data in the data directory"),
    ("diagnosticDataCollectionDirectorySizeMB", "MB", "limit of the directory of diagnostic data"),
    ("diagnosticDataCollectionEnabled", "", "record diagnostic data in files"),
    ("diagnosticDataCollectionFileSizeMB", "MB", "size at which a file of diagnostic data is finished"),
    ("diagnosticDataCollectionPeriodMillis", "milliseconds", "time between two samples of diagnostic data"),
    ("diagnosticDataCollectionSamplesPerChunk", "samples", "samples that are compressed together"),
    ("diagnosticDataCollectionSamplesPerInterimUpdate", "samples",
        "samples after which the file metrics.interim is written, which a killed server leaves"),
    ("disabledSecureAllocatorDomains", "name,...", "kinds of secrets that mongod does not hold in locked memory"),
    ("enableLocalhostAuthBypass", "", "a client on this machine may create the first user without a login"),
    ("enableTestCommands", "", "accept commands that are for tests only"),
    ("enforceUserClusterSeparation", "",
        "refuse users whose certificate has the organization of the server's own certificate"),
    ("featureCompatibilityVersion", "", "version of MongoDB whose features the data may use"),
    ("honorSystemUmask", "", "create files with the umask of the process instead of for this user only"),
    ("indexMaxNumGeneratedKeysPerDocument", "keys", "limit of the keys of one document in one index"),
    ("internalDocumentSourceBucketAutoMaxMemoryBytes", "bytes",
        "memory of $bucketAuto from which it writes temporary files"),
    ("internalDocumentSourceDensifyMaxMemoryBytes", "bytes", "limit of the memory of $densify"),
    ("internalDocumentSourceGraphLookupMaxMemoryBytes", "bytes",
        "memory of $graphLookup from which it writes temporary files"),
    ("internalDocumentSourceGroupMaxMemoryBytes", "bytes", "memory of $group from which it writes temporary files"),
    ("internalDocumentSourceSetWindowFieldsMaxMemoryBytes", "bytes",
        "memory of $setWindowFields from which it writes temporary files"),
    ("internalInsertMaxBatchSize", "documents", "documents of an insert that are written together"),
    ("internalLookupStageIntermediateDocumentMaxSizeBytes", "bytes",
        "limit of the documents that one document joins in $lookup"),
    ("internalQueryExecYieldIterations", "steps", "steps after which a read lets others run"),
    ("internalQueryExecYieldPeriodMS", "milliseconds", "time after which a read lets others run"),
    ("internalQueryFLEAlwaysUseEncryptedCollScanMode", "",
        "test the values of all documents instead of using tags of encrypted fields"),
    ("internalQueryFLERewriteMemoryLimit", "bytes",
        "limit of the tags of a query on encrypted fields; above it values are tested"),
    ("internalQueryFacetBufferSizeBytes", "bytes", "limit of the memory of the input of $facet"),
    ("internalQueryForceClassicEngine", "", "use MongoDB's older executor of queries"),
    ("internalQueryFrameworkControl", "", "MongoDB's executor of queries"),
    ("internalQueryMaxAllowedDensifyDocs", "documents", "limit of the documents that $densify adds"),
    ("internalQueryMaxBlockingSortMemoryUsageBytes", "bytes", "memory of a sort from which it writes temporary files"),
    ("internalQueryParallelScan", "", "scan large collections with a second worker thread"),
    ("internalQueryRecordsAhead", "documents", "documents that an index scan reads ahead from the disk"),
    ("internalQueryStatsCacheSize", "", "limit of the memory of query statistics; % is of the memory budget"),
    ("internalQueryStatsRateLimit", "queries", "queries that query statistics record in a second; -1: all"),
    ("internalTextOrStageMaxMemoryBytes", "bytes", "limit of the memory of a text search"),
    ("jsHeapLimitMB", "MB", "limit of the memory of one JavaScript engine"),
    ("ldapAuthzQueryTemplate", "", "LDAP query for the groups of a user, as --ldapAuthzQueryTemplate"),
    ("ldapConcurrentRequestsMax", "requests", "requests to LDAP servers that run at the same time; others wait"),
    ("ldapConnectionPoolHostRefreshIntervalMillis", "milliseconds", "time between checks of LDAP servers"),
    ("ldapConnectionPoolIdleHostTimeoutSecs", "seconds", "time without use after which a connection to LDAP is closed"),
    ("ldapConnectionPoolMaximumConnectionsInProgressPerHost", "connections",
        "connections to one LDAP server that are opened at the same time"),
    ("ldapConnectionPoolMaximumConnectionsPerHost", "connections", "limit of the connections to one LDAP server"),
    ("ldapConnectionPoolMinimumConnectionsPerHost", "connections", "connections to one LDAP server that stay open"),
    ("ldapConnectionPoolUseLatencyForHostPriority", "", "try the LDAP server first that answers fastest"),
    ("ldapForceMultiThreadMode", "", "call OpenLDAP's library on several threads at the same time"),
    ("ldapQueryPassword", "", "password of ldapQueryUser, as --ldapQueryPassword; it is never shown"),
    ("ldapQueryUser", "", "distinguished name by which the server logs in to LDAP, as --ldapQueryUser"),
    ("ldapRetryCount", "retries", "how often LDAP servers are tried again after a network error, as --ldapRetryCount"),
    ("ldapServers", "", "LDAP servers that check the users' passwords, as --ldapServers"),
    ("ldapShouldRefreshUserCacheEntries", "", "refresh the groups of LDAP users, instead of forgetting them"),
    ("ldapTimeoutMS", "milliseconds", "longest time for a request to the LDAP servers, as --ldapTimeoutMS"),
    ("ldapUseConnectionPool", "", "keep connections to LDAP servers open for other requests"),
    ("ldapUserCacheInvalidationInterval", "seconds",
        "time after which the groups of LDAP users are forgotten, if they are not refreshed"),
    ("ldapUserCacheRefreshInterval", "seconds", "time after which the groups of LDAP users are read again"),
    ("ldapUserCacheStalenessInterval", "seconds",
        "age up to which the groups of an LDAP user are used for new logins if they cannot be refreshed"),
    ("ldapUserToDNMapping", "", "rules from names of users to distinguished names, as --ldapUserToDNMapping"),
    ("localLogicalSessionTimeoutMinutes", "minutes", "time without use after which a session ends"),
    ("logComponentVerbosity", "", "verbosity of the log by component"),
    ("logLevel", "level", "verbosity of the log, as --verbose"),
    ("logicalSessionRefreshMillis", "milliseconds", "time between writes of the sessions in use"),
    ("maxBSONDepth", "levels", "limit of the nesting of documents"),
    ("maxIndexBuildMemoryUsageMegabytes", "MB", "memory for the keys of an index build, which are then sorted on disk"),
    ("maxLogSizeKB", "KB", "length above which an attribute in the log is shortened"),
    ("maxNumActiveUserIndexBuilds", "builds", "index builds that run at the same time; others wait"),
    ("maxSessions", "sessions", "limit of the sessions that are remembered"),
    ("maxTransactionLockRequestTimeoutMillis", "milliseconds", "time that a transaction waits for a lock"),
    ("minSnapshotHistoryWindowInSeconds", "seconds",
        "how far back reads with read concern snapshot and atClusterTime may go"),
    ("notablescan", "", "refuse queries that scan a whole collection, as --notablescan"),
    ("ocspCacheSize", "responses", "OCSP responses that are remembered"),
    ("ocspEnabled", "", "staple and ask for OCSP responses"),
    ("ocspStaplingRefreshPeriodSecs", "seconds", "time between refreshes of the stapled OCSP response"),
    ("ocspValidationRefreshPeriodSecs", "seconds", "older name of ocspStaplingRefreshPeriodSecs"),
    ("oidcIdentityProviders", "", "the identity providers whose tokens MONGODB-OIDC accepts"),
    ("opensslCipherConfig", "", "cipher suites of TLS 1.2, in the syntax and order of OpenSSL"),
    ("opensslCipherSuiteConfig", "", "cipher suites of TLS 1.3, separated by colons"),
    ("opensslDiffieHellmanParameters", "file", "parameters of finite-field Diffie-Hellman"),
    ("periodicNoopIntervalSecs", "seconds", "time between empty entries of the oplog"),
    ("processUmask", "", "umask in octal with which files are created, such as 027"),
    ("quiet", "", "log less, as --quiet"),
    ("redactClientLogData", "", "leave the clients' data out of the log"),
    ("reportOpWriteConcernCountersInServerStatus", "", "count writes by their write concern, in serverStatus"),
    ("requireApiVersion", "", "refuse commands without apiVersion"),
    ("scramIterationCount", "rounds", "iteration count of new passwords for SCRAM-SHA-1"),
    ("scramSHA256IterationCount", "rounds", "iteration count of new passwords for SCRAM-SHA-256"),
    ("shutdownTimeoutMillisForSignaledShutdown", "milliseconds",
        "time that operations have to finish when a signal stops a member of a replica set"),
    ("sslMode", "", "older name of tlsMode"),
    ("sslWithholdClientCertificate", "", "older name of tlsWithholdClientCertificate"),
    ("storageEngineConcurrencyAdjustmentAlgorithm", "", "whether the number of tickets is adjusted to the load"),
    ("storageEngineConcurrentReadTransactions", "tickets", "reads that run in the storage engine at the same time"),
    ("storageEngineConcurrentWriteTransactions", "tickets", "writes that run in the storage engine at the same time"),
    ("suppressNoTLSPeerCertificateWarning", "", "do not log clients without a certificate"),
    ("syncdelay", "seconds", "time between writes of the data files"),
    ("tlsCipherConfig", "", "another name of opensslCipherConfig"),
    ("tlsMode", "", "the next stricter mode of TLS, as --tlsMode, without a restart"),
    ("tlsOCSPSlowResponderWarningSecs", "seconds", "time after which a slow OCSP responder is logged"),
    ("tlsOCSPStaplingTimeoutSecs", "seconds", "limit of the wait for an OCSP response to staple"),
    ("tlsOCSPVerifyTimeoutSecs", "seconds", "limit of the wait for an OCSP response about a peer"),
    ("tlsUseSystemCA", "", "trust the system's authorities for certificates of clients"),
    ("tlsWithholdClientCertificate", "", "show no certificate to other servers"),
    ("tlsX509ClusterAuthDNOverride", "", "subject whose O, OU and DC are also those of members' certificates"),
    ("tlsX509ExpirationWarningThresholdDays", "days",
        "time before the end of a certificate from which it is warned of"),
    ("transactionLifetimeLimitSeconds", "seconds", "time after which a transaction is aborted"),
    ("ttlMonitorEnabled", "", "delete documents that expire by a TTL index"),
    ("ttlMonitorSleepSecs", "seconds", "time between searches for expired documents"),
    ("wiredTigerConcurrentReadTransactions", "tickets", "older name of storageEngineConcurrentReadTransactions"),
    ("wiredTigerConcurrentWriteTransactions", "tickets", "older name of storageEngineConcurrentWriteTransactions"),
    ("writePeriodicNoops", "", "write empty entries to the oplog while nothing changes"),
];

#[test]
fn every_parameter_has_a_line() {
    let known: Vec<&str> = PARAMETERS.iter().map(|param| param.name).collect();
    let described: Vec<&str> = MEANINGS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(described, known, "MEANINGS has a row for each parameter, in the same order");
    for about in about_parameters() {
        assert!((5..=96).contains(&about.meaning.len()), "{}", about.name);
        assert!(!about.default.is_empty() && !about.values.is_empty(), "{}", about.name);
        let is_number = about.values.starts_with("a number") || about.values.starts_with("an int");
        let has_unit = !about.unit.is_empty() || about.name == "authSchemaVersion";
        assert!(!is_number || has_unit, "{} has no unit", about.name);
    }
}
