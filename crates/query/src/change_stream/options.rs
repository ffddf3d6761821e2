//! The options of `$changeStream`.

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::{Code, Result, bail};
pub(crate) use nagi_store::ChangeScope as Scope;
use nagi_store::Namespace;

use super::{operation::Kind, token::Token};

/// `fullDocument`: the document after an update, if it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum FullDocument {
    #[default]
    Default,
    /// The newest version, read when the event is delivered.
    UpdateLookup,
    /// The version of the event, if the collection records pre-images; null if it is gone.
    WhenAvailable,
    /// The same; an error if it is gone.
    Required,
}

/// `fullDocumentBeforeChange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum BeforeChange {
    #[default]
    Off,
    WhenAvailable,
    Required,
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Start {
    /// Behind the newest commit.
    #[default]
    Now,
    /// At the first event that has this cluster time or a later one.
    At(u64),
    /// Behind a token.
    Behind(Token),
}

/// A parsed `$changeStream`.
#[derive(Debug, Clone)]
pub(crate) struct StreamOptions {
    pub(super) scope: Scope,
    pub(super) start: Start,
    pub(super) full_document: FullDocument,
    pub(super) before_change: BeforeChange,
    pub(super) expanded: bool,
    /// `showSystemEvents`: collections of the server itself, too.
    pub(super) system: bool,
    /// `showRawUpdateDescription`: updates have the difference of the log.
    pub(super) raw_updates: bool,
    /// `matchCollectionUUIDForUpdateLookup`: a document of another collection of the same name is not looked up.
    pub(super) match_uuid: bool,
    /// The specification, for explain.
    pub(crate) text: DocBuf,
}

fn wrong_type(name: &str, value: Value<'_>, expected: &str) -> nagi_error::Error {
    nagi_error::err!(
        Code::TYPE_MISMATCH,
        "BSON field '$changeStream.{name}' is the wrong type '{}', expected type '{expected}'",
        value.kind().name()
    )
}

fn switch(name: &str, value: Value<'_>) -> Result<bool> {
    match value {
        Value::Bool(on) => Ok(on),
        _ => Err(wrong_type(name, value, "bool")),
    }
}

/// The alternative of an enumeration that a string names.
fn one_of<T: Copy>(name: &str, value: Value<'_>, all: &[(&str, T)]) -> Result<T> {
    let Value::String(text) = value else { return Err(wrong_type(name, value, "string")) };
    match all.iter().find(|(known, _)| *known == text) {
        Some((_, one)) => Ok(*one),
        None => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{text}' for field '$changeStream.{name}' is not a valid value."
        ),
    }
}

fn token(name: &str, value: Value<'_>) -> Result<Token> {
    match value {
        Value::Doc(token) => Token::parse(token),
        _ => Err(wrong_type(name, value, "object")),
    }
}

/// The options that say where a stream begins, as given.
#[derive(Default)]
struct Starts {
    resume_after: Option<Token>,
    start_after: Option<Token>,
    at: Option<u64>,
}

impl Starts {
    fn one(self) -> Result<Start> {
        if self.resume_after.is_some() && self.start_after.is_some() {
            bail!(
                Code::Location(50865),
                "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage"
            );
        }
        let behind = self.resume_after.or(self.start_after);
        if behind.is_some() && self.at.is_some() {
            bail!(
                Code::Location(40674),
                "Only one type of resume option is allowed, but multiple were found."
            );
        }
        if self.resume_after.is_some_and(|token| token.is_invalidate()) {
            bail!(
                Code::INVALID_RESUME_TOKEN,
                "Attempting to resume a change stream using 'resumeAfter' is not allowed from an \
                 invalidate notification."
            );
        }
        Ok(match (behind, self.at) {
            (Some(token), _) => Start::Behind(token),
            (None, Some(time)) => Start::At(time),
            (None, None) => Start::Now,
        })
    }
}

impl StreamOptions {
    /// Parses the stage of a pipeline on `namespace`; `collectionless`: of `aggregate: 1`; `for_access`: as in
    /// [`crate::stages::PipelineCx`].
    ///
    /// # Errors
    /// 50808, 40415, 14, 2 for the structure, 72 and 73 for a place that cannot be watched, 50865, 40674, 260 and those
    /// of [`Token::parse`] for the place to begin at.
    pub(crate) fn parse(
        spec: Value<'_>,
        namespace: &Namespace,
        collectionless: bool,
        for_access: bool,
    ) -> Result<StreamOptions> {
        let Value::Doc(spec) = spec else {
            bail!(Code::Location(50808), "$changeStream stage expects a document as argument");
        };
        let (mut starts, mut all) = (Starts::default(), false);
        let mut options = StreamOptions {
            scope: Scope::Cluster,
            start: Start::Now,
            full_document: FullDocument::Default,
            before_change: BeforeChange::Off,
            expanded: false,
            system: false,
            raw_updates: false,
            match_uuid: false,
            text: spec.to_buf(),
        };
        for element in spec {
            let (name, value) = (element.name(), element.value());
            match name {
                name if value.is_nullish() && OPTIONS.contains(&name) => {}
                "fullDocument" => options.full_document = one_of(name, value, FULL_DOCUMENT)?,
                "fullDocumentBeforeChange" => {
                    options.before_change = one_of(name, value, BEFORE_CHANGE)?;
                }
                "resumeAfter" => starts.resume_after = Some(token(name, value)?),
                "startAfter" => starts.start_after = Some(token(name, value)?),
                "startAtOperationTime" => match value {
                    Value::Timestamp(time) => starts.at = Some(time),
                    _ => return Err(wrong_type(name, value, "timestamp")),
                },
                "allChangesForCluster" => all = switch(name, value)?,
                "showExpandedEvents" => options.expanded = switch(name, value)?,
                "showSystemEvents" => options.system = switch(name, value)?,
                "showRawUpdateDescription" => options.raw_updates = switch(name, value)?,
                "matchCollectionUUIDForUpdateLookup" => options.match_uuid = switch(name, value)?,
                // Chunks do not migrate here, so there is nothing to show.
                "showMigrationEvents" => drop(switch(name, value)?),
                _ => bail!(
                    Code::IDL_UNKNOWN_FIELD,
                    "BSON field '$changeStream.{name}' is an unknown field."
                ),
            }
        }
        if !for_access {
            check_scope(namespace, collectionless, all, options.system)?;
        }
        options.scope = scope(namespace, collectionless);
        options.start = starts.one()?;
        Ok(options)
    }
}

/// All options. A null is as if the option were absent.
const OPTIONS: [&str; 11] = [
    "fullDocument",
    "fullDocumentBeforeChange",
    "resumeAfter",
    "startAfter",
    "startAtOperationTime",
    "allChangesForCluster",
    "showExpandedEvents",
    "showSystemEvents",
    "showRawUpdateDescription",
    "matchCollectionUUIDForUpdateLookup",
    "showMigrationEvents",
];

impl StreamOptions {
    /// True if events of this kind get the document after the change.
    pub(super) fn wants_after(&self, kind: Kind) -> bool {
        kind == Kind::Update && self.full_document != FullDocument::Default
    }

    /// True if events of this kind get the document before the change.
    pub(super) fn wants_before(&self, kind: Kind) -> bool {
        let changes = matches!(kind, Kind::Update | Kind::Replace | Kind::Delete);
        changes && self.before_change != BeforeChange::Off
    }

    /// True if events of this kind get documents that are looked up.
    pub(super) fn looks_up(&self, kind: Kind) -> bool {
        self.wants_after(kind) || self.wants_before(kind)
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }
}

const FULL_DOCUMENT: &[(&str, FullDocument)] = &[
    ("default", FullDocument::Default),
    ("updateLookup", FullDocument::UpdateLookup),
    ("whenAvailable", FullDocument::WhenAvailable),
    ("required", FullDocument::Required),
];

const BEFORE_CHANGE: &[(&str, BeforeChange)] = &[
    ("off", BeforeChange::Off),
    ("whenAvailable", BeforeChange::WhenAvailable),
    ("required", BeforeChange::Required),
];

/// Refuses collections and databases that have no streams, and a stream of everything elsewhere than on `admin`.
fn check_scope(namespace: &Namespace, collectionless: bool, all: bool, system: bool) -> Result<()> {
    let database = namespace.database();
    if all && !(collectionless && database == "admin") {
        bail!(
            Code::INVALID_OPTIONS,
            "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' \
             database, and with no collection name; found {namespace}"
        );
    }
    if !all && matches!(database, "admin" | "local" | "config") {
        bail!(
            Code::INVALID_NAMESPACE,
            "$changeStream may not be opened on the internal {database} database"
        );
    }
    if !collectionless && namespace.is_system() && !system {
        bail!(
            Code::INVALID_NAMESPACE,
            "$changeStream may not be opened on the internal {namespace} collection"
        );
    }
    Ok(())
}

/// The collections that a stream shows.
fn scope(namespace: &Namespace, collectionless: bool) -> Scope {
    match (collectionless, namespace.database()) {
        (true, "admin") => Scope::Cluster,
        (true, database) => Scope::Database(database.into()),
        (false, _) => Scope::Collection(namespace.clone()),
    }
}

/// True if a token may not be followed by a pipeline without `$changeStreamSplitLargeEvent`.
pub(super) fn splits(start: &Start) -> bool {
    matches!(start, Start::Behind(token) if token.fragment().is_some())
}

/// Writes a token for an error.
pub(super) fn token_text(token: &Token) -> String {
    let doc: DocBuf = DocBuf::build(|out| token.put(out));
    let shown: Doc<'_> = doc.as_doc();
    shown.to_string()
}
