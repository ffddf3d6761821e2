//! Opens a store: reads the catalog and completes operations that a crash interrupted.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use nagi_bson::oid::Generator;
use nagi_error::{Code, Result, bail};
use nagi_kv::sync::{Condvar, Mutex};
use nagi_kv::{Capabilities, Engine, Space};

use crate::{
    Collection, Namespace, Store, StoreOptions,
    annotations::Annotations,
    attend,
    build::Build,
    cache::Cache,
    catalog::{self},
    clock,
    engine_error::engine as engine_error,
    ident::{Ident, STRIPES_POWER_MAX},
    log_keeper,
    node::{self, Joined},
    store::{
        Shared,
        cache_partition::CachePartition,
        change_log::{self, Lists},
        commit::{
            held::HeldCommits,
            stamps::{self, Stamps},
        },
        ddl::Idents,
        members::Members,
        queue::Queue,
        reclaim::{self, Job, Reclaimer},
        transaction::OpenTransactions,
    },
};

/// The capabilities that the store requires, of the engine as `node::join` returns it.
const NEEDED: Capabilities = Capabilities { adds_commute: true, ..Capabilities::NONE };

impl Store {
    /// Reads the catalog, and completes operations that a crash interrupted. Over an engine to which other processes
    /// may write, this process becomes the only one first: see `node`.
    ///
    /// # Errors
    /// 20 if the engine lacks what the options need. 98 if another node owns the data.
    pub fn open(engine: Arc<dyn Engine>, options: StoreOptions) -> Result<Arc<Store>> {
        // A cached document would be read without the engine, which refuses a node that has lost its lease.
        let record_cache_bytes = match engine.capabilities().only_writer {
            true => options.record_cache_bytes,
            false => 0,
        };
        let Joined { engine, seat } = node::join(engine, &options.node)?;
        let promises = engine.capabilities();
        let loaded = catalog::load(&*engine, seat.as_deref())?;
        let members = seat.map(|lease| Arc::new(Members::new(lease, loaded.version)));
        if let Some(missing) = promises.missing(&NEEDED) {
            let name = engine.name();
            bail!(Code::ILLEGAL_OPERATION, "the storage engine {name} lacks {missing}");
        }
        if promises.one_order {
            stamps::resume(&*engine)?;
        }
        let random = clock::random().to_be_bytes();
        let held = Arc::<HeldCommits>::default();
        let reclaimer = Reclaimer::new(Arc::clone(&engine), Arc::clone(&held));
        match promises.drops_at_once {
            // Those of other nodes: see `steward`.
            _ if members.is_some() => {}
            true => reclaim::drop_ranges(&*engine, &loaded.dropped, &|| true)?,
            false => reclaimer.push(Job::left_over(loaded.dropped.clone())),
        }
        let shown = change_log::shown_in(&loaded.catalog);
        change_log::resume(&*engine, shown.as_deref())?;
        if let Some(log) = &options.change_log {
            log.begin_term(change_log::newest_term(&*engine, shown.as_deref())?);
        }
        let lists = lists(&*engine, &options)?;
        let feed = change_log::Feed::new(&options.budget, lists.is_some());
        change_log::connect(&loaded.catalog, &feed.image_age);
        let shared = Shared {
            open: OpenTransactions::default(),
            stamps: Stamps::default(),
            held,
            change_log: options.change_log,
            lists,
            log_shown: ArcSwapOption::new(shown),
            log_newest: AtomicU64::new(0),
            counts_unlogged: AtomicBool::new(false),
            feed,
            spills: Arc::default(),
            bulk_builds: Arc::default(),
            reclaimer,
            engine,
            promises,
            stripes_power: options.node.stripes_power.min(STRIPES_POWER_MAX),
            queue: (!promises.conflicts_at_once).then(Queue::new),
            catalog: ArcSwap::from_pointee(loaded.catalog),
            members,
            ddl: Mutex::new(Idents::new(&promises, loaded.next_ident)),
            cache: Cache::new(record_cache_bytes),
            cache_partition: CachePartition::new(record_cache_bytes as u64),
            zstd_level: options.zstd_level,
            budget: options.budget,
            annotations: Annotations::default(),
            builds: Mutex::default(),
            build_ended: Condvar::new(),
            ids: Generator::new(
                [random[0], random[1], random[2], random[3], random[4]],
                u32::from_be_bytes([0, random[5], random[6], random[7]]),
            ),
        };
        let store = Store { shared: Arc::new(shared), bound: None, client: Arc::default() };
        store.finish_open(loaded.dropped, loaded.unfinished, options.keep_temporary)?;
        store.split_own_fences()?;
        if let Some(lists) = &store.lists {
            log_keeper::start(&store.shared, lists, options.change_log_lasts);
        }
        Ok(Arc::new(store))
    }

    /// Completes what earlier processes have left, if no other node may be at work on it, and joins the others.
    fn finish_open(
        &self,
        dropped: Vec<(Space, Ident)>,
        unfinished: Vec<(Namespace, Box<str>)>,
        keep_temporary: bool,
    ) -> Result<()> {
        let Some(members) = &self.members else {
            return self.clean_up(unfinished, keep_temporary);
        };
        members.note_fresh();
        self.read_all_counts(members)?;
        self.answer(members)?;
        // Otherwise the steward does it.
        if self.is_only_member(members)? {
            self.reclaimer.push(Job::left_over(dropped));
            self.clean_up(unfinished, keep_temporary)?;
        }
        attend::start(&self.shared, members);
        Ok(())
    }

    /// Drops what an earlier process has not finished, or has made for its own time only.
    fn clean_up(&self, unfinished: Vec<(Namespace, Box<str>)>, keep_temporary: bool) -> Result<()> {
        let catalog = self.catalog();
        for (namespace, index) in unfinished {
            log::info!(target: "INDEX", id = 4841700, namespace = namespace.as_str(),
                index = &*index; "Index build: dropping an index whose build was interrupted");
            if let Some(collection) = catalog.collection(&namespace) {
                self.give_up(&Build::left_over(collection))?;
            }
        }
        let doomed = |c: &&Arc<Collection>| c.options.is_temporary() && !keep_temporary;
        for collection in catalog.iter().filter(doomed) {
            log::info!(target: "STORAGE", id = 9_000_072, namespace = collection.namespace.as_str();
                "Dropping a temporary collection of an earlier run");
            self.drop_collection(&collection.namespace)?;
        }
        Ok(())
    }
}

/// The log where its keys cannot be stamps: begins it if the options ask for one.
///
/// # Errors
/// 20 if there is such a log, and this node would not write to it.
fn lists(on: &dyn Engine, options: &StoreOptions) -> Result<Option<Arc<Lists>>> {
    if on.capabilities().appends_by_stamp {
        return Ok(None);
    }
    if options.change_log.is_some() {
        node::begin_log(on).map_err(engine_error)?;
        return Ok(Some(Arc::default()));
    }
    let snapshot = on.snapshot().map_err(engine_error)?;
    let stamp = snapshot.stamp().0;
    match node::log_keys::status(&*snapshot, stamp).map_err(engine_error)?.first {
        None => Ok(None),
        Some(_) => bail!(
            Code::ILLEGAL_OPERATION,
            "other nodes log the changes of these data: a node that does not cannot share them"
        ),
    }
}
