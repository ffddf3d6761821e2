//! The kinds of indexes: one row for each, with its properties.

/// The method by which the keys of a document are generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum IndexKind {
    /// Plain values, ascending or descending.
    Btree,
    /// One field by its hash, the others by value.
    Hashed,
    /// Pairs in the plane by their grid square, the others by value.
    TwoD,
    /// Geometries on the sphere by cells, the others by value.
    TwoDSphere,
    /// Every path with its value, the others by value.
    Wildcard,
    /// The terms of strings with their scores, the others by value.
    Text,
}

/// Properties of a kind, apart from key generation.
#[derive(Debug)]
pub struct KindFacts {
    pub kind: IndexKind,
    /// The name in key patterns; empty for patterns with directions.
    pub plugin: &'static str,
    /// Every document has an entry, and all entries have values of documents or their hashes: a scan of the whole
    /// index finds every document, and points on all fields find exactly the documents with these values.
    pub whole: bool,
    /// Plans of ordinary filters may use it.
    pub answers_filters: bool,
    /// Keys are generated for all paths of a document and contain the path.
    pub by_path: bool,
    /// Supports a collation.
    pub collates: bool,
    pub can_be_unique: bool,
    /// A collection may have at most one.
    pub single: bool,
    /// Part of version 1 of the stable API.
    pub in_api: bool,
}

impl KindFacts {
    /// The properties that most kinds have.
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
