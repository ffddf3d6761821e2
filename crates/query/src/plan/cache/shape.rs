//! The shape of a query: paths and operators, not values. Queries of one shape share a cached plan.
//!
//! A shape is a hash of 64 bits; explain and the log show 32 of them as eight hexadecimal digits. Two shapes with
//! the same hash share an entry, which may give a slower plan but never a wrong result. The order of conditions in
//! an `$and`, `$or` or `$nor` does not matter.

use nagi_bson::Value;
use nagi_lang::{
    collation::Collation,
    filter::{Filter, Pred},
};

use super::super::build::FindSpec;

/// The key of a query in the plan cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    /// Filter, sort, projection, collation.
    pub(crate) shape: u64,
    /// The shape, combined with everything else that determines the candidates.
    pub(crate) key: u64,
}

/// FNV-1a, 64 bits: stable between runs and machines.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) fn new() -> Hash {
        Hash(0xCBF2_9CE4_8422_2325)
    }

    pub(crate) fn from(value: u64) -> Hash {
        let mut hash = Hash::new();
        hash.number(value);
        hash
    }

    /// Adds a text; two successive texts differ from one long text.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0xFF]);
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    pub(crate) fn finish(self) -> u64 {
        self.0
    }
}

/// The 32 bits of a hash that are shown.
pub(crate) fn short(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

/// Eight hexadecimal digits of a hash.
pub(crate) fn hex(hash: u64) -> String {
    format!("{:08X}", short(hash))
}

impl Shape {
    /// The shape of a request. The indexes' part of the key is added by [`Shape::beside`].
    pub(crate) fn of(spec: &FindSpec<'_>) -> Shape {
        let mut hash = Hash::from(of_filter(&spec.filter));
        if let Some(sort) = &spec.sort {
            for part in sort.parts() {
                hash.text(part.path.as_str());
                hash.number(u64::from(part.descending) | u64::from(part.meta.is_some()) << 1);
            }
            of_collation(sort.collation(), &mut hash);
        }
        if let Some(projection) = &spec.projection {
            hash.text("projection");
            hash.bytes(projection.text().as_bytes());
        }
        let shape = hash.finish();
        if let Some(needed) = &spec.needed {
            needed.iter().for_each(|path| hash.text(path));
            hash.number(needed.len() as u64);
        }
        if spec.return_key || spec.show_record_id {
            hash.number(u64::from(spec.return_key) | u64::from(spec.show_record_id) << 1);
        }
        Shape { shape, key: hash.finish() }
    }

    /// The shape of a filter alone.
    pub(crate) fn of_filter(filter: &Filter) -> Shape {
        let shape = Hash::from(of_filter(filter)).finish();
        Shape { shape, key: shape }
    }

    /// Another key for another set of usable indexes: `left_out` are those that do not contain every document that
    /// the values of this query match.
    pub(crate) fn beside(self, left_out: &mut dyn Iterator<Item = &str>) -> Shape {
        let mut left_out = left_out.peekable();
        if left_out.peek().is_none() {
            return self;
        }
        let mut hash = Hash::from(self.key);
        left_out.for_each(|name| hash.text(name));
        Shape { key: hash.finish(), ..self }
    }
}

fn of_collation(collation: Option<&'static Collation>, hash: &mut Hash) {
    if let Some(collation) = collation {
        hash.bytes(collation.as_doc().as_bytes());
    }
}

fn of_list(name: &str, parts: &[Filter]) -> u64 {
    let mut hashes: Vec<u64> = parts.iter().map(of_filter).collect();
    hashes.sort_unstable();
    let mut hash = Hash::new();
    hash.text(name);
    hashes.into_iter().for_each(|part| hash.number(part));
    hash.finish()
}

fn of_filter(filter: &Filter) -> u64 {
    let mut hash = Hash::new();
    match filter {
        Filter::And(all) => return of_list("and", all),
        Filter::Or(any) => return of_list("or", any),
        Filter::Nor(none) => return of_list("nor", none),
        Filter::Not(inner) => return of_list("not", std::slice::from_ref(&**inner)),
        Filter::Field { path, pred } => {
            hash.text(path.as_str());
            hash.text(name(pred));
            match pred {
                Pred::ElemMatchObject(inner) | Pred::ElemMatchValue(inner) => {
                    hash.number(of_filter(inner));
                }
                Pred::Compare { collation, .. } => of_collation(*collation, &mut hash),
                Pred::In(list) => of_collation(list.collation(), &mut hash),
                _ => {}
            }
        }
        Filter::AlwaysTrue => {}
        Filter::AlwaysFalse => hash.text("false"),
        Filter::Expr(expr) => {
            hash.text("expr");
            of_expression(expr.source.value(), &mut hash);
        }
        Filter::Schema(_) => hash.text("schema"),
        Filter::Text(_) => hash.text("text"),
        Filter::Where(_) => hash.text("where"),
        Filter::Given(inner) => return of_list("given", std::slice::from_ref(&**inner)),
    }
    hash.finish()
}

/// Adds the operators, paths and variables of an expression; a constant counts as one whatever it is.
fn of_expression(value: Value<'_>, hash: &mut Hash) {
    match value {
        Value::String(path) if path.starts_with('$') => hash.text(path),
        Value::Doc(doc) => {
            for element in doc {
                hash.text(element.name());
                match element.name() {
                    "$literal" => hash.text("?"),
                    _ => of_expression(element.value(), hash),
                }
            }
            hash.text("}");
        }
        Value::Array(items) if items.iter().any(is_computed) => {
            items.iter().for_each(|item| of_expression(item, hash));
            hash.text("]");
        }
        _ => hash.text("?"),
    }
}

/// Returns true if an element of an array is more than a constant.
pub(crate) fn is_computed(value: Value<'_>) -> bool {
    match value {
        Value::String(path) => path.starts_with('$'),
        Value::Array(array) => array.iter().any(is_computed),
        Value::Doc(_) => true,
        _ => false,
    }
}

fn name(pred: &Pred) -> &'static str {
    match pred {
        Pred::Compare { op, .. } => op.name(),
        Pred::In(_) => "$in",
        Pred::Exists => "$exists",
        Pred::Type(_) => "$type",
        Pred::Regex(_) => "$regex",
        Pred::Mod { .. } => "$mod",
        Pred::Size(_) => "$size",
        Pred::Bits(_) => "$bits",
        Pred::Geo(_) => "$geo",
        Pred::Near(_) => "$near",
        Pred::ElemMatchObject(_) | Pred::ElemMatchValue(_) => "$elemMatch",
    }
}
