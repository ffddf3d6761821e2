//! The table of options. It is sorted by YAML key; options that exist only on the command line have the name of their
//! flag as the key.

use super::notes;

/// The values of an option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Bool,
    Int(i64, i64),
    Float(f64, f64),
    Text,
    OneOf(&'static [&'static str]),
}

/// How Nagi treats an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Honoured {
    Yes,
    /// Only these values are accepted, because they are what Nagi does.
    Only(&'static [&'static str]),
    /// Every value is accepted without an effect. For values other than `usual` the note is logged at the start.
    Instead {
        usual: &'static [&'static str],
        note: &'static str,
    },
    No,
}

/// An option.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) key: &'static str,
    /// The flag without dashes; empty if there is none.
    pub(crate) flag: &'static str,
    pub(crate) kind: Kind,
    /// The flag takes no argument and has this value.
    pub(crate) implied: Option<&'static str>,
    pub(crate) honoured: Honoured,
}

impl Kind {
    /// Returns the value in its canonical form, or a text with the expected values.
    pub(crate) fn check(self, value: &str) -> Result<String, String> {
        let value = value.trim();
        match self {
            Kind::Text => Ok(value.to_owned()),
            Kind::Bool => match value {
                "true" | "yes" | "on" | "1" => Ok("true".into()),
                "false" | "no" | "off" | "0" => Ok("false".into()),
                _ => Err(self.expected()),
            },
            Kind::Int(least, most) => match value.parse::<i64>() {
                Ok(n) if (least..=most).contains(&n) => Ok(n.to_string()),
                _ => Err(self.expected()),
            },
            Kind::Float(least, most) => match value.parse::<f64>() {
                Ok(n) if (least..=most).contains(&n) => Ok(n.to_string()),
                _ => Err(self.expected()),
            },
            Kind::OneOf(names) => match names.contains(&value) {
                true => Ok(value.to_owned()),
                false => Err(self.expected()),
            },
        }
    }
}

impl Kind {
    fn expected(self) -> String {
        format!("expected {}", self.accepted())
    }

    /// The accepted values, for messages.
    pub(crate) fn accepted(self) -> String {
        match self {
            Kind::Text => "text".into(),
            Kind::Bool => "true or false".into(),
            Kind::Int(least, most) => format!("an integer from {least} to {most}"),
            Kind::Float(least, most) => format!("a number from {least} to {most}"),
            Kind::OneOf(names) => format!("one of {}", names.join(", ")),
        }
    }
}

impl Row {
    /// The names of the option, for messages.
    pub(crate) fn names(&self) -> String {
        match (self.flag, self.in_file()) {
            ("", _) => format!("'{}'", self.key),
            (flag, true) => format!("'{}' (--{flag})", self.key),
            (flag, false) => format!("'--{flag}'"),
        }
    }

    /// Returns true if the option may be in a configuration file.
    pub(crate) fn in_file(&self) -> bool {
        self.key.contains('.')
    }
}

const fn yes(key: &'static str, flag: &'static str, kind: Kind) -> Row {
    Row { key, flag, kind, implied: None, honoured: Honoured::Yes }
}

const fn switch(key: &'static str, flag: &'static str, implied: &'static str) -> Row {
    Row { key, flag, kind: Bool, implied: Some(implied), honoured: Honoured::Yes }
}

const fn no(key: &'static str, flag: &'static str) -> Row {
    Row { key, flag, kind: Text, implied: None, honoured: Honoured::No }
}

const fn no_switch(key: &'static str, flag: &'static str) -> Row {
    Row { key, flag, kind: Text, implied: Some("true"), honoured: Honoured::No }
}

const fn only(
    key: &'static str,
    flag: &'static str,
    kind: Kind,
    values: &'static [&'static str],
) -> Row {
    Row { key, flag, kind, implied: None, honoured: Honoured::Only(values) }
}

const fn only_switch(
    key: &'static str,
    flag: &'static str,
    implied: &'static str,
    kind: Kind,
    values: &'static [&'static str],
) -> Row {
    Row { key, flag, kind, implied: Some(implied), honoured: Honoured::Only(values) }
}

const fn instead(
    key: &'static str,
    flag: &'static str,
    kind: Kind,
    usual: &'static [&'static str],
    note: &'static str,
) -> Row {
    Row { key, flag, kind, implied: None, honoured: Honoured::Instead { usual, note } }
}

const fn instead_switch(
    key: &'static str,
    flag: &'static str,
    usual: &'static [&'static str],
    note: &'static str,
) -> Row {
    let honoured = Honoured::Instead { usual, note };
    Row { key, flag, kind: Bool, implied: Some("true"), honoured }
}

use Kind::{Bool, Float, Int, OneOf, Text};

const FALSE: &[&str] = &["false"];
const TRUE: &[&str] = &["true"];
const AUTHORIZATION: Kind = OneOf(&["disabled", "enabled"]);
const CIPHER_MODES: Kind = OneOf(&["AES256-CBC", "AES256-CTR", "AES256-GCM"]);
const COMPRESSORS: Kind = OneOf(&["lz4", "none", "snappy", "zlib", "zstd"]);
const JOURNAL_COMPRESSORS: Kind = OneOf(&["none", "snappy", "zlib", "zstd"]);
const ENGINES: Kind =
    OneOf(&["ephemeralForTest", "inMemory", "lmdb", "mmapv1", "rocks", "tikv", "wiredTiger"]);
const GARBAGE_COLLECTION: Kind = OneOf(&["always", "auto", "never"]);
const TLS_MODES: Kind = OneOf(&[
    "allowSSL",
    "allowTLS",
    "disabled",
    "preferSSL",
    "preferTLS",
    "requireSSL",
    "requireTLS",
]);

#[rustfmt::skip]
pub(crate) static TABLE: &[Row] = &[
    Row {
        key: "alerts.enabled", flag: "noalerts",
        kind: Bool, implied: Some("false"), honoured: Honoured::Yes,
    },
    yes("alerts.rulesFile", "alertRules", Text),
    no("auditLog.auditEncryptionKeyIdentifier", "auditEncryptionKeyUID"),
    no("auditLog.compressionMode", "auditCompressionMode"),
    yes("auditLog.destination", "auditDestination", OneOf(&["console", "file", "syslog"])),
    yes("auditLog.filter", "auditFilter", Text),
    yes("auditLog.format", "auditFormat", OneOf(&["BSON", "JSON"])),
    no("auditLog.localAuditKeyFile", "auditLocalKeyFile"),
    yes("auditLog.path", "auditPath", Text),
    switch("auditLog.runtimeConfiguration", "auditRuntimeConfiguration", "true"),
    yes("auditLog.schema", "auditSchema", OneOf(&["OCSF", "mongo"])),
    only(
        "cloud.monitoring.free.state", "enableFreeMonitoring",
        OneOf(&["off", "on", "runtime"]), &["off", "runtime"],
    ),
    no("cloud.monitoring.free.tags", "freeMonitoringTag"),
    yes("config", "config", Text),
    only("configExpand", "configExpand", OneOf(&["exec", "none", "rest", "rest,exec"]), &["none"]),
    no_switch("configsvr", "configsvr"),
    switch("help", "help", "true"),
    yes("net.bindIp", "bind_ip", Text),
    switch("net.bindIpAll", "bind_ip_all", "true"),
    yes("net.compression.compressors", "networkMessageCompressors", Text),
    yes("net.console.bindIp", "consoleBindIp", Text),
    Row {
        key: "net.console.enabled", flag: "noconsole",
        kind: Bool, implied: Some("false"), honoured: Honoured::Yes,
    },
    yes("net.console.origins", "consoleOrigins", Text),
    yes("net.console.port", "consolePort", Int(1, 65535)),
    yes("net.ipAllowlist", "ipAllowlist", Text),
    switch("net.ipv6", "ipv6", "true"),
    yes("net.listenBacklog", "listenBacklog", Int(1, i32::MAX as i64)),
    yes("net.maxIncomingConnections", "maxConns", Int(1, 1_000_000)),
    no("net.maxIncomingConnectionsOverride", "maxConnsOverride"),
    yes("net.openTelemetry.CAFile", "otlpCAFile", Text),
    yes("net.openTelemetry.endpoint", "otlpEndpoint", Text),
    yes("net.openTelemetry.headersFile", "otlpHeadersFile", Text),
    yes("net.openTelemetry.intervalMillis", "otlpIntervalMillis", Int(100, 3_600_000)),
    yes("net.openTelemetry.sampleRatio", "otlpSampleRatio", Float(0.0, 1.0)),
    yes("net.port", "port", Int(0, 65535)),
    only(
        "net.serviceExecutor", "serviceExecutor",
        OneOf(&["adaptive", "synchronous"]), &["synchronous"],
    ),
    yes("net.ssl.CAFile", "sslCAFile", Text),
    yes("net.ssl.CRLFile", "sslCRLFile", Text),
    only("net.ssl.FIPSMode", "sslFIPSMode", Bool, FALSE),
    yes("net.ssl.PEMKeyFile", "sslPEMKeyFile", Text),
    yes("net.ssl.PEMKeyPassword", "sslPEMKeyPassword", Text),
    switch(
        "net.ssl.allowConnectionsWithoutCertificates", "sslAllowConnectionsWithoutCertificates", "true",
    ),
    switch("net.ssl.allowInvalidCertificates", "sslAllowInvalidCertificates", "true"),
    instead_switch(
        "net.ssl.allowInvalidHostnames", "sslAllowInvalidHostnames", FALSE, notes::HOST_NAMES,
    ),
    yes("net.ssl.clusterCAFile", "sslClusterCAFile", Text),
    yes("net.ssl.clusterFile", "sslClusterFile", Text),
    yes("net.ssl.clusterPassword", "sslClusterPassword", Text),
    yes("net.ssl.disabledProtocols", "sslDisabledProtocols", Text),
    yes("net.ssl.mode", "sslMode", TLS_MODES),
    switch("net.ssl.sslOnNormalPorts", "sslOnNormalPorts", "true"),
    switch(
        "net.ssl.weakCertificateValidation", "sslWeakCertificateValidation", "true",
    ),
    yes("net.tls.CAFile", "tlsCAFile", Text),
    yes("net.tls.CRLFile", "tlsCRLFile", Text),
    only("net.tls.FIPSMode", "tlsFIPSMode", Bool, FALSE),
    switch(
        "net.tls.allowConnectionsWithoutCertificates", "tlsAllowConnectionsWithoutCertificates", "true",
    ),
    switch("net.tls.allowInvalidCertificates", "tlsAllowInvalidCertificates", "true"),
    instead_switch(
        "net.tls.allowInvalidHostnames", "tlsAllowInvalidHostnames", FALSE, notes::HOST_NAMES,
    ),
    yes("net.tls.certificateKeyFile", "tlsCertificateKeyFile", Text),
    yes("net.tls.certificateKeyFilePassword", "tlsCertificateKeyFilePassword", Text),
    no("net.tls.certificateSelector", "tlsCertificateSelector"),
    no("net.tls.clusterAuthX509.attributes", ""),
    no("net.tls.clusterAuthX509.extensionValue", ""),
    yes("net.tls.clusterCAFile", "tlsClusterCAFile", Text),
    no("net.tls.clusterCertificateSelector", "tlsClusterCertificateSelector"),
    yes("net.tls.clusterFile", "tlsClusterFile", Text),
    yes("net.tls.clusterPassword", "tlsClusterPassword", Text),
    yes("net.tls.disabledProtocols", "tlsDisabledProtocols", Text),
    yes("net.tls.logVersions", "tlsLogVersions", Text),
    yes("net.tls.mode", "tlsMode", TLS_MODES),
    switch("net.tls.tlsOnNormalPorts", "tlsOnNormalPorts", "true"),
    only("net.transportLayer", "transportLayer", OneOf(&["asio", "legacy"]), &["asio"]),
    Row {
        key: "net.unixDomainSocket.enabled", flag: "nounixsocket",
        kind: Bool, implied: Some("false"), honoured: Honoured::Yes,
    },
    yes("net.unixDomainSocket.filePermissions", "filePermissions", Text),
    yes("net.unixDomainSocket.pathPrefix", "unixSocketPrefix", Text),
    only("net.wireObjectCheck", "objcheck", Bool, TRUE),
    instead_switch("nojournal", "nojournal", FALSE, notes::JOURNAL),
    switch("notablescan", "notablescan", "true"),
    no("operationProfiling.filter", ""),
    yes("operationProfiling.mode", "profile", OneOf(&["0", "1", "2", "all", "off", "slowOp"])),
    yes("operationProfiling.slowOpSampleRate", "slowOpSampleRate", Float(0.0, 1.0)),
    yes("operationProfiling.slowOpThresholdMs", "slowms", Int(0, i32::MAX as i64)),
    switch("processManagement.fork", "fork", "true"),
    yes("processManagement.pidFilePath", "pidfilepath", Text),
    yes("processManagement.timeZoneInfo", "timeZoneInfo", Text),
    switch("repair", "repair", "true"),
    only("replication.enableMajorityReadConcern", "enableMajorityReadConcern", Bool, TRUE),
    switch("replication.initiate", "initiate", "true"),
    yes("replication.oplogSizeMB", "oplogSize", Int(1, 1 << 40)),
    no("replication.replSet", ""),
    yes("replication.replSetName", "replSet", Text),
    switch("security.allowUnsafe", "allowUnsafe", "true"),
    Row {
        key: "security.authorization", flag: "auth",
        kind: AUTHORIZATION, implied: Some("enabled"), honoured: Honoured::Yes,
    },
    Row {
        key: "security.authorization", flag: "noauth",
        kind: AUTHORIZATION, implied: Some("disabled"), honoured: Honoured::Yes,
    },
    only(
        "security.clusterAuthMode", "clusterAuthMode",
        OneOf(&["keyFile", "sendKeyFile", "sendX509", "x509"]), &["keyFile"],
    ),
    instead(
        "security.clusterIpSourceAllowlist", "clusterIpSourceAllowlist", Text, &[], notes::MEMBERS,
    ),
    instead(
        "security.clusterIpSourceWhitelist", "clusterIpSourceWhitelist", Text, &[], notes::MEMBERS,
    ),
    switch("security.coreDumps", "coreDumps", "true"),
    switch("security.enableEncryption", "enableEncryption", "true"),
    only("security.encryptionCipherMode", "encryptionCipherMode", CIPHER_MODES, &["AES256-CTR"]),
    yes("security.encryptionKeyFile", "encryptionKeyFile", Text),
    yes("security.encryptionOldKeyFile", "encryptionOldKeyFile", Text),
    switch("security.javascriptEnabled", "noscripting", "false"),
    yes("security.keyFile", "keyFile", Text),
    yes("security.kmip.activateKeys", "kmipActivateKeys", Bool),
    yes("security.kmip.clientCertificateFile", "kmipClientCertificateFile", Text),
    yes("security.kmip.clientCertificatePassword", "kmipClientCertificatePassword", Text),
    no("security.kmip.clientCertificateSelector", "kmipClientCertificateSelector"),
    yes("security.kmip.connectRetries", "kmipConnectRetries", Int(0, 100)),
    yes("security.kmip.connectTimeoutMS", "kmipConnectTimeoutMS", Int(1, 600_000)),
    yes("security.kmip.keyIdentifier", "kmipKeyIdentifier", Text),
    no("security.kmip.keyStatePollingSeconds", "kmipKeyStatePollingSeconds"),
    yes("security.kmip.port", "kmipPort", Int(1, 65_535)),
    switch("security.kmip.rotateMasterKey", "kmipRotateMasterKey", "true"),
    yes("security.kmip.serverCAFile", "kmipServerCAFile", Text),
    yes("security.kmip.serverName", "kmipServerName", Text),
    switch("security.kmip.useLegacyProtocol", "kmipUseLegacyProtocol", "true"),
    yes("security.ldap.authz.queryTemplate", "ldapAuthzQueryTemplate", Text),
    only("security.ldap.bind.method", "ldapBindMethod", OneOf(&["sasl", "simple"]), &["simple"]),
    yes("security.ldap.bind.queryPassword", "ldapQueryPassword", Text),
    yes("security.ldap.bind.queryUser", "ldapQueryUser", Text),
    instead(
        "security.ldap.bind.saslMechanisms", "ldapBindSaslMechanisms", Text, &["DIGEST-MD5"], notes::SASL_BINDS,
    ),
    only_switch("security.ldap.bind.useOSDefaults", "ldapBindWithOSDefaults", "true", Bool, FALSE),
    yes("security.ldap.retryCount", "ldapRetryCount", Int(0, 100)),
    yes("security.ldap.servers", "ldapServers", Text),
    yes("security.ldap.timeoutMS", "ldapTimeoutMS", Int(0, 3_600_000)),
    yes("security.ldap.tlsCAFile", "ldapTlsCAFile", Text),
    yes("security.ldap.transportSecurity", "ldapTransportSecurity", OneOf(&["none", "tls"])),
    yes("security.ldap.userToDNMapping", "ldapUserToDNMapping", Text),
    yes("security.ldap.validateLDAPServerConfig", "ldapValidateLDAPServerConfig", Bool),
    switch("security.redactClientLogData", "redactClientLogData", "true"),
    no("security.sasl.hostName", ""),
    no("security.sasl.saslauthdSocketPath", ""),
    no("security.sasl.serviceName", ""),
    only_switch("security.transitionToAuth", "transitionToAuth", "true", Bool, FALSE),
    yes("setParameter", "setParameter", Text),
    no("sharding.archiveMovedChunks", "moveParanoia"),
    no("sharding.clusterRole", ""),
    no("sharding.configDB", "configdb"),
    no_switch("shardsvr", "shardsvr"),
    switch("shutdown", "shutdown", "true"),
    no("snmp.disabled", ""),
    no("snmp.master", "snmp-master"),
    no("snmp.subagent", "snmp-subagent"),
    switch("stopAtEndOfInput", "stopAtEndOfInput", "true"),
    yes("storage.cacheCompressor", "cacheCompressor", OneOf(&["lz4", "none", "zstd"])),
    yes("storage.cacheSizeGB", "cacheSizeGB", Float(0.25, 10_000.0)),
    yes("storage.cacheWarmUp", "cacheWarmUp", Bool),
    yes("storage.dbPath", "dbpath", Text),
    yes("storage.directIO", "directIO", Bool),
    instead_switch("storage.directoryPerDB", "directoryperdb", FALSE, notes::DIRECTORIES),
    yes("storage.engine", "storageEngine", ENGINES),
    yes("storage.inMemory.engineConfig.inMemorySizeGB", "inMemorySizeGB", Float(0.01, 10_000.0)),
    yes("storage.journal.commitIntervalMs", "journalCommitInterval", Int(1, 500)),
    instead_switch("storage.journal.enabled", "journal", TRUE, notes::JOURNAL),
    yes("storage.mmapv1.journal.commitIntervalMs", "", Int(1, 500)),
    only("storage.mmapv1.journal.debugFlags", "journalOptions", Int(0, 255), &["0"]),
    yes("storage.mmapv1.nsSize", "nssize", Int(1, 2047)),
    switch("storage.mmapv1.preallocDataFiles", "noprealloc", "false"),
    only_switch("storage.mmapv1.quota.enforced", "quota", "true", Bool, FALSE),
    no("storage.mmapv1.quota.maxFilesPerDB", "quotaFiles"),
    switch("storage.mmapv1.smallFiles", "smallfiles", "true"),
    yes("storage.oplogMinRetentionHours", "oplogMinRetentionHours", Float(0.0, 1e9)),
    yes("storage.syncPeriodSecs", "syncdelay", Int(0, 86_400)),
    yes("storage.tikv.caPath", "tikvCaPath", Text),
    yes("storage.tikv.certPath", "tikvCertPath", Text),
    yes("storage.tikv.garbageCollection", "tikvGarbageCollection", GARBAGE_COLLECTION),
    yes("storage.tikv.keyPath", "tikvKeyPath", Text),
    yes("storage.uri", "storageUri", Text),
    yes(
        "storage.wiredTiger.collectionConfig.blockCompressor", "wiredTigerCollectionBlockCompressor",
        COMPRESSORS,
    ),
    yes("storage.wiredTiger.collectionConfig.configString", "wiredTigerCollectionConfigString", Text),
    yes(
        "storage.wiredTiger.engineConfig.cacheSizeGB", "wiredTigerCacheSizeGB",
        Float(0.25, 10_000.0),
    ),
    yes(
        "storage.wiredTiger.engineConfig.cacheSizePct", "wiredTigerCacheSizePct",
        Float(1.0, 80.0),
    ),
    yes("storage.wiredTiger.engineConfig.configString", "wiredTigerEngineConfigString", Text),
    instead_switch(
        "storage.wiredTiger.engineConfig.directoryForIndexes", "wiredTigerDirectoryForIndexes",
        FALSE, notes::INDEX_DIRECTORIES,
    ),
    yes(
        "storage.wiredTiger.engineConfig.journalCompressor", "wiredTigerJournalCompressor",
        JOURNAL_COMPRESSORS,
    ),
    only(
        "storage.wiredTiger.engineConfig.maxCacheOverflowFileSizeGB", "wiredTigerMaxCacheOverflowFileSizeGB",
        Float(0.0, 1e6), &["0"],
    ),
    only(
        "storage.wiredTiger.engineConfig.statisticsLogDelaySecs", "wiredTigerStatisticsLogDelaySecs",
        Int(0, 100_000), &["0"],
    ),
    yes(
        "storage.wiredTiger.engineConfig.zstdCompressionLevel", "zstdDefaultCompressionLevel",
        Int(-7, 22),
    ),
    yes("storage.wiredTiger.indexConfig.configString", "wiredTigerIndexConfigString", Text),
    instead(
        "storage.wiredTiger.indexConfig.prefixCompression", "wiredTigerIndexPrefixCompression",
        Bool, TRUE, notes::PREFIXES,
    ),
    yes("systemLog.component.accessControl.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.command.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.control.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.ftdc.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.geo.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.index.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.network.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.query.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.replication.rollback.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.replication.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.sharding.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.storage.journal.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.storage.recovery.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.storage.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.transaction.verbosity", "", Int(-1, 5)),
    yes("systemLog.component.write.verbosity", "", Int(-1, 5)),
    Row {
        key: "systemLog.destination", flag: "syslog",
        kind: OneOf(&["file", "syslog"]), implied: Some("syslog"), honoured: Honoured::Yes,
    },
    switch("systemLog.logAppend", "logappend", "true"),
    yes("systemLog.logRotate", "logRotate", OneOf(&["rename", "reopen"])),
    yes("systemLog.path", "logpath", Text),
    switch("systemLog.quiet", "quiet", "true"),
    yes("systemLog.syslogFacility", "syslogFacility", Text),
    yes(
        "systemLog.timeStampFormat", "timeStampFormat",
        OneOf(&["iso8601-local", "iso8601-utc"]),
    ),
    only_switch("systemLog.traceAllExceptions", "traceExceptions", "true", Bool, FALSE),
    yes("systemLog.verbosity", "verbose", Int(0, 5)),
    no_switch("upgrade", "upgrade"),
    switch("version", "version", "true"),
];
