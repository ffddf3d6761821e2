//! The configuration document of a replica set of one member: defaults and checks.

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, bail};

use crate::args::truncate;

/// Longest name or host in a configuration.
const TEXT_BYTES_MAX: usize = 256;
/// Fields of a configuration.
const FIELDS: &[&str] = &[
    "_id",
    "configsvr",
    "members",
    "protocolVersion",
    "settings",
    "term",
    "version",
    "writeConcernMajorityJournalDefault",
];
/// Fields of a member.
const MEMBER_FIELDS: &[&str] = &[
    "_id",
    "arbiterOnly",
    "buildIndexes",
    "hidden",
    "host",
    "priority",
    "secondaryDelaySecs",
    "slaveDelay",
    "tags",
    "votes",
];

/// What a configuration says, checked and completed.
#[derive(Debug, Clone)]
pub(super) struct Config {
    /// As `replSetGetConfig` shows it.
    pub(super) doc: DocBuf,
    pub(super) version: i64,
    pub(super) host: String,
    pub(super) tags: DocBuf,
}

/// A configuration for the set `name` with this server as its only member.
pub(super) fn default(name: &str, host: &str) -> DocBuf {
    nagi_bson::doc! {
        "_id": name, "version": 1, "members": [{ "_id": 0, "host": host }]
    }
}

/// Checks a configuration and writes what it leaves out. Codes 93, 103.
pub(super) fn complete(doc: Doc<'_>, name: &str, term: i64) -> Result<Config> {
    refuse_unknown(doc, FIELDS, "ReplSetConfig")?;
    match doc.get("_id") {
        Value::String(id) if id == name => {}
        Value::String(id) => bail!(
            Code::INVALID_REPLICA_SET_CONFIG,
            "Attempting to initiate a replica set with name {id}, but command line reports {name}; \
             rejecting"
        ),
        other => bail!(
            Code::INVALID_REPLICA_SET_CONFIG,
            "The _id of a replica set configuration must be a string, found {}",
            other.kind().name()
        ),
    }
    let version = match doc.get("version") {
        Value::Missing => 1,
        value => truncate(value).filter(|n| (1..=i64::from(i32::MAX)).contains(n)).unwrap_or(0),
    };
    if version == 0 {
        bail!(
            Code::INVALID_REPLICA_SET_CONFIG,
            "version field value of {} is out of range",
            doc.get("version")
        );
    }
    let members = doc.get("members").as_array().map(|list| list.iter().collect::<Vec<_>>());
    let member = match members.as_deref() {
        Some([Value::Doc(member)]) => *member,
        Some([_]) | None => bail!(
            Code::INVALID_REPLICA_SET_CONFIG,
            "Missing or malformed 'members' of the replica set configuration"
        ),
        Some([]) => bail!(
            Code::INVALID_REPLICA_SET_CONFIG,
            "Replica set configuration must contain at least one member"
        ),
        Some(several) => bail!(
            Code::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE,
            "Nagi serves replica sets of one member; the configuration has {}",
            several.len()
        ),
    };
    refuse_unknown(member, MEMBER_FIELDS, "MemberConfig")?;
    let host = host(member)?.to_owned();
    check_member(member)?;
    let tags = member.get("tags").as_doc().unwrap_or(Doc::EMPTY).to_buf();
    let doc = DocBuf::build(|w| write(doc, member, (name, version, term), &host, w));
    Ok(Config { doc, version, host, tags })
}

fn refuse_unknown(doc: Doc<'_>, known: &[&str], what: &str) -> Result<()> {
    match doc.iter().find(|element| !known.contains(&element.name())) {
        None => Ok(()),
        Some(element) => bail!(
            Code::IDL_UNKNOWN_FIELD,
            "BSON field '{what}.{}' is an unknown field.",
            element.name()
        ),
    }
}

fn host(member: Doc<'_>) -> Result<&str> {
    let host = member.get("host").as_str().unwrap_or("");
    let port = host.rsplit_once(':').map(|(_, port)| port.parse::<u16>().is_ok());
    if host.is_empty() || host.len() > TEXT_BYTES_MAX || port == Some(false) {
        bail!(
            Code::INVALID_REPLICA_SET_CONFIG,
            "The host of a member must be a name with an optional port, found '{}'",
            member.get("host")
        );
    }
    Ok(host)
}

/// The only member has to be what can be primary.
fn check_member(member: Doc<'_>) -> Result<()> {
    let number = |name: &str, absent: f64| match member.get(name) {
        Value::Missing => absent,
        value => nagi_bson::number::as_f64(value).unwrap_or(f64::NAN),
    };
    let electable = number("priority", 1.0) > 0.0
        && number("votes", 1.0) == 1.0
        && number("secondaryDelaySecs", 0.0) == 0.0
        && number("slaveDelay", 0.0) == 0.0
        && !member.get("arbiterOnly").is_truthy()
        && !member.get("hidden").is_truthy();
    if !electable {
        bail!(
            Code::INVALID_REPLICA_SET_CONFIG,
            "Replica set configuration must contain at least one non-arbiter member with priority > 0"
        );
    }
    Ok(())
}

fn write(
    given: Doc<'_>,
    member: Doc<'_>,
    (name, version, term): (&str, i64, i64),
    host: &str,
    w: &mut DocWriter<'_>,
) {
    w.put("_id", name);
    w.put("version", version as i32);
    w.put("term", term);
    w.array("members", |list| {
        list.doc(|w| {
            w.put("_id", truncate(member.get("_id")).unwrap_or(0) as i32);
            w.put("host", host);
            w.put("arbiterOnly", false);
            w.put("buildIndexes", true);
            w.put("hidden", false);
            w.put("priority", nagi_bson::number::as_f64(member.get("priority")).unwrap_or(1.0));
            w.put("tags", member.get("tags").as_doc().unwrap_or(Doc::EMPTY));
            w.put("secondaryDelaySecs", 0_i64);
            w.put("votes", 1);
        });
    });
    w.put("protocolVersion", 1_i64);
    w.put("writeConcernMajorityJournalDefault", true);
    w.doc("settings", |w| {
        let settings = given.get("settings").as_doc().unwrap_or(Doc::EMPTY);
        for (name, value) in [
            ("chainingAllowed", Value::Bool(true)),
            ("heartbeatIntervalMillis", Value::Int32(2000)),
            ("heartbeatTimeoutSecs", Value::Int32(10)),
            ("electionTimeoutMillis", Value::Int32(10_000)),
            ("catchUpTimeoutMillis", Value::Int32(-1)),
            ("catchUpTakeoverDelayMillis", Value::Int32(30_000)),
            ("getLastErrorModes", Value::Doc(Doc::EMPTY)),
        ] {
            match settings.get(name) {
                Value::Missing => w.put(name, value),
                given => w.put(name, given),
            }
        }
        if let Value::ObjectId(id) = settings.get("replicaSetId") {
            w.put("replicaSetId", id);
        }
    });
}
