//! An operation of the log, as change streams classify it.

use nagi_bson::{Binary, Doc, Value};

use super::options::Scope;

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Insert,
    Update,
    Replace,
    Delete,
    Create,
    CreateIndexes,
    DropIndexes,
    Modify,
    Drop,
    Rename,
    DropDatabase,
}

impl Kind {
    pub(super) const ALL: [Kind; 11] = [
        Kind::Insert,
        Kind::Update,
        Kind::Replace,
        Kind::Delete,
        Kind::Create,
        Kind::CreateIndexes,
        Kind::DropIndexes,
        Kind::Modify,
        Kind::Drop,
        Kind::Rename,
        Kind::DropDatabase,
    ];

    /// The event's `operationType`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::Replace => "replace",
            Kind::Delete => "delete",
            Kind::Create => "create",
            Kind::CreateIndexes => "createIndexes",
            Kind::DropIndexes => "dropIndexes",
            Kind::Modify => "modify",
            Kind::Drop => "drop",
            Kind::Rename => "rename",
            Kind::DropDatabase => "dropDatabase",
        }
    }

    /// True if only streams with `showExpandedEvents` have such events.
    fn is_expanded(self) -> bool {
        use Kind::{Create, CreateIndexes, DropIndexes, Modify};
        matches!(self, Create | CreateIndexes | DropIndexes | Modify)
    }
}

/// An operation of the log that streams may show.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) kind: Kind,
    pub(super) database: &'a str,
    /// Empty for `dropDatabase`.
    pub(super) collection: &'a str,
    /// The new name of a renamed collection.
    pub(super) to: Option<(&'a str, &'a str)>,
    pub(super) uuid: Option<[u8; 16]>,
    /// The operation's objects.
    pub(super) o: Doc<'a>,
    pub(super) o2: Doc<'a>,
    /// It changes the definition of a view.
    pub(super) of_view: bool,
}

fn uuid_of(value: Value<'_>) -> Option<[u8; 16]> {
    match value {
        Value::Binary(Binary { bytes, .. }) => bytes.try_into().ok(),
        _ => None,
    }
}

impl<'a> Operation<'a> {
    /// Classifies an entry of the log; `None` if streams never show it.
    pub(super) fn parse(entry: Doc<'a>) -> Option<Operation<'a>> {
        let (Value::String(op), Value::String(namespace)) = (entry.get("op"), entry.get("ns"))
        else {
            return None;
        };
        let (database, collection) = namespace.split_once('.')?;
        let o = entry.get("o").as_doc()?;
        let o2 = entry.get("o2").as_doc().unwrap_or(Doc::EMPTY);
        let of_view = collection == "system.views";
        let kind = match op {
            "i" => Kind::Insert,
            "u" if o.element("diff").is_some() && o.element("$v").is_some() => Kind::Update,
            "u" => Kind::Replace,
            "d" => Kind::Delete,
            "c" => return Operation::of_command(entry, database, o, o2),
            _ => return None,
        };
        let uuid = uuid_of(entry.get("ui"));
        let operation = Operation { kind, database, collection, to: None, uuid, o, o2, of_view };
        if of_view { operation.viewed() } else { Some(operation) }
    }

    /// The change of a view, whose definition is a document of `system.views`.
    fn viewed(self) -> Option<Operation<'a>> {
        let id = if self.o2.is_empty() { self.o.get("_id") } else { self.o2.get("_id") };
        let (_, collection) = id.as_str()?.split_once('.')?;
        let kind = match self.kind {
            Kind::Insert => Kind::Create,
            Kind::Delete => Kind::Drop,
            _ => Kind::Modify,
        };
        Some(Operation { kind, collection, uuid: None, ..self })
    }

    fn of_command(
        entry: Doc<'a>,
        database: &'a str,
        o: Doc<'a>,
        o2: Doc<'a>,
    ) -> Option<Operation<'a>> {
        let command = o.first()?;
        let kind = match command.name() {
            "create" => Kind::Create,
            "createIndexes" | "commitIndexBuild" => Kind::CreateIndexes,
            "dropIndexes" | "deleteIndexes" => Kind::DropIndexes,
            "collMod" => Kind::Modify,
            "drop" => Kind::Drop,
            "renameCollection" | "convertToCapped" => Kind::Rename,
            "dropDatabase" => Kind::DropDatabase,
            _ => return None,
        };
        let named = |name: &'a str| name.split_once('.');
        let (database, collection, to) = match (kind, command.name(), command.value()) {
            (Kind::DropDatabase, ..) => (database, "", None),
            (_, "renameCollection", Value::String(from)) => {
                let (database, collection) = named(from)?;
                (database, collection, Some(named(o.get("to").as_str()?)?))
            }
            // The new collection takes the place of the old one, as by a rename.
            (_, "convertToCapped", Value::String(name)) => (database, name, Some((database, name))),
            (_, _, Value::String(collection)) => (database, collection, None),
            _ => return None,
        };
        let uuid = uuid_of(entry.get("ui"));
        Some(Operation { kind, database, collection, to, uuid, o, o2, of_view: false })
    }

    /// True if a stream shows it.
    pub(super) fn is_shown(&self, scope: &Scope, expanded: bool, system: bool) -> bool {
        if (self.kind.is_expanded() || self.of_view) && !expanded {
            return false;
        }
        match scope {
            Scope::Collection(namespace) => {
                let wanted = (namespace.database(), namespace.collection());
                let own = (self.database, self.collection) == wanted;
                !self.of_view && (own || self.to == Some(wanted))
            }
            Scope::Database(name) => {
                let within = |at: (&str, &str)| at.0 == &**name && (system || is_ordinary(at.1));
                within((self.database, self.collection)) || self.to.is_some_and(within)
            }
            Scope::Cluster => {
                let within = |at: (&str, &str)| {
                    let internal = matches!(at.0, "admin" | "config" | "local");
                    !internal && (system || is_ordinary(at.1))
                };
                within((self.database, self.collection)) || self.to.is_some_and(within)
            }
        }
    }

    /// True if the stream of this scope ends behind it.
    pub(super) fn invalidates(&self, scope: &Scope) -> bool {
        match scope {
            Scope::Collection(_) => matches!(self.kind, Kind::Drop | Kind::Rename),
            Scope::Database(_) => self.kind == Kind::DropDatabase,
            Scope::Cluster => false,
        }
    }
}

/// False for collections of the server itself.
fn is_ordinary(collection: &str) -> bool {
    !collection.starts_with("system.")
}
