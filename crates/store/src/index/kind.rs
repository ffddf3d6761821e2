//! The kinds of indexes: one row a kind, with what others may know of it.

/// How the keys of a document are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum IndexKind {
    /// Values as they are, ascending or descending.
    Btree,
    /// One field by its hash, others as they are.
    Hashed,
    /// Pairs in the plane by their square of a grid, others as they are.
    TwoD,
    /// Geometries on the sphere by cells, others as they are.
    TwoDSphere,
    /// Every path with its value, others as they are.
    Wildcard,
    /// The terms of strings with their scores, others as they are.
    Text,
}

/// What is known of a kind besides how its keys are made.
#[derive(Debug)]
pub struct KindFacts {
    pub kind: IndexKind,
    /// How key patterns name it; empty where they name a direction.
    pub plugin: &'static str,
    /// Every document has an entry, and all entries are those of documents' values or hashes: a scan of the whole
    /// index finds each document, and points of all fields find just those that hold them.
    pub whole: bool,
    /// The plan of an ordinary filter may use it.
    pub answers_filters: bool,
    /// Keys are made of all paths of a document, which stand in the keys.
    pub by_path: bool,
    /// Takes a collation.
    pub collates: bool,
    pub can_be_unique: bool,
    /// A collection has one at most.
    pub single: bool,
    /// Belongs to version 1 of the stable API.
    pub in_api: bool,
}

impl KindFacts {
    /// What most kinds have in common.
    const ROW: KindFacts = KindFacts {
        kind: IndexKind::Btree,
        plugin: "",
        whole: false,
        answers_filters: true,
        by_path: false,
        collates: true,
        can_be_unique: true,
        single: false,
        in_api: true,
    };
}

static KINDS: &[KindFacts] = &[
    KindFacts { whole: true, ..KindFacts::ROW },
    KindFacts {
        kind: IndexKind::Hashed,
        plugin: "hashed",
        whole: true,
        can_be_unique: false,
        ..KindFacts::ROW
    },
    KindFacts { kind: IndexKind::TwoD, plugin: "2d", collates: false, ..KindFacts::ROW },
    KindFacts { kind: IndexKind::TwoDSphere, plugin: "2dsphere", ..KindFacts::ROW },
    KindFacts { kind: IndexKind::Wildcard, by_path: true, ..KindFacts::ROW },
    KindFacts {
        kind: IndexKind::Text,
        plugin: "text",
        answers_filters: false,
        collates: false,
        single: true,
        in_api: false,
        ..KindFacts::ROW
    },
];

impl IndexKind {
    /// The row of the kind.
    pub fn facts(self) -> &'static KindFacts {
        &KINDS[self as usize]
    }

    /// The kind that a key pattern names.
    pub(crate) fn of_plugin(plugin: &str) -> Option<IndexKind> {
        KINDS.iter().find(|row| !plugin.is_empty() && row.plugin == plugin).map(|row| row.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_kinds() {
        for (at, row) in KINDS.iter().enumerate() {
            assert_eq!(row.kind as usize, at);
            assert_eq!(row.kind.facts().kind, row.kind);
        }
    }
}
