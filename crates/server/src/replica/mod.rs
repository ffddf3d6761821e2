//! A replica set of one member: the state of a server started with `--replSet`.
//!
//! ```text
//!   Startup -- replSetInitiate --> Primary -- replSetStepDown, force --> Secondary
//!      |                             ^  ^                                    |
//!      +-- configuration found ------+  +-- step-down time has passed -------+
//!          in `local` at the start
//! ```
//!
//! The configuration and the term are documents of `local.system.replset` and `local.replset.election`, as in MongoDB.
//! Each transition to primary increments the term, and the election id with it. The step back from secondary to primary
//! is a background job that polls [`ReplicaSet::is_to_step_up`].
//!
//! There are no other members. The oplog is the change log of the store (`nagi_store::Oplog`).

mod clock;
mod config;
mod horizons;
mod oplog;
mod reach;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};

use nagi_bson::{Doc, DocBuf, DocWriter, Value, doc};
use nagi_error::{Code, Result, bail};
use nagi_store::{CommitStamp, Durability, Namespace, Store, WriteOptions};
use parking_lot::{Mutex, RwLock};

pub(crate) use clock::ClusterClock;
use config::Config;
use horizons::Horizons;
pub use oplog::OplogLimits;
use oplog::Retention;
pub(crate) use reach::Asks;

use crate::clock::wall_ms;
use crate::metrics::Counter;

/// Where MongoDB stores a set's configuration and its last vote.
const CONFIG_NAMESPACE: &str = "local.system.replset";
const ELECTION_NAMESPACE: &str = "local.replset.election";
/// Where earlier versions stored a cluster time ahead of the wall clock.
const CLOCK_NAMESPACE: &str = "local.replset.clock";

/// The membership of this server in a replica set.
pub(crate) struct ReplicaSet {
    pub(crate) name: String,
    /// The `host:port` of the default configuration.
    own_host: String,
    store: Arc<Store>,
    member: RwLock<Option<Arc<Member>>>,
    is_member: AtomicBool,
    /// The end of the step-down time, in milliseconds since 1970; zero while it is primary.
    stepped_down_until_ms: AtomicI64,
    /// Serializes changes of the configuration and of the term.
    changing: Mutex<()>,
    pub(crate) clock: ClusterClock,
    pub(crate) oplog: Retention,
    pub(crate) elections: Elections,
}

/// Elections since the start of the process; each of them makes the only member primary.
#[derive(Default)]
pub(crate) struct Elections {
    /// At a start with a configuration, and by `replSetInitiate`.
    pub(crate) begun: Counter,
    /// After the time of a step-down.
    pub(crate) after_step_down: Counter,
}

/// A member with its configuration; immutable, replaced as a whole.
pub(crate) struct Member {
    pub(crate) config: DocBuf,
    pub(crate) version: i64,
    pub(crate) term: i64,
    pub(crate) host: String,
    horizons: Horizons,
    pub(crate) tags: DocBuf,
    pub(crate) elected_ms: i64,
    /// The cluster time of its election.
    pub(crate) elected_at: u64,
}

impl Member {
    /// The election id grows with the term: drivers take the primary with the greatest id for the newest.
    pub(crate) fn election_id(&self) -> [u8; 12] {
        let mut id = [0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0];
        id[4..].copy_from_slice(&self.term.to_be_bytes());
        id
    }

    /// The address at which a client sees this member. `server_name`: the host that it named in its TLS handshake.
    pub(crate) fn address_for(&self, server_name: Option<&str>) -> &str {
        self.horizons.address_for(server_name).unwrap_or(&self.host)
    }
}

/// The role of the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// No configuration yet.
    Startup,
    Primary,
    Secondary,
}

impl ReplicaSet {
    /// Reads the configuration stored by an earlier start. Code 93 if it belongs to another set.
    pub(crate) fn open(
        store: Arc<Store>,
        (name, own_host): (String, String),
        oplog: OplogLimits,
    ) -> Result<ReplicaSet> {
        let clock = ClusterClock::new(Arc::clone(&store));
        let set = ReplicaSet {
            name,
            own_host,
            store,
            member: RwLock::new(None),
            is_member: AtomicBool::new(false),
            stepped_down_until_ms: AtomicI64::new(0),
            changing: Mutex::new(()),
            clock,
            oplog: Retention::new(oplog),
            elections: Elections::default(),
        };
        // Earlier versions stored a time that was ahead of the wall clock.
        if let Some(kept) = read_one(&set.store, CLOCK_NAMESPACE)?
            && let Value::Timestamp(time) = kept.get("ts")
        {
            set.store.observe_stamp(CommitStamp(time))?;
        }
        if let Some(stored) = read_one(&set.store, CONFIG_NAMESPACE)? {
            let stored = stored.as_doc();
            if stored.get("_id").as_str() != Some(&set.name) {
                bail!(
                    Code::INVALID_REPLICA_SET_CONFIG,
                    "The data belong to replica set {}, but the command line says {}",
                    stored.get("_id"),
                    set.name
                );
            }
            let term = crate::number::truncate(stored.get("term")).unwrap_or(1);
            let config = config::complete(stored, &set.name, term)?;
            set.elect(config, true)?;
            set.elections.begun.increment();
        }
        Ok(set)
    }

    /// Shows the log. It begins anew if changes were not logged in a run as no member, and if it was dropped there: a
    /// log with an unnoticed gap would make change streams and archives wrong. `known`: the set is not a new one.
    fn begin_log(&self, known: bool) -> Result<()> {
        if !self.store.has_change_log() {
            return Ok(());
        }
        let is_new = self.store.shown_change_log().is_none();
        if is_new {
            self.store.show_change_log(self.oplog.bytes_max)?;
        }
        if self.store.has_unlogged_changes()? || (is_new && known) {
            log::warn!(target: "REPL", id = 9_000_071;
                "The oplog was dropped, or has not what the server wrote without --replSet: it begins anew");
            self.store.cut_change_log()?;
        }
        self.store.show_pre_images()
    }

    /// Returns the host of the configuration found at the start if it is not an address of this server.
    pub(crate) fn is_elsewhere(&self, own_port: u16) -> Option<String> {
        let host = self.member()?.host.clone();
        (!reach::is_here(&host, own_port)).then_some(host)
    }

    pub(crate) fn member(&self) -> Option<Arc<Member>> {
        self.member.read().clone()
    }

    /// The member, or error 94 before `replSetInitiate`.
    pub(crate) fn initialized(&self) -> Result<Arc<Member>> {
        match self.member() {
            Some(member) => Ok(member),
            None => bail!(Code::NOT_YET_INITIALIZED, "no replset config has been received"),
        }
    }

    pub(crate) fn is_member(&self) -> bool {
        self.is_member.load(SeqCst)
    }

    /// The current role. A secondary remains one until [`ReplicaSet::step_up`] is called.
    pub(crate) fn role(&self) -> Role {
        match self.stepped_down_until_ms.load(SeqCst) {
            _ if !self.is_member() => Role::Startup,
            0 => Role::Primary,
            _ => Role::Secondary,
        }
    }

    /// Runs `replSetInitiate`. Codes 23, 93, 103.
    pub(crate) fn initiate(&self, given: Doc<'_>) -> Result<()> {
        let _one = self.changing.lock();
        if self.is_member() {
            bail!(Code::ALREADY_INITIALIZED, "already initialized");
        }
        let default = config::default(&self.name, &self.own_host);
        let given = if given.is_empty() { default.as_doc() } else { given };
        let mut with_id = given.to_buf();
        let without_id = match given.get("settings") {
            Value::Missing => true,
            Value::Doc(settings) => settings.get("replicaSetId").is_missing(),
            // Refused below.
            _ => false,
        };
        if without_id {
            with_id = add_set_id(given, &self.store.new_object_id());
        }
        let config = config::complete(with_id.as_doc(), &self.name, 1)?;
        config::check_values(given)?;
        write_one(&self.store, CONFIG_NAMESPACE, config.doc.as_doc())?;
        self.elect(config, false)?;
        self.elections.begun.increment();
        self.store.append_note(doc! { "msg": "initiating set" }.as_doc())?;
        log::info!(target: "REPL", id = 21331, setName = self.name.as_str();
            "Transition to primary complete; database writes are now permitted");
        Ok(())
    }

    /// Checks that the hosts of a configuration are reachable and that exactly one is this server.
    pub(crate) fn check_hosts(
        &self,
        given: Doc<'_>,
        own: (u16, [u8; 12]),
        asks: Asks,
    ) -> Result<()> {
        let term = match (asks, self.member()) {
            (Asks::Initiate, Some(_)) => bail!(Code::ALREADY_INITIALIZED, "already initialized"),
            (Asks::Reconfigure, None) => return self.initialized().map(drop),
            (_, member) => member.map_or(0, |member| member.term),
        };
        // A wrong name of the set is reported first.
        match given.get("_id").as_str() == Some(&self.name) {
            true => reach::check(given, own, term, asks),
            false => Ok(()),
        }
    }

    /// Runs `replSetReconfig`. Codes 93, 94, 103.
    pub(crate) fn reconfigure(&self, given: Doc<'_>, force: bool) -> Result<()> {
        let _one = self.changing.lock();
        let member = self.initialized()?;
        let config = config::complete(given, &self.name, member.term)?;
        config::check_values(given)?;
        if config.version <= member.version && !force {
            bail!(
                Code::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE,
                "New replica set configuration version must be greater than old, but {} is not \
                 greater than {} for replica set {}",
                config.version,
                member.version,
                self.name
            );
        }
        write_one(&self.store, CONFIG_NAMESPACE, config.doc.as_doc())?;
        self.publish(config, member.term, (member.elected_ms, member.elected_at));
        Ok(())
    }

    /// Changes the port in the configuration of a member, if it is another one.
    pub(crate) fn follow_port(&self, port: u16) -> Result<()> {
        let _one = self.changing.lock();
        let Some(member) = self.member() else { return Ok(()) };
        let host = config::with_port(&member.host, port);
        if host == member.host {
            return Ok(());
        }
        let moved = config::moved(member.config.as_doc(), &host, member.version + 1);
        let config = config::complete(moved.as_doc(), &self.name, member.term)?;
        write_one(&self.store, CONFIG_NAMESPACE, config.doc.as_doc())?;
        log::info!(target: "REPL", id = 9_000_074, from = member.host.as_str(), to = host.as_str();
            "The configuration of the replica set follows the port that the system selected");
        self.publish(config, member.term, (member.elected_ms, member.elected_at));
        Ok(())
    }

    /// Runs `replSetResizeOplog`.
    pub(crate) fn resize_oplog(&self, bytes_max: i64) -> Result<()> {
        match self.store.has_change_log() {
            true => self.store.show_change_log(bytes_max).map(drop),
            false => Ok(()),
        }
    }

    /// Runs `replSetStepDown` with `force`: the server is a secondary for `seconds`. Returns false if it is no primary.
    pub(crate) fn step_down(&self, seconds: i64) -> Result<bool> {
        self.be_secondary(Role::Primary, seconds)
    }

    /// Runs `replSetFreeze`: the server stays a secondary for `seconds`. Returns false if it is none.
    pub(crate) fn freeze(&self, seconds: i64) -> Result<bool> {
        self.be_secondary(Role::Secondary, seconds)
    }

    /// The role cannot change in between: a step up that is in progress ends before.
    fn be_secondary(&self, from: Role, seconds: i64) -> Result<bool> {
        let _one = self.changing.lock();
        self.initialized()?;
        let is = self.role() == from;
        if is {
            self.stepped_down_until_ms.store(wall_ms() + seconds.max(1) * 1000, SeqCst);
        }
        Ok(is)
    }

    /// Returns from secondary to primary.
    pub(crate) fn step_up(&self) -> Result<()> {
        self.step_up_if(|| true).map(drop)
    }

    /// The same if the step-down time has passed. Returns true if it was a secondary until now.
    pub(crate) fn step_up_if_due(&self) -> Result<bool> {
        self.step_up_if(|| self.is_to_step_up())
    }

    fn step_up_if(&self, is_due: impl FnOnce() -> bool) -> Result<bool> {
        let _one = self.changing.lock();
        if self.stepped_down_until_ms.load(SeqCst) == 0 || !is_due() {
            return Ok(false);
        }
        let member = self.initialized()?;
        let config = config::complete(member.config.as_doc(), &self.name, member.term)?;
        self.elect(config, true)?;
        self.elections.after_step_down.increment();
        self.stepped_down_until_ms.store(0, SeqCst);
        Ok(true)
    }

    /// Returns true if the step-down time has passed.
    pub(crate) fn is_to_step_up(&self) -> bool {
        let until = self.stepped_down_until_ms.load(SeqCst);
        until > 0 && wall_ms() >= until
    }

    /// Becomes primary in the next term. `known`: the set existed before.
    fn elect(&self, config: Config, known: bool) -> Result<()> {
        let last = read_one(&self.store, ELECTION_NAMESPACE)?;
        let last = last.and_then(|doc| crate::number::truncate(doc.get("term"))).unwrap_or(0);
        let term = last + 1;
        let vote = doc! { "_id": "lastVote", "term": term, "candidateIndex": 0_i64 };
        let elected = write_one(&self.store, ELECTION_NAMESPACE, vote.as_doc())?;
        self.store.begin_term(term);
        self.begin_log(known)?;
        let note = doc! { "msg": "new primary" };
        self.store.append_note(note.as_doc())?;
        self.publish(config, term, (wall_ms(), elected.0));
        Ok(())
    }

    fn publish(&self, config: Config, term: i64, elected: (i64, u64)) {
        *self.member.write() = Some(Arc::new(Member {
            version: config.version,
            config: config.doc,
            term,
            host: config.host,
            horizons: config.horizons,
            tags: config.tags,
            elected_ms: elected.0,
            elected_at: elected.1,
        }));
        self.is_member.store(true, SeqCst);
    }

    /// Writes the time of the last write, as `hello` and `serverStatus` show it. The only member is a majority.
    pub(crate) fn write_last_write(&self, member: &Member, out: &mut DocWriter<'_>) {
        let (time, date) = (self.clock.operation(), self.clock.written_ms());
        let op_time = |w: &mut DocWriter<'_>| {
            w.put("ts", Value::Timestamp(time));
            w.put("t", member.term);
        };
        out.doc("opTime", op_time);
        out.put("lastWriteDate", Value::DateTime(date));
        out.doc("majorityOpTime", op_time);
        out.put("majorityWriteDate", Value::DateTime(date));
    }
}

/// Returns true if the data directory belongs to a member of a replica set.
pub(crate) fn is_stored(store: &Store) -> Result<bool> {
    Ok(read_one(store, CONFIG_NAMESPACE)?.is_some())
}

/// The configuration with a new id of the set among its settings.
fn add_set_id(given: Doc<'_>, id: &[u8; 12]) -> DocBuf {
    DocBuf::build(|w| {
        given.iter().filter(|e| e.name() != "settings").for_each(|e| w.put_element(e));
        w.doc("settings", |w| {
            w.extend(given.get("settings").as_doc().unwrap_or(Doc::EMPTY));
            w.put("replicaSetId", id);
        });
    })
}

/// Reads the only document of a small collection.
fn read_one(store: &Store, namespace: &str) -> Result<Option<DocBuf>> {
    let Some(collection) = store.collection(&Namespace::parse(namespace)?) else {
        return Ok(None);
    };
    let mut cursor = store.latest().scan(&collection, true)?;
    Ok(if cursor.advance()? { Some(cursor.doc().to_buf()) } else { None })
}

/// Replaces the contents of the collection by one document, durably, and returns the commit stamp.
fn write_one(store: &Store, namespace: &str, doc: Doc<'_>) -> Result<CommitStamp> {
    let collection = store.collection_or_create(&Namespace::parse(namespace)?)?;
    let options = WriteOptions { durability: Durability::Synced, ..WriteOptions::default() };
    let written = store.write(options, &mut |txn| {
        let mut cursor = txn.reader().scan(&collection, true)?;
        while cursor.advance()? {
            let old = cursor.doc().to_buf();
            txn.delete(&collection, cursor.id(), old.as_doc())?;
        }
        drop(cursor);
        txn.insert(&collection, doc).map(drop)
    })?;
    Ok(written.stamp.get().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use nagi_kv::Memory;
    use nagi_store::StoreOptions;

    use super::*;

    fn open(engine: &Arc<Memory>, name: &str) -> Result<ReplicaSet> {
        let store = Store::open(engine.clone(), StoreOptions::default()).unwrap();
        let names = (name.to_owned(), "localhost:27017".to_owned());
        ReplicaSet::open(store, names, OplogLimits::default())
    }

    #[test]
    fn the_configuration_survives_and_each_start_is_a_new_term() {
        let engine = Arc::new(Memory::new());
        let set = open(&engine, "rs").unwrap();
        assert_eq!((set.role(), set.initialized().err().unwrap().code().0), (Role::Startup, 94));
        set.initiate(Doc::EMPTY).unwrap();
        assert_eq!(set.initiate(Doc::EMPTY).unwrap_err().code().0, 23);
        let first = set.member().unwrap();
        assert_eq!((first.host.as_str(), first.term, first.version), ("localhost:27017", 1, 1));
        let ahead = set.clock.cluster() + (1000 << 32);
        set.clock.observe(ahead).unwrap();
        drop(set);
        assert_eq!(open(&engine, "other").err().unwrap().code().0, 93);
        let set = open(&engine, "rs").unwrap();
        let second = set.member().unwrap();
        assert_eq!((set.role(), second.term), (Role::Primary, 2));
        assert!(second.election_id() > first.election_id());
        assert!(set.clock.cluster() > ahead);
    }

    #[test]
    fn stepping_down_lasts_until_somebody_ends_it() {
        let set = open(&Arc::new(Memory::new()), "rs").unwrap();
        set.initiate(Doc::EMPTY).unwrap();
        assert!(!set.freeze(60).unwrap() && set.role() == Role::Primary, "a primary cannot freeze");
        assert!(set.step_down(60).unwrap());
        assert_eq!(set.role(), Role::Secondary);
        assert!(!set.step_down(1).unwrap() && set.freeze(60).unwrap());
        assert!(!set.step_up_if_due().unwrap(), "the minute has not passed");
        set.step_up().unwrap();
        assert_eq!((set.role(), set.member().unwrap().term), (Role::Primary, 2));
        assert!(!set.step_up_if_due().unwrap());
    }

    #[test]
    fn configurations_are_checked() {
        let set = open(&Arc::new(Memory::new()), "rs").unwrap();
        for (text, code) in [
            ("{_id: 'other', members: [{_id: 0, host: 'a:1'}]}", 93),
            ("{_id: 'rs', members: []}", 93),
            ("{_id: 'rs', members: [{_id: 0, host: 'a:x'}]}", 93),
            ("{_id: 'rs', members: [{_id: 0, host: 'a:1', priority: 0}]}", 93),
            ("{_id: 'rs', members: [{_id: 0, host: 'a:1'}, {_id: 1, host: 'b:1'}]}", 103),
            ("{_id: 'rs', members: [{_id: 0, host: 'a:1', nonsense: 1}]}", 40415),
            ("{_id: 'rs', configsvr: true, members: [{_id: 0, host: 'a:1'}]}", 2),
            ("{_id: 'rs', configsvr: 'x', members: [{_id: 0, host: 'a:1'}]}", 14),
            ("{_id: 'rs', protocolVersion: 0, members: [{_id: 0, host: 'a:1'}]}", 2),
            ("{_id: 'rs', protocolVersion: 2, members: [{_id: 0, host: 'a:1'}]}", 2),
            ("{_id: 'rs', members: [{_id: 0, host: 'a:1'}], settings: 5}", 14),
            ("{_id: 'rs', members: [{_id: 0, host: 'a:1'}], settings: {other: 1}}", 40415),
            ("{_id: 'rs', members: [{_id: 0, host: 'a:1'}], settings: {chainingAllowed: 'x'}}", 14),
            (
                "{_id: 'rs', members: [{_id: 0, host: 'a:1'}], settings: {electionTimeoutMillis: 0}}",
                2,
            ),
            (
                "{_id: 'rs', members: [{_id: 0, host: 'a:1'}], settings: {getLastErrorDefaults: {w: 2}}}",
                2,
            ),
            ("{_id: 'rs', members: [{_id: 0, host: 'a:1', buildIndexes: false}]}", 2),
            ("{_id: 'rs', members: [{_id: 256, host: 'a:1'}]}", 2),
            ("{_id: 'rs', members: [{_id: 'x', host: 'a:1'}]}", 14),
            ("{_id: 'rs', members: [{host: 'a:1'}]}", 40414),
            ("{_id: 'rs', members: [{_id: 0, host: 'a:1', tags: {a: 1}}]}", 14),
            ("{_id: 'rs', version: 0, members: [{_id: 0, host: 'a:1'}]}", 93),
        ] {
            let given = nagi_bson::json::parse(text).unwrap();
            assert_eq!(set.initiate(given.as_doc()).unwrap_err().code().0, code, "{text}");
        }
        let given =
            nagi_bson::json::parse("{_id: 'rs', members: [{_id: 0, host: 'a:1'}]}").unwrap();
        set.initiate(given.as_doc()).unwrap();
        assert_eq!(set.reconfigure(given.as_doc(), false).unwrap_err().code().0, 103);
        set.reconfigure(given.as_doc(), true).unwrap();
    }

    #[test]
    fn settings_are_shown_as_given() {
        let set = open(&Arc::new(Memory::new()), "rs").unwrap();
        let given = nagi_bson::json::parse(
            "{_id: 'rs', members: [{_id: 3, host: 'a:1'}], protocolVersion: 1, \
              writeConcernMajorityJournalDefault: false, \
              settings: {chainingAllowed: false, electionTimeoutMillis: 5000}}",
        );
        set.initiate(given.unwrap().as_doc()).unwrap();
        let member = set.member().unwrap();
        let shown = member.config.as_doc();
        assert_eq!(shown.get("writeConcernMajorityJournalDefault"), Value::Bool(false));
        let settings = shown.get("settings").as_doc().unwrap();
        assert_eq!(settings.get("chainingAllowed"), Value::Bool(false));
        assert_eq!(settings.get("electionTimeoutMillis"), Value::Int32(5000));
    }
}
