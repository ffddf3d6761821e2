//! Write concern and read concern: parsing, and checks for a standalone and for a set of one member.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

use crate::metrics::OpKind;
use crate::metrics::write_concerns::Nodes;
use crate::number::truncate;
use crate::request::Facts;

/// The number of nodes that must acknowledge a write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum WriteNodes<'a> {
    Count(i64),
    Majority,
    /// A custom mode or a tag set. Neither a standalone nor a set of one member has any.
    Other(&'a str),
}

/// A parsed `writeConcern`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WriteConcern<'a> {
    pub(crate) nodes: WriteNodes<'a>,
    pub(crate) journal: bool,
    pub(crate) timeout_ms: i64,
}

impl<'a> WriteConcern<'a> {
    /// Acknowledged and not synced: the default of a standalone.
    pub(crate) const DEFAULT: WriteConcern<'static> =
        WriteConcern { nodes: WriteNodes::Count(1), journal: false, timeout_ms: 0 };

    /// The default of a member of a replica set.
    pub(crate) const MAJORITY: WriteConcern<'static> =
        WriteConcern { nodes: WriteNodes::Majority, journal: false, timeout_ms: 0 };

    /// Reads `{w, j, fsync, wtimeout}`.
    pub(crate) fn parse(value: Value<'a>) -> Result<WriteConcern<'a>> {
        let Value::Doc(doc) = value else {
            bail!(
                Code::TYPE_MISMATCH,
                "\"writeConcern\" had the wrong type. Expected object, found {}",
                value.kind().name()
            );
        };
        WriteConcern::parse_doc(doc)
    }

    pub(crate) fn parse_doc(doc: Doc<'a>) -> Result<WriteConcern<'a>> {
        let mut concern = WriteConcern::DEFAULT;
        let (mut journal, mut fsync) = (false, false);
        for element in doc {
            let value = element.value();
            match element.name() {
                "w" => concern.nodes = parse_nodes(value)?,
                "j" => journal = flag("j", value)?,
                "fsync" => fsync = flag("fsync", value)?,
                "wtimeout" => match truncate(value) {
                    Some(ms) if ms <= i64::from(i32::MAX) => concern.timeout_ms = ms.max(0),
                    Some(_) => bail!(
                        Code::FAILED_TO_PARSE,
                        "wtimeout must be within the range of a 32-bit integer"
                    ),
                    None if value.is_nullish() => {}
                    None => bail!(
                        Code::TYPE_MISMATCH,
                        "BSON field 'writeConcern.wtimeout' is the wrong type '{}', expected types \
                         '[long, int, decimal, double]'",
                        value.kind().name()
                    ),
                },
                // Old drivers copy the whole getLastError command; shells add the provenance.
                "wElectionId" | "wOpTime" | "getLastError" | "getlasterror" => {}
                "provenance" => check_provenance("writeConcern", value)?,
                other => bail!(
                    Code::IDL_UNKNOWN_FIELD,
                    "BSON field 'writeConcern.{other}' is an unknown field."
                ),
            }
        }
        if journal && fsync {
            bail!(Code::FAILED_TO_PARSE, "fsync and j options cannot be used together");
        }
        concern.journal = journal || fsync;
        Ok(concern)
    }

    /// Refuses a write concern that only a replica set can satisfy (2), and `{w: 0, j: true}` (9).
    pub(crate) fn check_standalone(&self) -> Result<()> {
        match self.nodes {
            WriteNodes::Count(count) if count > 1 => {
                bail!(Code::BAD_VALUE, "cannot use 'w' > 1 when a host is not replicated")
            }
            WriteNodes::Other(mode) => bail!(
                Code::BAD_VALUE,
                "cannot use non-majority 'w' mode {mode} when a host is not a member of a replica \
                 set"
            ),
            WriteNodes::Count(0) if self.journal => {
                bail!(Code::FAILED_TO_PARSE, "cannot have j:true with w:0")
            }
            _ => Ok(()),
        }
    }

    /// Code and text of the `writeConcernError` if the concern cannot be satisfied: a set has one member, while the
    /// store of a router has as many copies as its operator wants. The write takes effect regardless.
    pub(crate) fn unsatisfiable(&self, by_set: bool) -> Option<(Code, String)> {
        match self.nodes {
            WriteNodes::Count(count) if count > 1 && by_set => Some((
                Code::UNSATISFIABLE_WRITE_CONCERN,
                "Not enough data-bearing nodes".to_owned(),
            )),
            WriteNodes::Other(mode) => Some((
                Code::UNKNOWN_REPL_WRITE_CONCERN,
                format!("No write concern mode named '{mode}' found in replica set configuration"),
            )),
            _ => None,
        }
    }

    /// What a write with it waits for, for counters.
    pub(crate) fn counted(&self) -> Nodes<'a> {
        match self.nodes {
            WriteNodes::Count(count) => Nodes::Count(count),
            WriteNodes::Majority => Nodes::Majority,
            WriteNodes::Other(mode) => Nodes::Mode(mode),
        }
    }

    /// Writes it as replies show it.
    pub(crate) fn write(&self, out: &mut nagi_bson::DocWriter<'_>) {
        match self.nodes {
            WriteNodes::Count(count) => out.put("w", count as i32),
            WriteNodes::Majority => out.put("w", "majority"),
            WriteNodes::Other(mode) => out.put("w", mode),
        }
        if self.journal {
            out.put("j", true);
        }
        out.put("wtimeout", self.timeout_ms as i32);
    }

    /// Refuses the contradiction `{w: 0, j: true}` (9).
    pub(crate) fn check_member(&self) -> Result<()> {
        if self.nodes == WriteNodes::Count(0) && self.journal {
            bail!(Code::FAILED_TO_PARSE, "cannot have j:true with w:0");
        }
        Ok(())
    }

    /// Returns true if the commit must be on disk before the reply.
    pub(crate) fn is_synced(&self) -> bool {
        self.journal || self.nodes == WriteNodes::Majority
    }

    /// Returns true if the client does not want to know the outcome.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.nodes == WriteNodes::Count(0)
    }
}

fn parse_nodes(value: Value<'_>) -> Result<WriteNodes<'_>> {
    Ok(match value {
        Value::String("majority") => WriteNodes::Majority,
        Value::String(mode) => WriteNodes::Other(mode),
        Value::Doc(doc) if doc.is_empty() => {
            bail!(Code::FAILED_TO_PARSE, "tagged write concern requires tags")
        }
        Value::Doc(_) => WriteNodes::Other("{...}"),
        value if value.is_number() => match truncate(value) {
            Some(count @ 0..=50) => WriteNodes::Count(count),
            _ => bail!(
                Code::FAILED_TO_PARSE,
                "w has to be a non-negative number and not greater than 50; found: {value}"
            ),
        },
        Value::Null | Value::Undefined => WriteNodes::Count(1),
        other => bail!(
            Code::FAILED_TO_PARSE,
            "w has to be a number, string, or object; found: {}",
            other.kind().name()
        ),
    })
}

fn flag(name: &str, value: Value<'_>) -> Result<bool> {
    match value {
        Value::Bool(_) => Ok(value.is_truthy()),
        value if value.is_number() || value.is_nullish() => Ok(value.is_truthy()),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'writeConcern.{name}' is the wrong type '{}', expected types \
             '[bool, long, int, decimal, double]'",
            other.kind().name()
        ),
    }
}

/// A parsed `readConcern`.
#[derive(Default, Clone, Copy, PartialEq, Debug)]
pub(crate) struct ReadConcern<'a> {
    pub(crate) level: Option<&'a str>,
    pub(crate) after_cluster_time: Option<u64>,
    pub(crate) at_cluster_time: Option<u64>,
    /// The request has a read concern, which may be empty.
    pub(crate) is_given: bool,
}

/// Checks `provenance`, which tells where a concern comes from (2, 14); it has no effect.
fn check_provenance(concern: &str, value: Value<'_>) -> Result<()> {
    const SOURCES: &[&str] = &[
        "clientSupplied",
        "customDefault",
        "getLastErrorDefaults",
        "implicitDefault",
        "internalWriteDefault",
    ];
    match value {
        Value::String(source) if SOURCES.contains(&source) => Ok(()),
        Value::String(source) => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{source}' for field '{concern}.provenance' is not a valid value."
        ),
        value if value.is_nullish() => Ok(()),
        value => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{concern}.provenance' is the wrong type '{}', expected type 'string'",
            value.kind().name()
        ),
    }
}

impl<'a> ReadConcern<'a> {
    pub(crate) fn parse(value: Value<'a>) -> Result<ReadConcern<'a>> {
        let Value::Doc(doc) = value else {
            bail!(
                Code::TYPE_MISMATCH,
                "\"readConcern\" had the wrong type. Expected object, found {}",
                value.kind().name()
            );
        };
        let mut concern = ReadConcern { is_given: true, ..ReadConcern::default() };
        for element in doc {
            match (element.name(), element.value()) {
                (_, Value::Null | Value::Undefined) => {}
                ("level", Value::String(level)) => concern.level = Some(level),
                ("level", other) => bail!(
                    Code::TYPE_MISMATCH,
                    "BSON field 'readConcern.level' is the wrong type '{}', expected type 'string'",
                    other.kind().name()
                ),
                ("afterClusterTime", Value::Timestamp(0)) => {
                    bail!(Code::INVALID_OPTIONS, "afterClusterTime cannot be a null timestamp")
                }
                ("afterClusterTime", Value::Timestamp(time)) => {
                    concern.after_cluster_time = Some(time);
                }
                ("afterClusterTime", other) => bail!(
                    Code::TYPE_MISMATCH,
                    "BSON field 'readConcern.afterClusterTime' is the wrong type '{}', expected type \
                     'timestamp'",
                    other.kind().name()
                ),
                ("atClusterTime", Value::Timestamp(0)) => {
                    bail!(Code::INVALID_OPTIONS, "atClusterTime cannot be a null timestamp")
                }
                ("atClusterTime", Value::Timestamp(time)) => concern.at_cluster_time = Some(time),
                ("atClusterTime", other) => bail!(
                    Code::TYPE_MISMATCH,
                    "BSON field 'readConcern.atClusterTime' is the wrong type '{}', expected type \
                     'timestamp'",
                    other.kind().name()
                ),
                ("provenance", value) => check_provenance("readConcern", value)?,
                (
                    "afterOpTime"
                    | "$waitForLastStableRecoveryTimestamp"
                    | "allowTransactionTableSnapshot",
                    _,
                ) => {}
                (other, _) => bail!(
                    Code::IDL_UNKNOWN_FIELD,
                    "BSON field 'readConcern.{other}' is an unknown field."
                ),
            }
        }
        Ok(concern)
    }

    /// True if nothing may be read that is undone by a crash.
    pub(crate) fn is_of_durable(&self) -> bool {
        matches!(self.level, Some("majority" | "linearizable"))
    }

    /// Refuses a read concern that this command or a standalone does not support.
    pub(crate) fn check(&self, command: &Facts, replicated: bool) -> Result<()> {
        let supported = command.read_concern;
        let level = match self.level {
            None | Some("local" | "available") => "local",
            Some(level @ ("majority" | "linearizable" | "snapshot")) => level,
            Some(other) => bail!(
                Code::BAD_VALUE,
                "Enumeration value '{other}' for field 'readConcern.level' is not a valid value."
            ),
        };
        // Drivers repeat the concern of a snapshot session on getMore; the cursor already has its snapshot.
        if replicated && level == "snapshot" && matches!(command.counts_as, OpKind::GetMore) {
            return Ok(());
        }
        let refused = level != "local" || (self.after_cluster_time.is_some() && !replicated);
        if (!supported && refused) || (level == "snapshot" && replicated && !command.snapshot_read)
        {
            bail!(
                Code::INVALID_OPTIONS,
                "Command {} does not support {{ readConcern: {{ level: \"{level}\", \
                 provenance: \"clientSupplied\" }} }} :: caused by :: read concern not supported",
                command.name
            );
        }
        if replicated {
            return self.check_member(level);
        }
        if self.after_cluster_time.is_some() || self.at_cluster_time.is_some() {
            bail!(
                Code::ILLEGAL_OPERATION,
                "Cannot specify {} readConcern without replication enabled",
                if self.at_cluster_time.is_some() { "atClusterTime" } else { "afterClusterTime" }
            );
        }
        if level == "linearizable" || level == "snapshot" {
            bail!(
                Code::NOT_A_REPLICA_SET,
                "node needs to be a replica set member to use read concern"
            );
        }
        Ok(())
    }

    /// `atClusterTime` is valid only for snapshot reads.
    fn check_member(&self, level: &str) -> Result<()> {
        if self.at_cluster_time.is_some() && level != "snapshot" {
            bail!(
                Code::INVALID_OPTIONS,
                "readConcern level must be 'snapshot' if 'atClusterTime' is specified"
            );
        }
        Ok(())
    }
}
