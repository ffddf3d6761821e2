//! Who waits for changes of what: wakes the streams whose collections a commit has changed, and no others.
//!
//! A stream may wait for the changes of one document, by its `_id`. It is also woken by all changes that are not of
//! documents, because a drop ends it; and by some changes of other documents: it looks what there is for it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use nagi_bson::{Doc, Value};
use parking_lot::RwLock;

use super::ids::{ChangedIds, IdHash};
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

/// A scope that streams watch, or a document in it; shared by all streams that watch the same.
pub struct Watch {
    pub(super) arrivals: Arc<Arrivals>,
    /// The stamp of the last document of the log that touches the scope, as far as the feed has read.
    pub(super) touched_at: AtomicU64,
    /// `touched_at` considers documents after this stamp.
    pub(super) since: u64,
    key: Box<str>,
    id: Option<IdHash>,
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
            registry.remove(&self.key, self.id);
        }
    }
}

/// The watches of a scope.
#[derive(Default)]
struct ScopeWatches {
    all: Weak<Watch>,
    by_id: BTreeMap<IdHash, Weak<Watch>>,
}

impl ScopeWatches {
    fn place(&mut self, id: Option<IdHash>) -> &mut Weak<Watch> {
        match id {
            None => &mut self.all,
            Some(id) => self.by_id.entry(id).or_default(),
        }
    }

    /// Removes a watch without users. Another one may have taken its place.
    fn remove(&mut self, id: Option<IdHash>) {
        match id {
            Some(id) if self.by_id.get(&id).is_some_and(|watch| watch.strong_count() == 0) => {
                self.by_id.remove(&id);
            }
            None if self.all.strong_count() == 0 => self.all = Weak::new(),
            _ => {}
        }
    }

    fn count(&self) -> usize {
        self.by_id.len() + usize::from(self.all.strong_count() > 0)
    }
}

/// The documents whose watches are visited, beside those of whole scopes.
enum Ids<'i> {
    All,
    One(Option<IdHash>),
    Changed(&'i ChangedIds),
}

/// All watched scopes.
#[derive(Default)]
pub(crate) struct Watches {
    /// Streams are woken by what is read from the log, because other processes write to it.
    announces: bool,
    count: AtomicUsize,
    /// The number of watches of documents.
    id_count: AtomicUsize,
    by_key: RwLock<HashMap<Box<str>, ScopeWatches, foldhash::fast::RandomState>>,
}

impl Watches {
    pub(super) fn new(announces: bool) -> Watches {
        Watches { announces, ..Watches::default() }
    }

    /// The watch of a scope, or of the document in it with this id; a new one considers documents after `since`.
    pub(super) fn get(
        self: &Arc<Watches>,
        scope: &ChangeScope,
        id: Option<IdHash>,
        since: u64,
    ) -> Arc<Watch> {
        let mut by_key = self.by_key.write();
        let key: Box<str> = scope.key().into();
        let place = by_key.entry(key.clone()).or_default().place(id);
        if let Some(watch) = place.upgrade() {
            return watch;
        }
        let watch = Arc::new(Watch {
            arrivals: Arc::default(),
            touched_at: AtomicU64::new(0),
            since,
            key,
            id,
            registry: Arc::downgrade(self),
        });
        *place = Arc::downgrade(&watch);
        self.count.fetch_add(1, SeqCst);
        self.id_count.fetch_add(usize::from(id.is_some()), SeqCst);
        watch
    }

    /// Each watch is removed once, by its last user.
    fn remove(&self, key: &str, id: Option<IdHash>) {
        let mut by_key = self.by_key.write();
        if let Some(scope) = by_key.get_mut(key) {
            scope.remove(id);
            if scope.count() == 0 {
                by_key.remove(key);
            }
        }
        self.count.fetch_sub(1, SeqCst);
        self.id_count.fetch_sub(usize::from(id.is_some()), SeqCst);
    }

    /// True if there are watches of documents. One that is created afterwards sees later commits.
    pub(crate) fn has_ids(&self) -> bool {
        self.id_count.load(SeqCst) > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    fn visit(&self, keys: &[&str], ids: &Ids<'_>, visit: &mut dyn FnMut(&Watch)) {
        let by_key = self.by_key.read();
        let mut found: Vec<Arc<Watch>> = Vec::new();
        for scope in keys.iter().filter_map(|key| by_key.get(*key)) {
            found.extend(scope.all.upgrade());
            let by_id = &scope.by_id;
            let all = || by_id.values().filter_map(Weak::upgrade);
            match ids {
                _ if by_id.is_empty() => {}
                Ids::All => found.extend(all()),
                Ids::One(id) => found.extend(id.and_then(|id| by_id.get(&id)?.upgrade())),
                Ids::Changed(changed) => match changed.ranges() {
                    None => found.extend(all()),
                    Some(ranges) => ranges.for_each(|range| {
                        found.extend(by_id.range(range).filter_map(|(_, watch)| watch.upgrade()));
                    }),
                },
            }
        }
        // The last handle may be dropped here, which takes the lock.
        drop(by_key);
        found.iter().for_each(|watch| visit(watch));
    }

    /// Wakes the streams that show changes of one of these collections, and of these documents in them.
    pub(crate) fn announce<'n>(
        &self,
        changed: impl Iterator<Item = &'n Namespace>,
        ids: &ChangedIds,
    ) {
        if self.is_empty() || self.announces {
            return;
        }
        let mut keys: Vec<&str> = changed.flat_map(|ns| [ns.as_str(), ns.database()]).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.push("");
        self.visit(&keys, &Ids::Changed(ids), &mut |watch| watch.arrivals.announce());
    }

    /// Notes that a document of the log has this operation, and wakes the streams that show it unless commits do that.
    /// `id`: of the document that it changes.
    pub(super) fn touch(&self, operation: Doc<'_>, id: Option<IdHash>, stamp: u64) {
        let Value::String(namespace) = operation.get("ns") else { return };
        let Some((database, collection)) = namespace.split_once('.') else { return };
        let note = &mut |watch: &Watch| {
            watch.touched_at.fetch_max(stamp, SeqCst);
            if self.announces {
                watch.arrivals.announce();
            }
        };
        if collection != "$cmd" {
            return self.visit(&[namespace, database, ""], &Ids::One(id), note);
        }
        let command = operation.get("o").as_doc().unwrap_or(Doc::EMPTY);
        let first = command.first().map(|first| (first.name(), first.value()));
        match (first, command.get("to")) {
            (Some(("renameCollection", Value::String(from))), Value::String(to)) => {
                let of = |name: &'_ str| {
                    name.split_once('.').map_or("", |(database, _)| database).to_owned()
                };
                self.visit(&[from, to, &of(from), &of(to), ""], &Ids::All, note);
            }
            (Some((_, Value::String(name))), _) => {
                self.visit(&[&format!("{database}.{name}"), database, ""], &Ids::All, note);
            }
            _ => self.visit(&[database, ""], &Ids::All, note),
        }
    }
}
