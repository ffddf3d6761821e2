//! The error of every call.

use std::{fmt, io};

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::Code;

/// The result of every call.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of failure an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The command failed: its reply has `ok: 0`.
    Command,
    /// A write of the command failed, for example on a duplicate key. Other writes of it may have taken effect.
    Write,
    /// The write took effect, but not with the write concern that was asked for.
    WriteConcern,
    /// The bytes are not a valid document, or a value does not convert to one.
    Document,
    /// An option has an invalid value.
    Options,
    /// Another process, or this one, has the folder open.
    InUse,
    /// The folder's data is damaged.
    Corrupt,
    /// The operating system refused: files, permissions, a full disk. [`Error::io_kind`] has more.
    Io,
    /// The database is closed.
    Closed,
}

/// An error, with MongoDB's code, name and message.
///
/// It is one pointer, so that results stay small.
///
/// ```
/// # fn main() -> nagi::Result<()> {
/// let db = nagi::Database::in_memory()?;
/// let error = db.run_command("shop", nagi::doc! { "frobnicate": 1 }).unwrap_err();
/// assert_eq!((error.code(), error.name()), (59, "CommandNotFound"));
/// assert_eq!(error.kind(), nagi::ErrorKind::Command);
/// # Ok(()) }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    code: i32,
    name: String,
    message: String,
    labels: Vec<String>,
    reply: Option<DocBuf>,
    io: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, code: Code, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            code: code.0,
            name: code.name().into_owned(),
            message: message.into(),
            labels: Vec::new(),
            reply: None,
            io: None,
        }))
    }

    pub(crate) fn closed() -> Error {
        Error::new(ErrorKind::Closed, Code::INTERRUPTED_AT_SHUTDOWN, "the database is closed")
    }

    pub(crate) fn document(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Document, Code::INVALID_BSON, message)
    }

    pub(crate) fn io(what: &str, error: io::Error) -> Error {
        let code = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::OUT_OF_DISK_SPACE,
            io::ErrorKind::NotFound => Code::NON_EXISTENT_PATH,
            _ => Code::ILLEGAL_OPERATION,
        };
        let mut made = Error::new(ErrorKind::Io, code, format!("{what}: {error}"));
        made.0.io = Some(error);
        made
    }

    /// An error of a storage engine while the folder `what` is opened or closed.
    pub(crate) fn engine(what: &str, error: nagi_kv::Error) -> Error {
        match error {
            nagi_kv::Error::Io(error) => Error::io(what, error),
            nagi_kv::Error::Full => Error::io(what, io::ErrorKind::StorageFull.into()),
            nagi_kv::Error::Corrupt(text) => Error::new(
                ErrorKind::Corrupt,
                Code::DATA_CORRUPTION_DETECTED,
                format!("{what}: {text}; `nagi --repair --dbpath` saves what can be read"),
            ),
            other => Error::new(ErrorKind::Io, Code::OPERATION_FAILED, format!("{what}: {other}")),
        }
    }

    /// An error of the store or the command processor outside of a command.
    pub(crate) fn core(what: &str, error: &nagi_error::Error) -> Error {
        let kind = match error.code() {
            Code::DATA_CORRUPTION_DETECTED => ErrorKind::Corrupt,
            // Internal errors are those of the storage engine.
            Code::OUT_OF_DISK_SPACE | Code::INTERNAL_ERROR => ErrorKind::Io,
            _ => ErrorKind::Options,
        };
        let mut made = Error::new(kind, error.code(), format!("{what}: {}", error.message()));
        if error.code() == Code::OUT_OF_DISK_SPACE {
            made.0.io = Some(io::ErrorKind::StorageFull.into());
        }
        made
    }

    /// The error of a reply with `ok: 0`.
    pub(crate) fn of_reply(reply: DocBuf) -> Error {
        let mut made = Error::of_part(ErrorKind::Command, reply.as_doc());
        made.0.labels = labels(reply.as_doc());
        made.0.reply = Some(reply);
        made
    }

    /// The error of a reply whose writes failed, or whose write concern was not satisfied; `None` if all went well.
    pub(crate) fn of_writes(reply: &DocBuf) -> Option<Error> {
        let first = match reply.get("writeErrors") {
            Value::Array(errors) => errors.get(0),
            _ => Value::Missing,
        };
        let mut made = match (first, reply.get("writeConcernError")) {
            (Value::Doc(first), _) => Error::of_part(ErrorKind::Write, first),
            (_, Value::Doc(concern)) => Error::of_part(ErrorKind::WriteConcern, concern),
            _ => return None,
        };
        made.0.labels = labels(reply.as_doc());
        made.0.reply = Some(reply.clone());
        Some(made)
    }

    /// Takes code, name and message from a document that has them.
    fn of_part(kind: ErrorKind, part: Doc<'_>) -> Error {
        let code = match part.get("code") {
            Value::Int32(code) => Code(code),
            _ => Code::INTERNAL_ERROR,
        };
        let mut made = Error::new(kind, code, part.get("errmsg").as_str().unwrap_or_default());
        if let Some(name) = part.get("codeName").as_str() {
            name.clone_into(&mut made.0.name);
        }
        made
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// MongoDB's number of the error, for example 11000 for a duplicate key.
    pub fn code(&self) -> i32 {
        self.0.code
    }

    /// The name that belongs to the code, for example `DuplicateKey`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The text, which [`fmt::Display`] prints too.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Labels such as `TransientTransactionError`, which says that the whole transaction may be tried again.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.0.labels.iter().map(String::as_str)
    }

    /// Returns true if the error has a label.
    ///
    /// ```
    /// # fn main() -> nagi::Result<()> {
    /// # let db = nagi::Database::in_memory()?;
    /// let error = db.run_command("shop", nagi::doc! { "frobnicate": 1 }).unwrap_err();
    /// assert!(!error.has_label("TransientTransactionError"));
    /// # Ok(()) }
    /// ```
    pub fn has_label(&self, label: &str) -> bool {
        self.labels().any(|own| own == label)
    }

    /// The whole reply of the command, if there was one: `writeErrors` has every failed write.
    pub fn reply(&self) -> Option<Doc<'_>> {
        self.0.reply.as_ref().map(DocBuf::as_doc)
    }

    /// The kind of an error of the operating system.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.0.io.as_ref().map(io::Error::kind)
    }
}

fn labels(reply: Doc<'_>) -> Vec<String> {
    match reply.get("errorLabels") {
        Value::Array(labels) => {
            labels.iter().filter_map(|label| label.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, code, name, message, labels, .. } = &*self.0;
        write!(f, "{name} ({code}, {kind:?}): {message}")?;
        if labels.is_empty() { Ok(()) } else { write!(f, " {labels:?}") }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.io.as_ref().map(|error| error as _)
    }
}
