//! Texts about options: placeholder, default and meaning of each, and longer explanations of some.
//!
//! `nagi help`, the manual page, the shell completions and `docs/configuration.md` are made of these rows and of the
//! table of options. A test checks that every option has a row.

use super::table::Row;

/// The description of an option.
#[derive(Debug)]
pub(crate) struct About {
    /// The flag without dashes, or the key of an option without a flag.
    pub(crate) name: &'static str,
    /// The placeholder of the value; a number's is its unit. Empty for flags without a value, and for values that are
    /// listed instead.
    pub(crate) value: &'static str,
    /// The value that applies if the option is not given.
    pub(crate) default: &'static str,
    /// One line: what the option sets.
    pub(crate) meaning: &'static str,
}

/// The placeholders that are units of measurement.
const UNITS: &[&str] = &["GiB", "MB", "hours", "milliseconds", "percent", "seconds"];

impl About {
    /// The unit of a number, if it is a measurement.
    pub(crate) fn unit(&self) -> Option<&'static str> {
        UNITS.contains(&self.value).then_some(self.value)
    }
}

/// Short forms of flags.
pub(crate) const SHORT: &[(&str, &str)] = &[("config", "-f"), ("help", "-h"), ("verbose", "-v")];

/// The description of a row of the table.
pub(crate) fn about(row: &Row) -> &'static About {
    let name = if row.flag.is_empty() { row.key } else { row.flag };
    ABOUT.iter().find(|about| about.name == name).unwrap_or(&UNKNOWN)
}

/// The longer explanation of an option, if there is one.
pub(crate) fn more(about: &About) -> Option<&'static str> {
    MORE.iter().find(|(name, _)| *name == about.name).map(|(_, text)| *text)
}

/// Only for the compiler: a test checks that every row has a description.
const UNKNOWN: About = About { name: "", value: "", default: "", meaning: "" };

const fn about_row(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> About {
    About { name, value, default, meaning }
}

/// A refused option.
const fn refused(name: &'static str, value: &'static str, meaning: &'static str) -> About {
    About { name, value, default: "not set", meaning }
}

use about_row as is;

/// Sorted by name, ignoring case.
#[rustfmt::skip]
static ABOUT: &[About] = &[
    is("alertRules", "file", "none: the built-in rules", "rules of alerts and their actions: YAML"),
    is("allowUnsafe", "", "false", "start though other machines can use the server without a login"),
    refused("auditCompressionMode", "mode", "compressor of the audit log's file"),
    is("auditDestination", "", "none: no audit log", "destination of the audit log"),
    refused("auditEncryptionKeyUID", "key", "key on a KMIP server that encrypts the audit log"),
    is("auditFilter", "document", "{}: all", "messages that the audit log records"),
    is("auditFormat", "", "JSON", "format of the audit log's file"),
    refused("auditLocalKeyFile", "file", "key that encrypts the audit log"),
    is("auditPath", "file", "none", "file of the audit log"),
    is("auditRuntimeConfiguration", "", "false", "let the command setAuditConfig set what the audit log records"),
    is("auditSchema", "", "mongo", "fields of the audit log's messages: MongoDB's or those of OCSF"),
    is("auth", "", "disabled; enabled with --keyFile", "clients must log in and need privileges"),
    is("bind_ip", "address,...", "localhost",
        "addresses and paths of Unix sockets to listen at; * is every IPv4 address"),
    is("bind_ip_all", "", "false", "listen at all addresses of the machine"),
    is("cacheCompressor", "", "lz4", "compressor of blocks that leave the cache but are kept in memory"),
    is("cacheSizeGB", "GiB", "3/4 of the memory; with --directIO false half of the memory beyond 1 GiB",
       "memory of the whole server, not only of its caches"),
    is("cacheWarmUp", "", "true", "fill the cache in the background after the start"),
    is("clusterAuthMode", "", "keyFile", "how members of a replica set log in to each other"),
    is("clusterIpSourceAllowlist", "address,...", "none", "addresses from which other members may log in"),
    is("clusterIpSourceWhitelist", "address,...", "none", "older name of --clusterIpSourceAllowlist"),
    is("config", "file", "none", "configuration file: YAML, or lines name=value"),
    refused("configdb", "set/host,...", "config servers of a sharded cluster"),
    is("configExpand", "", "none", "expansion of values in the configuration file"),
    refused("configsvr", "", "run a config server of a sharded cluster"),
    is("consoleBindIp", "address,...", "127.0.0.1",
        "addresses of the web console and of /metrics; beyond this machine only behind a proxy with TLS"),
    is("consoleOrigins", "origin,...", "none",
        "origins of proxies in front of the web console, such as https://db.example.com"),
    is("consolePort", "port", "the port of --port + 1000", "port of the web console and of /metrics"),
    is("coreDumps", "", "false", "write core dumps although the memory has keys and passwords, to examine a crash"),
    is("dbpath", "directory", "/data/db", "data directory"),
    is("directIO", "", "true", "read data files with O_DIRECT, without the page cache"),
    is("directoryperdb", "", "false", "a directory for the files of each database"),
    is("enableEncryption", "", "false", "encrypt the data files; the data directory must be empty at the first start"),
    is("enableFreeMonitoring", "", "off", "MongoDB's free monitoring service, which has ended"),
    is("enableMajorityReadConcern", "", "true", "support of read concern majority"),
    is("encryptionCipherMode", "", "AES256-CTR", "cipher of encrypted data files"),
    is("encryptionKeyFile", "file", "none",
        "file with the master key of encrypted data files, or env:NAME, or credential:NAME"),
    is("encryptionOldKeyFile", "file", "none", "master key until now, which the key of --encryptionKeyFile replaces"),
    is("filePermissions", "mode", "0700", "permissions of the Unix socket, in octal"),
    is("fork", "", "false", "run in the background; needs --logpath or --syslog"),
    refused("freeMonitoringTag", "tag", "tag of this server in MongoDB's free monitoring service"),
    is("help", "", "false", "print the help and exit"),
    is("initiate", "", "false", "at the first start, initiate the replica set with this server as its only member"),
    is("inMemorySizeGB", "GiB", "half of the memory beyond 1 GiB",
        "largest amount of data of --storageEngine inMemory"),
    is("ipAllowlist", "address,...", "none",
       "addresses and networks (CIDR) from which clients may connect; Unix sockets are not concerned"),
    is("ipv6", "", "false", "also listen at IPv6 addresses"),
    is("journal", "", "true", "write the journal, which recovers writes after a crash"),
    is("journalCommitInterval", "milliseconds", "100", "time between syncs of the journal to the disk"),
    is("journalOptions", "flags", "0", "MMAPv1's flags for debugging its journal"),
    is("keyFile", "file", "none", "key file of the replica set; turns --auth on"),
    is("kmipActivateKeys", "", "true", "activate new keys of --kmipServerName, and accept only active ones"),
    is("kmipClientCertificateFile", "file", "none", "certificate and key of this server for the KMIP server, in PEM"),
    is("kmipClientCertificatePassword", "password", "none", "password of --kmipClientCertificateFile"),
    refused("kmipClientCertificateSelector", "name=value", "certificate in the store of Windows or macOS"),
    is("kmipConnectRetries", "count", "0", "further attempts to reach the KMIP servers"),
    is("kmipConnectTimeoutMS", "milliseconds", "5000", "time to connect to a KMIP server, and for its answer"),
    is("kmipKeyIdentifier", "id", "the key of the data directory; at the first start a new key",
        "id of the master key on the KMIP server"),
    refused("kmipKeyStatePollingSeconds", "seconds", "time between checks of the key's state on the KMIP server"),
    is("kmipPort", "port", "5696", "port of the KMIP servers"),
    is("kmipRotateMasterKey", "", "false", "let the KMIP server make a new master key, use it from now on, and exit"),
    is("kmipServerCAFile", "file", "none", "authorities of the KMIP servers' certificates, in PEM"),
    is("kmipServerName", "host,...", "none", "KMIP servers that have the master key; the first that answers is used"),
    is("kmipUseLegacyProtocol", "", "false", "version 1.0 of the protocol KMIP instead of 1.2"),
    is("ldapAuthzQueryTemplate", "query", "none",
        "LDAP query for the groups of a user, which are its roles: {USER}, {PROVIDED_USER}"),
    is("ldapBindMethod", "", "simple", "how the server logs in to LDAP servers"),
    is("ldapBindSaslMechanisms", "name,...", "DIGEST-MD5", "SASL mechanisms of logins to LDAP servers"),
    is("ldapBindWithOSDefaults", "", "false", "log in to LDAP servers as the user of Windows"),
    is("ldapQueryPassword", "password", "none", "password of --ldapQueryUser"),
    is("ldapQueryUser", "name", "none", "distinguished name by which the server logs in to LDAP servers for queries"),
    is("ldapRetryCount", "number", "0", "how often the LDAP servers are tried again after a network error"),
    is("ldapServers", "host:port,...", "none", "LDAP servers that check the users' passwords"),
    is("ldapTimeoutMS", "milliseconds", "10000", "longest time for a request to the LDAP servers"),
    is("ldapTlsCAFile", "file", "that of LDAPTLS_CACERT, or the system's",
        "certificates of the authorities that sign the LDAP servers' certificates"),
    is("ldapTransportSecurity", "", "tls", "encryption of connections to LDAP servers"),
    is("ldapUserToDNMapping", "json", "none", "rules from names of users to distinguished names"),
    is("ldapValidateLDAPServerConfig", "", "true", "start only if an LDAP server answers"),
    is("listenBacklog", "connections", "4096", "connections that may wait to be accepted"),
    is("logappend", "", "false", "append to an existing log file instead of renaming it"),
    is("logpath", "file", "standard output", "log file"),
    is("logRotate", "", "rename", "what the command logRotate and SIGUSR1 do with the log file"),
    is("maxConns", "connections", "65536", "largest number of open connections"),
    refused("maxConnsOverride", "address,...", "addresses whose connections are not counted"),
    refused("moveParanoia", "", "keep the files of chunks that moved to another shard"),
    refused("net.tls.clusterAuthX509.attributes", "", "attributes of the certificates of other members"),
    refused("net.tls.clusterAuthX509.extensionValue", "", "extension of the certificates of other members"),
    is("networkMessageCompressors", "name,...", "snappy,zstd,zlib",
       "compressors of messages, in order of preference: snappy, zstd, zlib, or disabled"),
    is("noalerts", "", "true", "rules over the server's figures tell when it needs attention; --noalerts: none"),
    is("noauth", "", "disabled; enabled with --keyFile", "clients need not log in"),
    is("noconsole", "", "true", "web console and /metrics at --consolePort; --noconsole: none"),
    is("nojournal", "", "false", "do not write a journal"),
    is("noprealloc", "", "true", "data files of mmapv1 grow ahead of need; --noprealloc: only when they are full"),
    is("noscripting", "", "true", "requests may run JavaScript; --noscripting refuses it"),
    is("notablescan", "", "false", "refuse queries that scan a whole collection"),
    is("nounixsocket", "", "true", "listen at a Unix socket; --nounixsocket: only at TCP ports"),
    is("nssize", "MB", "none", "size of the namespace files of MMAPv1; there are none"),
    is("objcheck", "", "true", "check that documents of clients are well-formed"),
    refused("operationProfiling.filter", "", "operations that are profiled and logged as slow"),
    is("oplogMinRetentionHours", "hours", "0", "time for which entries of the oplog are kept at least"),
    is("oplogSize", "MB", "5 % of the free disk space, at least 990 and at most 51200", "size of a new oplog"),
    is("otlpCAFile", "file", "the authorities of the system",
        "authorities of the OpenTelemetry collector's certificate"),
    is("otlpEndpoint", "URL", "none: nothing is sent",
        "OpenTelemetry collector to send traces and metrics to, by OTLP over HTTP"),
    is("otlpHeadersFile", "file", "none", "headers for the OpenTelemetry collector, such as a token"),
    is("otlpIntervalMillis", "milliseconds", "10000",
        "time between two messages of metrics to the OpenTelemetry collector"),
    is("otlpSampleRatio", "share", "0.01", "share of operations that are sent to the OpenTelemetry collector as spans"),
    is("pidfilepath", "file", "none", "file for the process id, which is removed at a clean shutdown"),
    is("port", "number", "27017", "TCP port; 0 chooses a free one, another at each start"),
    is("profile", "", "off", "profiler of all databases: 0 or off, 1 or slowOp for slow operations, 2 or all"),
    is("quiet", "", "false", "log less: no connections, logins and drops"),
    is("quota", "", "false", "limit of the number of files of a database"),
    refused("quotaFiles", "files", "number of files of a database with --quota"),
    is("redactClientLogData", "", "false", "leave the clients' data out of the log"),
    is("repair", "", "false", "save the readable data of a damaged data directory, then exit"),
    refused("replication.replSet", "", "older name of replication.replSetName"),
    is("replSet", "name", "none", "name of the replica set, whose only member is this server"),
    refused("security.sasl.hostName", "", "host name of this server for SASL"),
    refused("security.sasl.saslauthdSocketPath", "", "socket of saslauthd, which checks the users' passwords"),
    refused("security.sasl.serviceName", "", "name of this service for SASL"),
    is("serviceExecutor", "", "synchronous", "how threads serve connections"),
    is("setParameter", "name=value", "none", "set a server parameter; may be repeated (nagi help parameters)"),
    refused("sharding.clusterRole", "", "role of this server in a sharded cluster"),
    refused("shardsvr", "", "run a shard of a sharded cluster"),
    is("shutdown", "", "false", "stop the server that runs on --dbpath"),
    is("slowms", "milliseconds", "100", "duration from which an operation is slow: it is logged and profiled"),
    is("slowOpSampleRate", "share", "1", "share of the slow operations that is logged and profiled"),
    is("smallfiles", "", "false", "files of mmapv1 grow in smaller steps, journal files have 16 MB instead of 64"),
    refused("snmp-master", "", "run as SNMP master agent"),
    refused("snmp-subagent", "", "run as SNMP subagent"),
    refused("snmp.disabled", "", "turn the SNMP agent off"),
    is("sslAllowConnectionsWithoutCertificates", "", "false", "older name of --tlsAllowConnectionsWithoutCertificates"),
    is("sslAllowInvalidCertificates", "", "false", "older name of --tlsAllowInvalidCertificates"),
    is("sslAllowInvalidHostnames", "", "false", "older name of --tlsAllowInvalidHostnames"),
    is("sslCAFile", "file", "none", "older name of --tlsCAFile"),
    is("sslClusterCAFile", "file", "none", "older name of --tlsClusterCAFile"),
    is("sslClusterFile", "file", "none", "older name of --tlsClusterFile"),
    is("sslClusterPassword", "password", "none", "older name of --tlsClusterPassword"),
    is("sslCRLFile", "file", "none", "older name of --tlsCRLFile"),
    is("sslDisabledProtocols", "name,...", "TLS1_0,TLS1_1", "older name of --tlsDisabledProtocols"),
    is("sslFIPSMode", "", "false", "older name of --tlsFIPSMode"),
    is("sslMode", "mode", "disabled", "older name of --tlsMode"),
    is("sslOnNormalPorts", "", "false", "older name of --tlsMode requireTLS"),
    is("sslPEMKeyFile", "file", "none", "older name of --tlsCertificateKeyFile"),
    is("sslPEMKeyPassword", "password", "none", "older name of --tlsCertificateKeyFilePassword"),
    is("sslWeakCertificateValidation", "", "false", "oldest name of --tlsAllowConnectionsWithoutCertificates"),
    is("stopAtEndOfInput", "", "false", "stop when standard input ends, as when the process that writes to it does"),
    is("storage.mmapv1.journal.commitIntervalMs", "milliseconds", "100",
        "older name of storage.journal.commitIntervalMs"),
    is("storageEngine", "name", "wiredTiger, or the engine of the data directory", "storage engine"),
    is("storageUri", "address", "none", "address of the cluster that has the data, for --storageEngine tikv"),
    is("syncdelay", "seconds", "60",
        "longest time for which a commit of mmapv1 is in the journal only; 0: no limit"),
    is("syslog", "", "standard output",
        "where the log is written: file (systemLog.path) or syslog; --syslog is syslog"),
    is("syslogFacility", "name", "user", "facility of messages to the system's log, such as daemon or local0"),
    is("systemLog.component.accessControl.verbosity", "level", "-1, as --verbose",
        "verbosity of access control: logins, refusals"),
    is("systemLog.component.command.verbosity", "level", "-1, as --verbose", "verbosity of commands"),
    is("systemLog.component.control.verbosity", "level", "-1, as --verbose",
        "verbosity of start, shutdown and settings"),
    is("systemLog.component.ftdc.verbosity", "level", "-1, as --verbose",
        "verbosity of the collection of diagnostic data"),
    is("systemLog.component.geo.verbosity", "level", "-1, as --verbose", "verbosity of geospatial indexes"),
    is("systemLog.component.index.verbosity", "level", "-1, as --verbose", "verbosity of indexes and their builds"),
    is("systemLog.component.network.verbosity", "level", "-1, as --verbose", "verbosity of connections"),
    is("systemLog.component.query.verbosity", "level", "-1, as --verbose", "verbosity of the choice of plans"),
    is("systemLog.component.replication.rollback.verbosity", "level", "-1, as --verbose", "verbosity of rollbacks"),
    is("systemLog.component.replication.verbosity", "level", "-1, as --verbose", "verbosity of the replica set"),
    is("systemLog.component.sharding.verbosity", "level", "-1, as --verbose", "verbosity of sharding"),
    is("systemLog.component.storage.journal.verbosity", "level", "-1, as --verbose", "verbosity of the journal"),
    is("systemLog.component.storage.recovery.verbosity", "level", "-1, as --verbose",
        "verbosity of the recovery at the start"),
    is("systemLog.component.storage.verbosity", "level", "-1, as --verbose", "verbosity of the storage engine"),
    is("systemLog.component.transaction.verbosity", "level", "-1, as --verbose", "verbosity of transactions"),
    is("systemLog.component.write.verbosity", "level", "-1, as --verbose", "verbosity of writes"),
    is("tikvCaPath", "file", "none", "authorities of the certificates of the TiKV cluster, in PEM"),
    is("tikvCertPath", "file", "none", "certificate of this server for the TiKV cluster, in PEM"),
    is("tikvGarbageCollection", "", "auto", "whether this server has old versions in the TiKV cluster removed"),
    is("tikvKeyPath", "file", "none", "private key of --tikvCertPath"),
    is("timeStampFormat", "", "iso8601-local", "times in the log: local time or UTC"),
    is("timeZoneInfo", "directory", "none", "directory of time zones; it must exist, but the built-in zones are used"),
    is("tlsAllowConnectionsWithoutCertificates", "", "false", "accept clients without a certificate"),
    is("tlsAllowInvalidCertificates", "", "false", "accept clients whose certificate is not valid"),
    is("tlsAllowInvalidHostnames", "", "false", "accept certificates of another host"),
    is("tlsCAFile", "file", "none", "certificates of the authorities that sign the clients' certificates"),
    is("tlsCertificateKeyFile", "file", "none", "certificate, its chain and key of this server, in one PEM file"),
    is("tlsCertificateKeyFilePassword", "password", "none", "password of --tlsCertificateKeyFile"),
    refused("tlsCertificateSelector", "name=value", "certificate in the store of Windows or macOS"),
    is("tlsClusterCAFile", "file", "that of --tlsCAFile",
        "authorities of the clients' certificates instead of --tlsCAFile"),
    refused("tlsClusterCertificateSelector", "name=value",
        "certificate for other members in the store of Windows or macOS"),
    is("tlsClusterFile", "file", "that of --tlsCertificateKeyFile",
        "certificate and key of this server for other members"),
    is("tlsClusterPassword", "password", "none", "password of --tlsClusterFile"),
    is("tlsCRLFile", "file", "none", "list of revoked certificates"),
    is("tlsDisabledProtocols", "name,...", "TLS1_0,TLS1_1", "versions of TLS that are not accepted"),
    is("tlsFIPSMode", "", "false", "FIPS mode of TLS"),
    is("tlsLogVersions", "name,...", "none", "versions of TLS whose connections are logged"),
    is("tlsMode", "mode", "disabled", "encryption of connections"),
    is("tlsOnNormalPorts", "", "false", "older name of --tlsMode requireTLS"),
    is("traceExceptions", "", "false", "log the stack of every exception"),
    is("transitionToAuth", "", "false", "serve clients with and without login"),
    is("transportLayer", "", "asio", "implementation of the network layer"),
    is("unixSocketPrefix", "directory", "/tmp", "directory of the Unix socket"),
    refused("upgrade", "", "upgrade the data files of an earlier release"),
    is("verbose", "level", "0", "verbosity of the log; -v is 1, -vv is 2"),
    is("version", "", "false", "print the version and exit"),
    is("wiredTigerCacheSizeGB", "GiB", "as --cacheSizeGB", "memory of the whole server: another name of --cacheSizeGB"),
    is("wiredTigerCacheSizePct", "percent", "none", "memory of the whole server, as a share of the machine's memory"),
    is("wiredTigerCollectionBlockCompressor", "", "lz4", "compressor of documents"),
    is("wiredTigerCollectionConfigString", "key=value,...", "none",
        "WiredTiger's settings of collections: block_compressor"),
    is("wiredTigerDirectoryForIndexes", "", "false", "a directory for the files of indexes"),
    is("wiredTigerEngineConfigString", "key=value,...", "none",
        "WiredTiger's settings of the engine: cache_size, log=(compressor=...)"),
    is("wiredTigerIndexConfigString", "key=value,...", "none", "WiredTiger's settings of indexes: block_compressor"),
    is("wiredTigerIndexPrefixCompression", "", "true", "store the beginning that index keys share only once"),
    is("wiredTigerJournalCompressor", "", "none", "compressor of the journal; snappy and zlib leave it uncompressed"),
    is("wiredTigerMaxCacheOverflowFileSizeGB", "GiB", "0", "limit of WiredTiger's cache overflow file; 0 is none"),
    is("wiredTigerStatisticsLogDelaySecs", "seconds", "0",
        "time between statistics that WiredTiger writes to a file; 0 is never"),
    is("zstdDefaultCompressionLevel", "level", "3", "level of zstd: higher levels compress better and take more time"),
];

/// Longer explanations, by the name in [`ABOUT`]. An empty line separates paragraphs.
#[rustfmt::skip]
static MORE: &[(&str, &str)] = &[
    ("allowUnsafe", "\
        Without a login everyone who reaches the port may read and erase everything. docs/security.md has the reasons \
        and the alternatives."),
    ("auth", "\
        Without it, everyone who reaches the port may read and write everything. With it, a client on this machine may \
        create the first user as long as there is none. docs/users.md explains users and roles."),
    ("bind_ip", "\
        A server that other machines can reach and that needs no login does not start: add --auth, or --allowUnsafe if \
        a firewall or a container keeps others away. Use --tlsMode requireTLS for clients on other machines."),
    ("cacheSizeGB", "\
        In MongoDB this is the size of a cache, to which all other memory is added. Here it is the budget of the whole \
        process: caches, requests, sorts, cursors, connections, index builds. Resident memory stays below the budget \
        x 1.10 + 64 MiB. The memory is that of the machine, or of the process's control group if that is less.\n\
        \n\
        With the engine mmapv1 the pages of the data file are not part of it: the operating system decides which of \
        them stay in memory. With the engine inMemory the budget follows from --inMemorySizeGB. docs/memory.md has \
        the details."),
    ("config", "\
        The command line takes precedence over the file. A pipe is accepted: -f <(...)."),
    ("dbpath", "\
        The directory must exist and belong to the user of the server. Only one server runs on it at a time. Without \
        an existing directory the server exits with status 100."),
    ("directIO", "\
        With false, data files are read through the page cache of the operating system: reads of other programs then \
        compete with the server for it, and the default of --cacheSizeGB is smaller. 'nagi doctor' tests whether the \
        file system of the data directory supports O_DIRECT."),
    ("encryptionCipherMode", "\
        MongoDB's modes AES256-CBC and AES256-GCM are refused: data files of MongoDB cannot be opened anyway, and a \
        restored copy is encrypted anew."),
    ("encryptionKeyFile", "\
        One base64 text of 16 to 32 bytes, as 'openssl rand -base64 32' makes it, in a file that only its owner may \
        read. env:NAME takes the text from an environment variable, which is removed, credential:NAME from a \
        credential of systemd. Without the key the data cannot be read by anyone. \
        docs/encryption-at-rest.md has the details."),
    ("encryptionOldKeyFile", "\
        The keys of the data directory are wrapped with the new master key at this start. Data files are not \
        rewritten. It has the syntax of --encryptionKeyFile."),
    ("fork", "\
        The command returns when the server accepts connections, or with the server's exit status if it could not \
            start."),
    ("initiate", "\
        It does what rs.initiate() does for a new set with one member. Later starts do nothing. Transactions, change \
        streams and retryable writes need a replica set."),
    ("journalCommitInterval", "\
        A write that was acknowledged without {j: true} is lost by a power cut if it is younger than this time and \
        the time of one sync. It is not lost if only the process is killed. docs/durability.md has all cases."),
    ("keyFile", "\
        A text of 6 to 1024 characters in base64, in a file that only its owner may read."),
    ("oplogSize", "\
        The size applies when the oplog is created. Later it is changed with the command replSetResizeOplog."),
    ("repair", "\
        What cannot be read is listed in the log and in a report beside the damaged files, which are kept. Make a \
        copy of the data directory first if the disk has errors."),
    ("replSet", "\
        A set has one member: this server. It gives clients the oplog, transactions, change streams and retryable \
        writes. Use --initiate, or rs.initiate() in a shell."),
    ("setParameter", "\
        'nagi help parameters' lists the parameters, 'nagi help NAME' explains one. In a configuration file \
        parameters are lines of the section setParameter."),
    ("shutdown", "\
        The command returns when the server has stopped. It needs the same --dbpath or --config as the server."),
    ("slowms", "\
        The time in which an operation waits for a ticket counts, but an operation must also have worked that long. \
        The command profile changes the threshold at run time."),
    ("storageEngine", "\
        wiredTiger (also: rocks) is the engine for general use: RocksDB, compressed, with a cache. mmapv1 (also: \
        lmdb) is LMDB: the data file is mapped into memory. inMemory has no files, and its data is gone when the \
        server stops. tikv stores the data in a cluster of TiKV, see --storageUri. A data directory keeps its engine: \
        another one is refused. docs/storage-engines.md compares them."),
    ("storageUri", "\
        tikv://HOST:PORT,HOST:PORT/PREFIX names the placement drivers (PD; port 2379 unless given) of a cluster of \
        TiKV, and the prefix of all keys: 1 to 32 of a-z, 0-9, _ and -, nagi unless given. One server at a time uses \
        the data under a prefix; a second one ends with status 5. docs/scale-out.md has the details."),
    ("syncdelay", "\
        A crash loses nothing, whatever the time is: the start reads the journal."),
    ("tikvCaPath", "\
        With --tikvCertPath and --tikvKeyPath, as security.ca-path, cert-path and key-path of TiKV: connections to \
        placement drivers and stores are encrypted, and both sides show certificates. Those of the cluster must be \
        valid for the host names or addresses in --storageUri and for those that the stores announce. The files are \
        read at the start and for each new connection to the placement drivers."),
    ("tikvGarbageCollection", "\
        `auto`: one of the servers advances the safe point of the cluster, unless TiDB runs there or has ever done so. \
        `always`: unless TiDB runs there. `never`: others have to. The same at all servers of a prefix. In each case \
        what they read is protected from other programs that collect."),
    ("wiredTigerCacheSizePct", "\
        At least 256 MB. It excludes --cacheSizeGB."),
    ("wiredTigerEngineConfigString", "\
        Also builtin_extension_config=(zstd=(compression_level=...)). It takes precedence over the option for the same \
        setting. Other keys of WiredTiger are refused."),
    ("zstdDefaultCompressionLevel", "\
        It applies to blocks of data files and to large documents with the compressor zstd."),
];

#[cfg(test)]
mod tests {
    use super::super::table::{Honoured, Kind, TABLE};
    use super::*;

    /// The longest meaning that is still one line in a list with an indentation of six.
    const MEANING_MAX: usize = 96;

    #[test]
    fn every_option_has_a_meaning_a_default_and_a_key() {
        for row in TABLE {
            let about = about(row);
            let name = if row.flag.is_empty() { row.key } else { row.flag };
            assert_eq!(about.name, name, "the option {name} has no row in ABOUT");
            assert!(!about.default.is_empty() && !row.key.is_empty(), "{name}");
            assert!(
                (5..=MEANING_MAX).contains(&about.meaning.len()),
                "{name}: {}",
                about.meaning.len()
            );
            assert!(!about.meaning.ends_with('.') && !about.meaning.contains('\n'), "{name}");
            let needed = match (row.kind, row.implied, row.honoured) {
                // The unit.
                (Kind::Int(..) | Kind::Float(..), ..) => true,
                (Kind::Text, None, Honoured::Yes) => true,
                _ => continue,
            };
            assert_eq!(needed, !about.value.is_empty(), "{name} has no placeholder or unit");
        }
    }

    /// Setting an option to its default changes nothing.
    #[test]
    fn defaults_are_those_of_the_program() {
        use super::super::{Settings, typed};
        const TEXTS: &[&str] = &[
            "dbpath",
            "bind_ip",
            "networkMessageCompressors",
            "unixSocketPrefix",
            "filePermissions",
            "syslogFacility",
        ];
        let with = |set: Option<(&'static Row, &str)>| {
            let mut settings = Settings::default();
            if let Some((row, value)) = set {
                settings.set(row, value).unwrap();
            }
            let mut options = typed::from_settings(&settings).unwrap();
            // What the program uses is the same; what it shows as set is not.
            options.parsed.clear();
            options.notes.clear();
            format!("{options:?}").replace("engine_chosen: true", "engine_chosen: false")
        };
        let mut count = 0;
        for row in TABLE.iter().filter(|row| row.honoured != Honoured::No) {
            let default = about(row).default;
            let is_literal = match row.kind {
                Kind::Text => TEXTS.contains(&row.flag),
                kind => kind.check(default).is_ok(),
            };
            // These are passed on with their names.
            let is_passed =
                ["cacheCompressor", "slowms", "slowOpSampleRate", "zstdDefaultCompressionLevel"];
            let is_passed = is_passed.contains(&row.flag)
                || [
                    "ldapRetryCount",
                    "quiet",
                    "notablescan",
                    "verbose",
                    "oplogMinRetentionHours",
                    "redactClientLogData",
                ]
                .contains(&row.flag)
                || row.flag.starts_with("wiredTiger");
            if is_literal && !is_passed {
                assert_eq!(with(Some((row, default))), with(None), "--{}", row.flag);
                count += 1;
            }
        }
        assert!(count > 40, "{count}");
    }

    #[test]
    fn every_description_is_of_an_option() {
        assert!(ABOUT.is_sorted_by_key(|about| about.name.to_lowercase()));
        for about in ABOUT {
            let is_there = TABLE
                .iter()
                .any(|row| row.flag == about.name || row.flag.is_empty() && row.key == about.name);
            assert!(is_there, "{} is not an option", about.name);
            assert_eq!(
                ABOUT.iter().filter(|other| other.name == about.name).count(),
                1,
                "{}",
                about.name
            );
        }
        for (name, text) in MORE {
            assert!(ABOUT.iter().any(|about| about.name == *name), "{name}");
            assert!(text.ends_with('.') || text.ends_with(")."), "{name}");
        }
    }
}
