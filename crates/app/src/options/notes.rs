//! Texts about options: why one is refused, and what applies instead of one.

pub(super) const JOURNAL: &str = "\
     Writes are always journaled: there is no mode without a journal. Data that need not survive the \
     process can go to --storageEngine inMemory";
pub(super) const DIRECTORIES: &str = "\
     All databases share the files of one engine, sorted by collection, so a database has no directory of \
     its own; to spread the load, put storage.dbPath on a striped volume";
pub(super) const INDEX_DIRECTORIES: &str = "\
     Indexes lie in table files that are written, copied and linked together with those of documents, so \
     that a checkpoint is one directory; put storage.dbPath on a striped volume instead";
pub(super) const PREFIXES: &str = "\
     Index keys are always stored as the difference from the key before; prefix compression cannot be \
     turned off";

pub(super) const HOST_NAMES: &str = "\
     This server connects to no other members, so it compares no host names with certificates";

pub(super) const SASL_BINDS: &str = "\
     The server logs in to LDAP servers by simple binds, so it uses no SASL mechanism";

pub(super) const MEMBERS: &str = "\
     No other member of a replica set can log in to this server, from any address; net.ipAllowlist limits \
     the addresses of all clients";

/// The reasons why options are refused, by the prefix of their keys. The longest matching prefix applies.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    ("auditLog.", "the file of the audit log is not compressed or encrypted by the server; put it on an encrypted \
                   volume, and compress it after its rotation"),
    ("cloud.monitoring.", "MongoDB's free monitoring has ended, and nothing is sent anywhere"),
    ("configsvr", SHARDING),
    ("net.http.", "MongoDB removed its HTTP interface in version 3.6"),
    ("net.maxIncomingConnectionsOverride", "no address is exempt from net.maxIncomingConnections"),
    ("net.ssl.FIPSMode", FIPS),
    ("net.tls.FIPSMode", FIPS),
    ("net.tls.certificateSelector", "certificates are in files: use net.tls.certificateKeyFile"),
    ("net.tls.clusterAuthX509.", "a replica set has one member, so no other one logs in"),
    ("net.tls.clusterCertificateSelector", "certificates are in files: use net.tls.clusterFile"),
    ("operationProfiling.filter", "set it with the command profile: {profile: 1, filter: {...}}"),
    ("processManagement.windowsService.", "it is for Windows"),
    ("replication.localPingThresholdMs", "it is an option of mongos"),
    ("replication.replSet", "rename it to replication.replSetName"),
    ("replication.secondaryIndexPrefetch", "MongoDB removed it with its engine MMAPv1"),
    ("security.encryptionCipherMode", "files are encrypted with AES-256 in counter mode, which keeps their lengths; \
                                       their checksums are encrypted too, and keys are wrapped with AES-256-GCM"),
    ("security.kmip.clientCertificateSelector", "certificates are in files: use security.kmip.clientCertificateFile"),
    ("security.kmip.keyStatePollingSeconds", "the state of the key is checked at the start only; a running server has \
                                              the key, whatever the KMIP server says of it"),
    ("security.ldap.bind.method", "the server logs in to LDAP servers by simple binds, over TLS"),
    ("security.ldap.bind.useOSDefaults", "it is for Windows"),
    ("security.sasl.", "passwords are checked by LDAP servers directly, not by saslauthd; Kerberos is not supported"),
    ("security.vault.", "keys of Vault are not supported; use security.kmip or security.encryptionKeyFile"),
    ("sharding.", SHARDING),
    ("shardsvr", SHARDING),
    ("snmp.", "there is no SNMP agent; serverStatus has the figures"),
    ("storage.indexBuildRetry", "MongoDB removed it; unfinished index builds are restarted when \
                                 the server starts"),
    ("storage.mmapv1.quota.", "databases have no quota of files"),
    ("storage.repairPath", "MongoDB removed it; --repair works within storage.dbPath"),
    ("upgrade", "there are no data files of earlier releases to upgrade"),
];

const FIPS: &str = "the cryptographic library is not certified by FIPS 140";
const SHARDING: &str = "this server is not part of a sharded cluster";

/// What to do about a refused option, and why.
pub(super) fn advice(why: &str) -> String {
    match why.starts_with("rename it") {
        true => why.to_owned(),
        false => format!("remove it to start: {why}"),
    }
}

/// The reason why an option is refused; `None` if there is no text for it.
pub(crate) fn refusal(key: &str) -> Option<&'static str> {
    let fitting = REFUSED.iter().filter(|(beginning, _)| key.starts_with(beginning));
    fitting.max_by_key(|(beginning, _)| beginning.len()).map(|(_, why)| *why)
}
