//! Who waits for changes of what: wakes the streams whose collections a commit has changed, and no others.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use nagi_bson::{Doc, Value};
use parking_lot::RwLock;

use crate::{Arrivals, Namespace};

/// The collections whose changes a stream shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeScope {
    Collection(Namespace),
    Database(Box<str>),
    Cluster,
}

impl ChangeScope {
    /// Database names have no dots, and names of collections follow one.
    fn key(&self) -> &str {
        match self {
            ChangeScope::Collection(namespace) => namespace.as_str(),
            ChangeScope::Database(name) => name,
            ChangeScope::Cluster => "",
        }
    }
}

/// A scope that streams watch; shared by all streams of the scope.
pub struct Watch {
    pub(super) arrivals: Arc<Arrivals>,
    /// The stamp of the last document of the log that touches the scope, as far as the feed has read.
    pub(super) touched_at: AtomicU64,
    /// `touched_at` considers documents after this stamp.
    pub(super) since: u64,
    key: Box<str>,
    registry: Weak<Watches>,
}

impl Watch {
    /// Announces the commits that change the scope.
    pub fn arrivals(&self) -> &Arc<Arrivals> {
        &self.arrivals
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.remove(&self.key);
        }
    }
}

/// All watched scopes.
#[derive(Default)]
pub(crate) struct Watches {
    count: AtomicUsize,
    by_key: RwLock<HashMap<Box<str>, Weak<Watch>, foldhash::fast::RandomState>>,
}

impl Watches {
    /// The watch of a scope; a new one considers documents after `since`.
    pub(super) fn get(self: &Arc<Watches>, scope: &ChangeScope, since: u64) -> Arc<Watch> {
        let mut by_key = self.by_key.write();
        if let Some(watch) = by_key.get(scope.key()).and_then(Weak::upgrade) {
            return watch;
        }
        let key: Box<str> = scope.key().into();
        let watch = Arc::new(Watch {
            arrivals: Arc::default(),
            touched_at: AtomicU64::new(0),
            since,
            key: key.clone(),
            registry: Arc::downgrade(self),
        });
        by_key.insert(key, Arc::downgrade(&watch));
        self.count.store(by_key.len(), SeqCst);
        watch
    }

    fn remove(&self, key: &str) {
        let mut by_key = self.by_key.write();
        // Another one may have taken its place.
        if by_key.get(key).is_some_and(|watch| watch.strong_count() == 0) {
            by_key.remove(key);
            self.count.store(by_key.len(), SeqCst);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    fn visit(&self, keys: &[&str], visit: &mut dyn FnMut(&Watch)) {
        let by_key = self.by_key.read();
        let found = keys.iter().filter_map(|key| by_key.get(*key)?.upgrade());
        let found: Vec<Arc<Watch>> = found.collect();
        // The last handle may be dropped here, which takes the lock.
        drop(by_key);
        found.iter().for_each(|watch| visit(watch));
    }

    /// Wakes the streams that show changes of one of these collections.
    pub(crate) fn announce<'n>(&self, changed: impl Iterator<Item = &'n Namespace>) {
        if self.is_empty() {
            return;
        }
        let mut keys: Vec<&str> = changed.flat_map(|ns| [ns.as_str(), ns.database()]).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.push("");
        self.visit(&keys, &mut |watch| watch.arrivals.announce());
    }

    /// Notes that a document of the log has this operation.
    pub(super) fn touch(&self, operation: Doc<'_>, stamp: u64) {
        let Value::String(namespace) = operation.get("ns") else { return };
        let Some((database, collection)) = namespace.split_once('.') else { return };
        let note = &mut |watch: &Watch| {
            watch.touched_at.fetch_max(stamp, SeqCst);
        };
        if collection != "$cmd" {
            return self.visit(&[namespace, database, ""], note);
        }
        let command = operation.get("o").as_doc().unwrap_or(Doc::EMPTY);
        let first = command.first().map(|first| (first.name(), first.value()));
        match (first, command.get("to")) {
            (Some(("renameCollection", Value::String(from))), Value::String(to)) => {
                let of = |name: &'_ str| {
                    name.split_once('.').map_or("", |(database, _)| database).to_owned()
                };
                self.visit(&[from, to, &of(from), &of(to), ""], note);
            }
            (Some((_, Value::String(name))), _) => {
                self.visit(&[&format!("{database}.{name}"), database, ""], note);
            }
            _ => self.visit(&[database, ""], note),
        }
    }
}
