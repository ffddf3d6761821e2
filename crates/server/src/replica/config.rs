//! The configuration document of a replica set of one member: defaults and checks of `replSetInitiate` and
//! `replSetReconfig`.

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Error, Result, bail};

use super::horizons::Horizons;
use crate::number::truncate;

/// The maximum length of a host name in a configuration.
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
    "horizons",
    "host",
    "priority",
    "secondaryDelaySecs",
    "slaveDelay",
    "tags",
    "votes",
];

/// A configuration, checked and completed with defaults.
#[derive(Debug, Clone)]
pub(super) struct Config {
    /// The document as `replSetGetConfig` shows it.
    pub(super) doc: DocBuf,
    pub(super) version: i64,
    pub(super) host: String,
    pub(super) horizons: Horizons,
    pub(super) tags: DocBuf,
}

/// The default configuration of the set `name` with this server as its only member.
pub(super) fn default(name: &str, host: &str) -> DocBuf {
    nagi_bson::doc! {
        "_id": name, "version": 1, "members": [{ "_id": 0, "host": host }]
    }
}

/// The host with another port.
pub(super) fn with_port(host: &str, port: u16) -> String {
    let name = match host.rsplit_once(':') {
        Some((name, old)) if old.parse::<u16>().is_ok() => name,
        _ => host,
    };
    format!("{name}:{port}")
}

/// The configuration with another host of its only member, and another version.
pub(super) fn moved(config: Doc<'_>, host: &str, version: i64) -> DocBuf {
    DocBuf::build(|w| {
        for element in config {
            match (element.name(), element.value()) {
                ("version", _) => w.put("version", version),
                ("members", Value::Array(members)) => w.array("members", |list| {
                    for member in members.iter().filter_map(|member| member.as_doc()) {
                        list.doc(|w| {
                            for field in member {
                                match field.name() {
                                    "host" => w.put("host", host),
                                    _ => w.put_element(field),
                                }
                            }
                        });
                    }
                }),
                _ => w.put_element(element),
            }
        }
    })
}

/// Checks a configuration and adds the omitted fields. Codes 93, 103, 40415.
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
    let horizons = Horizons::parse(member, &host)?;
    let tags = member.get("tags").as_doc().unwrap_or(Doc::EMPTY).to_buf();
    let doc = DocBuf::build(|w| write(doc, member, (name, version, term), &host, w));
    Ok(Config { doc, version, host, horizons, tags })
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

/// Further checks of a configuration that a client sends: types, ranges, and fields that only other kinds of servers
/// support. A stored configuration is not checked by this, because earlier versions accepted such fields.
pub(super) fn check_values(doc: Doc<'_>) -> Result<()> {
    check_set(doc)?;
    let members = doc.get("members").as_array();
    members
        .iter()
        .flat_map(|list| list.iter())
        .filter_map(|member| member.as_doc())
        .try_for_each(check_member_values)
}

fn check_member_values(member: Doc<'_>) -> Result<()> {
    let what = "MemberConfig";
    for name in ["arbiterOnly", "hidden"] {
        flag(member, what, name, false)?;
    }
    match whole(member, what, "_id")? {
        None => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field 'MemberConfig._id' is missing but a required field"
        ),
        Some(0..=255) => {}
        Some(id) => bail!(Code::BAD_VALUE, "_id field value of {id} is out of range."),
    }
    if document(member, what, "tags")?.iter().any(|tag| tag.value().as_str().is_none()) {
        bail!(Code::TYPE_MISMATCH, "The tags of a member must have strings as their values");
    }
    if !flag(member, what, "buildIndexes", true)? {
        bail!(Code::BAD_VALUE, "priority must be 0 when buildIndexes=false");
    }
    Ok(())
}

fn check_set(doc: Doc<'_>) -> Result<()> {
    if flag(doc, "ReplSetConfig", "configsvr", false)? {
        bail!(
            Code::BAD_VALUE,
            "Nodes being used for config servers must be started with the --configsvr flag"
        );
    }
    flag(doc, "ReplSetConfig", "writeConcernMajorityJournalDefault", true)?;
    match whole(doc, "ReplSetConfig", "protocolVersion")? {
        None | Some(1) => {}
        Some(0) => bail!(
            Code::BAD_VALUE,
            "Support for replication protocol version 0 was removed in MongoDB 4.0. Downgrade to \
             MongoDB version 3.6 and upgrade your protocol version to 1 before upgrading your MongoDB \
             version"
        ),
        Some(other) => {
            bail!(Code::BAD_VALUE, "protocolVersion field value of {other} is not 1 or 0")
        }
    }
    check_settings(document(doc, "ReplSetConfig", "settings")?)
}

/// Numeric settings: the name and the minimum.
const SETTING_NUMBERS: [(&str, i64); 5] = [
    ("heartbeatIntervalMillis", 1),
    ("heartbeatTimeoutSecs", 1),
    ("electionTimeoutMillis", 1),
    ("catchUpTimeoutMillis", -1),
    ("catchUpTakeoverDelayMillis", -1),
];

/// Checks the settings. They are stored and shown, but they control timing between members, so they have no effect
/// here.
fn check_settings(settings: Doc<'_>) -> Result<()> {
    let what = "ReplSetConfigSettings";
    for element in settings {
        let name = element.name();
        match name {
            "chainingAllowed" => drop(flag(settings, what, name, true)?),
            "getLastErrorModes" => drop(document(settings, what, name)?),
            "replicaSetId" if matches!(element.value(), Value::ObjectId(_)) => {}
            "replicaSetId" => return Err(wrong_type(what, name, element.value(), "objectId")),
            "getLastErrorDefaults" => {
                let given = document(settings, what, name)?;
                let usual = truncate(given.get("w")) == Some(1)
                    && !given.get("wtimeout").is_truthy()
                    && given.iter().all(|e| ["w", "wtimeout"].contains(&e.name()));
                if !usual {
                    bail!(
                        Code::BAD_VALUE,
                        "getLastErrorDefaults can no longer be set to anything but {{w: 1, wtimeout: 0}}; \
                         use setDefaultRWConcern instead"
                    );
                }
            }
            _ => {
                let Some((_, least)) = SETTING_NUMBERS.iter().find(|(known, _)| *known == name)
                else {
                    bail!(
                        Code::IDL_UNKNOWN_FIELD,
                        "BSON field '{what}.{name}' is an unknown field."
                    );
                };
                if let Some(n) = whole(settings, what, name)?
                    && !(*least..=i64::from(i32::MAX)).contains(&n)
                {
                    bail!(
                        Code::BAD_VALUE,
                        "BSON field '{name}' value must be >= {least}, actual value '{n}'"
                    );
                }
            }
        }
    }
    Ok(())
}

fn wrong_type(what: &str, name: &str, found: Value<'_>, expected: &str) -> Error {
    Error::new(
        Code::TYPE_MISMATCH,
        format!(
            "BSON field '{what}.{name}' is the wrong type '{}', expected type '{expected}'",
            found.kind().name()
        ),
    )
}

/// Reads a boolean, or a number in its place.
fn flag(doc: Doc<'_>, what: &str, name: &str, absent: bool) -> Result<bool> {
    match doc.get(name) {
        Value::Missing => Ok(absent),
        value if matches!(value, Value::Bool(_)) || value.is_number() => Ok(value.is_truthy()),
        other => Err(Error::new(
            Code::TYPE_MISMATCH,
            format!(
                "BSON field '{what}.{name}' is the wrong type '{}', expected types '[bool, long, int, \
                 decimal, double]'",
                other.kind().name()
            ),
        )),
    }
}

fn whole(doc: Doc<'_>, what: &str, name: &str) -> Result<Option<i64>> {
    match doc.get(name) {
        Value::Missing => Ok(None),
        value => match truncate(value) {
            Some(n) => Ok(Some(n)),
            None => Err(wrong_type(what, name, value, "long")),
        },
    }
}

fn document<'d>(doc: Doc<'d>, what: &str, name: &str) -> Result<Doc<'d>> {
    match doc.get(name) {
        Value::Missing => Ok(Doc::EMPTY),
        Value::Doc(inner) => Ok(inner),
        other => Err(wrong_type(what, name, other, "object")),
    }
}

/// Returns true if a text is a host with an optional port.
pub(super) fn is_host(text: &str) -> bool {
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>().is_ok());
    !text.is_empty() && text.len() <= TEXT_BYTES_MAX && port != Some(false)
}

fn host(member: Doc<'_>) -> Result<&str> {
    let host = member.get("host").as_str().unwrap_or("");
    if !is_host(host) {
        bail!(
            Code::INVALID_REPLICA_SET_CONFIG,
            "The host of a member must be a name with an optional port, found '{}'",
            member.get("host")
        );
    }
    Ok(host)
}

/// Checks that the only member can be primary.
fn check_member(member: Doc<'_>) -> Result<()> {
    let number = |name: &str, absent: f64| match member.get(name) {
        Value::Missing => absent,
        value => nagi_bson::number::as_f64(value).unwrap_or(f64::NAN),
    };
    let electable = number("priority", 1.0) > 0.0
        && number("priority", 1.0) <= 1000.0
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
            if let Value::Doc(horizons) = member.get("horizons") {
                w.put("horizons", horizons);
            }
            w.put("secondaryDelaySecs", 0_i64);
            w.put("votes", 1);
        });
    });
    w.put("protocolVersion", 1_i64);
    // Shown as given. A majority is this server alone, and its acknowledgement is durable in either case.
    let journaled = given.get("writeConcernMajorityJournalDefault");
    w.put("writeConcernMajorityJournalDefault", journaled.is_missing() || journaled.is_truthy());
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
