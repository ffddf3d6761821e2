//! A request: the facts of its command, database, body, document sequences, generic arguments.

pub(crate) mod concern;
use nagi_bson::{Array, Doc, DocBuf, Value};
use nagi_error::{Code, Error, Result, bail, err};

use crate::metrics::operators::Holds;
use crate::metrics::{LatencyKind, OpKind};
use crate::number::truncate;
use crate::printable::{
    Secret, has_secret_stage, printable, without_arguments, without_users_secrets,
};
use crate::request::concern::{ReadConcern, WriteConcern};
use crate::session::{GivenSession, SessionId, parse_lsid};

/// A document sequence (section kind 1) of an OP_MSG. Its documents are validated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence<'a> {
    pub(crate) name: &'a str,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Sequence<'a> {
    /// Splits off the first document.
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Doc<'a>, &'a [u8])> {
        let len = u32::from_le_bytes(*bytes.first_chunk::<4>()?) as usize;
        let (head, rest) = bytes.split_at_checked(len)?;
        Some((Doc::trusted(head), rest))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Doc<'a>> {
        let mut bytes = self.bytes;
        std::iter::from_fn(move || {
            let (doc, rest) = Sequence::split(bytes)?;
            bytes = rest;
            Some(doc)
        })
    }
}

/// The servers that have a command. For the others its name is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Servers {
    All,
    Routers,
    AllButRouters,
}

/// The properties of a command, except its function and its access rule.
pub(crate) struct Facts {
    /// The name in the protocol.
    pub(crate) name: &'static str,
    /// Other spellings that clients use.
    pub(crate) aliases: &'static [&'static str],
    /// One sentence for `listCommands`.
    pub(crate) help: &'static str,
    /// Works before a client has logged in.
    pub(crate) before_login: bool,
    /// A refusal is not audited: drivers send it before they have logged in, too.
    pub(crate) refusal_unaudited: bool,
    /// Only on database `admin` (13).
    pub(crate) admin_only: bool,
    /// Only with `enableTestCommands`.
    pub(crate) test_only: bool,
    /// The servers that have it.
    pub(crate) servers: Servers,
    /// Writes data: takes `writeConcern`.
    pub(crate) write: bool,
    /// Takes `readConcern` levels beyond `local`.
    pub(crate) read_concern: bool,
    /// Takes read concern `snapshot` outside transactions.
    pub(crate) snapshot_read: bool,
    /// Belongs to Stable API version 1.
    pub(crate) api_v1: bool,
    pub(crate) counts_as: OpKind,
    pub(crate) latency: LatencyKind,
    /// Runs as a statement of a transaction.
    pub(crate) in_transaction: bool,
    /// Commits or aborts a transaction.
    pub(crate) ends_transaction: bool,
    /// A write that a transaction number alone makes safe to repeat.
    pub(crate) retryable: bool,
    /// The argument that has the statements of a write, one each; empty: it is one statement.
    pub(crate) statements_in: &'static str,
    /// Reads also what only a router shows, in `config`.
    pub(crate) reads_config: bool,
    /// The first field's value is a collection name (for log and currentOp).
    pub(crate) on_collection: bool,
    pub(crate) secret: Secret,
    /// The argument whose documents may contain `encryptionInformation`; empty: the command itself may.
    pub(crate) encryption_in: &'static str,
    /// Only clients with Queryable Encryption send it.
    pub(crate) encrypted: bool,
    /// Returns true if a request reads no collection and so needs no ticket: `$currentOp` must work while all requests
    /// wait.
    pub(crate) without_ticket: fn(Doc<'_>) -> bool,
    /// Applies entries of an oplog: what the server that wrote them has accepted is not checked again.
    pub(crate) applies_log: bool,
    /// The collection no longer exists after the command: `top` must not list it again.
    pub(crate) drops: bool,
    /// Fail points do not affect it, so that they can still be turned off.
    pub(crate) exempt_from_fail_points: bool,
    /// Reads the outcome of the previous write: as a command of OP_QUERY it does not clear that outcome.
    pub(crate) keeps_last_write: bool,
    /// Query statistics record it.
    pub(crate) query_stats: bool,
    /// The arguments that have operators, for their counters.
    pub(crate) operators: &'static [(&'static str, Holds)],
    /// Appended to the error when it is refused in a transaction.
    pub(crate) transaction_advice: &'static str,
    /// The error if it is to begin a transaction; empty if it may.
    pub(crate) begins_no_transaction: &'static str,
}

impl Facts {
    /// The defaults of a row.
    pub(crate) const ROW: Facts = Facts {
        name: "",
        aliases: &[],
        help: "",
        before_login: false,
        refusal_unaudited: false,
        admin_only: false,
        test_only: false,
        servers: Servers::All,
        write: false,
        read_concern: false,
        snapshot_read: false,
        api_v1: false,
        counts_as: OpKind::Command,
        latency: LatencyKind::Command,
        in_transaction: false,
        ends_transaction: false,
        retryable: false,
        statements_in: "",
        reads_config: false,
        on_collection: false,
        secret: Secret::No,
        encryption_in: "",
        encrypted: false,
        without_ticket: |_| false,
        applies_log: false,
        drops: false,
        exempt_from_fail_points: false,
        keeps_last_write: false,
        query_stats: false,
        operators: &[],
        transaction_advice: "",
        begins_no_transaction: "",
    };
}

impl Facts {
    /// Returns true if a server has the command. `router`: the server is one.
    pub(crate) fn is_of(&self, router: bool) -> bool {
        match self.servers {
            Servers::All => true,
            Servers::Routers => router,
            Servers::AllButRouters => !router,
        }
    }
}

/// How the request arrived and how its reply is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Msg,
    /// A command through OP_QUERY on `db.$cmd`, or a legacy write translated to one.
    Query,
}

/// A command and everything around it.
pub(crate) struct Request<'a> {
    pub(crate) command: &'static Facts,
    /// The name as the client wrote it, possibly an alias.
    pub(crate) name: &'a str,
    pub(crate) db: &'a str,
    pub(crate) body: Doc<'a>,
    pub(crate) sequences: &'a [Sequence<'a>],
    pub(crate) generic: Generic<'a>,
    pub(crate) protocol: Protocol,
    /// The client accepts an exhaust stream of replies.
    pub(crate) exhaust_allowed: bool,
}

impl Request<'_> {
    /// True if a client with Queryable Encryption sent it: its payloads are neither logged nor shown, because they are
    /// the keys by which values can be found.
    pub(crate) fn is_encrypted(&self) -> bool {
        let carries = |value: Value<'_>| {
            value.as_doc().is_some_and(|doc| doc.element(ENCRYPTION_INFORMATION).is_some())
        };
        let within = self.command.encryption_in;
        self.command.encrypted
            || self.generic.encrypted
            || !within.is_empty()
                && (match self.body.get(within) {
                    Value::Array(list) => list.iter().any(carries),
                    value => carries(value),
                } || self.sequences.iter().any(|sequence| {
                    sequence.name == within && sequence.iter().any(|doc| carries(Value::Doc(doc)))
                }))
    }

    /// True if it may contain documents of users, or commands with passwords: it is on `admin`, where the documents of
    /// users are, and where restore tools write copies of them into collections of any name.
    fn may_hold_users(&self) -> bool {
        self.db == "admin"
    }

    /// The command as logs, errors and currentOp may show it.
    pub(crate) fn shown(&self) -> Shown<'_> {
        match self.command.secret {
            _ if self.is_encrypted() => Shown::Copy(without_arguments(self.body)),
            Secret::No | Secret::Pipeline if self.may_hold_users() => {
                match without_users_secrets(self.body) {
                    Some(shown) => Shown::Copy(shown),
                    None => Shown::Whole(self.body),
                }
            }
            Secret::Pipeline if !has_secret_stage(self.body) => Shown::Whole(self.body),
            Secret::No => Shown::Whole(self.body),
            secret => {
                let shown = printable(self.body, secret);
                let hidden = match self.may_hold_users() {
                    true => without_users_secrets(shown.as_doc()),
                    false => None,
                };
                Shown::Copy(hidden.unwrap_or(shown))
            }
        }
    }
}

/// A command as it may be shown.
pub(crate) enum Shown<'a> {
    /// It has no secrets. It may be large.
    Whole(Doc<'a>),
    Copy(DocBuf),
}

impl Shown<'_> {
    pub(crate) fn as_doc(&self) -> Doc<'_> {
        match self {
            Shown::Whole(doc) => *doc,
            Shown::Copy(doc) => doc.as_doc(),
        }
    }
}

/// The argument of clients with Queryable Encryption.
const ENCRYPTION_INFORMATION: &str = "encryptionInformation";

/// The arguments that every command may carry.
#[derive(Default, Clone, Copy)]
pub(crate) struct Generic<'a> {
    /// `lsid`, as the client wrote it.
    pub(crate) given_session: Option<GivenSession>,
    /// The session that `lsid` names; dispatch sets it once the client's user is known. `None` also for a client that
    /// has to log in and has not.
    pub(crate) lsid: Option<SessionId>,
    pub(crate) txn_number: Option<i64>,
    pub(crate) autocommit: Option<bool>,
    pub(crate) start_transaction: Option<bool>,
    /// Ids of the statements of a retryable write.
    pub(crate) stmt_id: Option<i32>,
    pub(crate) stmt_ids: Option<Array<'a>>,
    /// `$readPreference` names a mode that secondaries may serve.
    pub(crate) secondary_ok: bool,
    /// The time in `$clusterTime`.
    pub(crate) cluster_time: Option<u64>,
    pub(crate) max_time_ms: i64,
    pub(crate) comment: Option<Value<'a>>,
    pub(crate) write_concern: Option<WriteConcern<'a>>,
    pub(crate) read_concern: ReadConcern<'a>,
    pub(crate) api_version: Option<&'a str>,
    pub(crate) api_strict: bool,
    pub(crate) api_deprecation_errors: bool,
    /// The command has `encryptionInformation`.
    pub(crate) encrypted: bool,
    /// The client wants the command's help text instead of its result.
    pub(crate) help: bool,
}

/// Returns true if `name` is an argument that every command accepts. The compiler compares lengths first, which costs
/// a fraction of a search: this runs several times per request.
pub(crate) fn is_generic(name: &str) -> bool {
    matches!(
        name,
        "$audit"
            | "$client"
            | "$clusterTime"
            | "$configServerState"
            | "$configTime"
            | "$db"
            | "$queryOptions"
            | "$readPreference"
            | "$replData"
            | "$topologyTime"
            | "allowImplicitCollectionCreation"
            | "apiDeprecationErrors"
            | "apiStrict"
            | "apiVersion"
            | "autocommit"
            | "clientOperationKey"
            | "comment"
            | "coordinator"
            | "databaseVersion"
            | "help"
            | "lsid"
            | "maxTimeMS"
            | "maxTimeMSOpOnly"
            | "mayBypassWriteBlocking"
            | "rawData"
            | "readConcern"
            | "shardVersion"
            | "startTransaction"
            | "stmtId"
            | "stmtIds"
            | "tracking_info"
            | "txnNumber"
            | "versionContext"
            | "writeConcern"
    )
}

impl<'a> Generic<'a> {
    /// The transaction number if the command is a statement of a transaction.
    pub(crate) fn transaction(&self) -> Option<i64> {
        self.txn_number.filter(|_| self.autocommit.is_some())
    }

    /// Ignores the session and the fields that depend on one.
    pub(crate) fn ignore_session(&mut self) {
        (self.given_session, self.lsid, self.txn_number) = (None, None, None);
        (self.autocommit, self.start_transaction) = (None, None);
    }

    /// Reads the generic arguments of `body`. Allocates only for errors.
    pub(crate) fn parse(command: &Facts, body: Doc<'a>) -> Result<Generic<'a>> {
        let mut generic = Generic::default();
        let mut seen = 0_u32;
        let own = body.first().map_or("", |first| first.name());
        for element in body.iter().skip(1) {
            let name = element.name();
            if name == own {
                return Err(duplicate(command, name));
            }
            if name == ENCRYPTION_INFORMATION {
                generic.encrypted |= !element.value().is_nullish();
            }
            // A cheap test of the first letter excludes most other arguments.
            if !matches!(
                name.as_bytes().first(),
                Some(b'$' | b'a' | b'c' | b'h' | b'l' | b'm' | b'r' | b's' | b't' | b'w')
            ) {
                continue;
            }
            let value = element.value();
            let bit = 1 << place(name);
            if seen & bit != 0 && bit != 1 {
                return Err(duplicate(command, name));
            }
            seen |= bit;
            match name {
                _ if value.is_nullish() => {}
                "lsid" => generic.given_session = Some(parse_lsid(value, "lsid")?),
                "txnNumber" => generic.txn_number = Some(long(command, name, value)?),
                "autocommit" => generic.autocommit = Some(boolean(command, name, value)?),
                "startTransaction" => {
                    generic.start_transaction = Some(boolean(command, name, value)?);
                }
                "$clusterTime" if !matches!(value, Value::Doc(_)) => {
                    return mismatch(command, name, value, "object");
                }
                "$readPreference" => generic.secondary_ok = read_preference(value)?,
                "$clusterTime" => generic.cluster_time = Some(cluster_time(value)?),
                "stmtId" => generic.stmt_id = Some(int(command, &name, value)?),
                "stmtIds" => generic.stmt_ids = Some(statements(command, name, value)?),
                "maxTimeMS" => generic.max_time_ms = max_time_ms(command, value)?,
                "comment" => generic.comment = Some(value),
                "help" => generic.help = value.is_truthy(),
                "writeConcern" => generic.write_concern = Some(WriteConcern::parse(value)?),
                "readConcern" => generic.read_concern = ReadConcern::parse(value)?,
                "apiVersion" => generic.api_version = Some(string(command, name, value)?),
                "apiStrict" => generic.api_strict = boolean(command, name, value)?,
                "apiDeprecationErrors" => {
                    generic.api_deprecation_errors = boolean(command, name, value)?;
                }
                _ => check_unused(command, name, value)?,
            }
        }
        Ok(generic)
    }
}

/// Returns true if a secondary may serve the mode. A primary serves every mode, but an invalid one is refused.
fn read_preference(value: Value<'_>) -> Result<bool> {
    const MODES: &[&str] =
        &["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"];
    let Value::Doc(doc) = value else {
        bail!(
            Code::TYPE_MISMATCH,
            "$readPreference has incorrect type: expected object but got {}",
            value.kind().name()
        );
    };
    match doc.get("mode") {
        Value::String(mode) if MODES.contains(&mode) => Ok(mode != "primary"),
        Value::String(mode) => bail!(
            Code::FAILED_TO_PARSE,
            "Could not parse $readPreference mode '{mode}'. Only the modes 'primary', \
             'primaryPreferred', 'secondary', 'secondaryPreferred', and 'nearest' are supported."
        ),
        Value::Missing => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '$readPreference.mode' is missing but a required field"
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '$readPreference.mode' is the wrong type '{}', expected type 'string'",
            other.kind().name()
        ),
    }
}

/// A bit number for each argument that is read here, to detect duplicates; 0 for all others, which the command's own
/// parse checks. A lookup in the table would cost more.
fn place(name: &str) -> u32 {
    match name {
        "$clusterTime" => 1,
        "$db" => 2,
        "$readPreference" => 3,
        "apiDeprecationErrors" => 4,
        "apiStrict" => 5,
        "apiVersion" => 6,
        "autocommit" => 7,
        "comment" => 8,
        "lsid" => 9,
        "maxTimeMS" => 10,
        "readConcern" => 11,
        "startTransaction" => 12,
        "txnNumber" => 13,
        "writeConcern" => 14,
        "clientOperationKey" => 15,
        "maxTimeMSOpOnly" => 16,
        "stmtId" => 17,
        "stmtIds" => 18,
        "help" => 19,
        _ => 0,
    }
}

fn duplicate(command: &Facts, name: &str) -> Error {
    err!(Code::IDL_DUPLICATE_FIELD, "BSON field '{}.{name}' is a duplicate field", command.name)
}

/// `expected` is one type name or several separated by ", ".
fn mismatch<T>(
    command: &Facts,
    name: impl std::fmt::Display,
    value: Value<'_>,
    expected: &str,
) -> Result<T> {
    let (types, open, close) = match expected.contains(',') {
        true => ("types", "[", "]"),
        false => ("type", "", ""),
    };
    bail!(
        Code::TYPE_MISMATCH,
        "BSON field '{}.{name}' is the wrong type '{}', expected {types} '{open}{expected}{close}'",
        command.name,
        value.kind().name()
    )
}

fn boolean(command: &Facts, name: &str, value: Value<'_>) -> Result<bool> {
    match value {
        Value::Bool(b) => Ok(b),
        _ => mismatch(command, name, value, "bool"),
    }
}

fn long(command: &Facts, name: &str, value: Value<'_>) -> Result<i64> {
    match value {
        Value::Int64(n) => Ok(n),
        _ => mismatch(command, name, value, "long"),
    }
}

fn int(command: &Facts, name: &dyn std::fmt::Display, value: Value<'_>) -> Result<i32> {
    match value {
        Value::Int32(n) => Ok(n),
        _ => mismatch(command, name, value, "int"),
    }
}

fn array<'a>(command: &Facts, name: &str, value: Value<'a>) -> Result<Array<'a>> {
    match value.as_array() {
        Some(list) => Ok(list),
        None => mismatch(command, name, value, "array"),
    }
}

/// Reads `{clusterTime, signature}`; signatures are not used.
fn cluster_time(value: Value<'_>) -> Result<u64> {
    match value.as_doc().map(|doc| doc.get("clusterTime")) {
        Some(Value::Timestamp(time)) => Ok(time),
        None => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '$clusterTime' is the wrong type '{}', expected type 'object'",
            value.kind().name()
        ),
        Some(Value::Missing) => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '$clusterTime.clusterTime' is missing but a required field"
        ),
        Some(other) => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '$clusterTime.clusterTime' is the wrong type '{}', expected type 'timestamp'",
            other.kind().name()
        ),
    }
}

fn string<'a>(command: &Facts, name: &str, value: Value<'a>) -> Result<&'a str> {
    match value.as_str() {
        Some(text) => Ok(text),
        None => mismatch(command, name, value, "string"),
    }
}

/// Checks the ids of a batch's statements: each must be an int (14).
fn statements<'a>(command: &Facts, name: &str, value: Value<'a>) -> Result<Array<'a>> {
    let ids = array(command, name, value)?;
    for (at, id) in ids.iter().enumerate() {
        int(command, &format_args!("{name}.{at}"), id)?;
    }
    Ok(ids)
}

/// Checks the types of arguments that have no effect here (14).
fn check_unused(command: &Facts, name: &str, value: Value<'_>) -> Result<()> {
    match name {
        "maxTimeMSOpOnly" if !value.is_number() => {
            mismatch(command, name, value, "long, int, decimal, double")
        }
        "mayBypassWriteBlocking" => boolean(command, name, value).map(drop),
        "clientOperationKey" => match value {
            Value::Binary(id) if id.subtype == 4 && { id.bytes }.len() == 16 => Ok(()),
            Value::Binary(id) if id.subtype == 4 => {
                bail!(
                    Code::INVALID_UUID,
                    "uuid must be a 16-byte binary field with UUID (4) subtype"
                )
            }
            Value::Binary(_) => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '{}.{name}' is the wrong binData type, expected type 'UUID'",
                command.name
            ),
            _ => mismatch(command, name, value, "binData"),
        },
        _ => Ok(()),
    }
}

fn max_time_ms(command: &Facts, value: Value<'_>) -> Result<i64> {
    let Some(ms) = truncate(value) else {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{}.maxTimeMS' is the wrong type '{}', expected types \
             '[long, int, decimal, double]'",
            command.name,
            value.kind().name()
        );
    };
    if !(0..=i64::from(i32::MAX)).contains(&ms) {
        bail!(Code::BAD_VALUE, "{ms} value for maxTimeMS is out of range [0, 2147483647]");
    }
    let fractional = match value {
        Value::Double(d) => d.fract() != 0.0,
        // A whole decimal equals its integer part.
        Value::Decimal128(_) => !nagi_bson::compare::equal(value, Value::Int64(ms)),
        _ => false,
    };
    if fractional {
        bail!(Code::BAD_VALUE, "maxTimeMS has non-integral value");
    }
    Ok(ms)
}
