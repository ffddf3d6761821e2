//! Connections to the two deployments, which outlive failures: a command is sent again over a new connection until it
//! is answered, or until the deployment has been away for too long.
//!
//! Every command that is sent this way may be applied twice. Cursors end with their connection: [`Link::once`] does not
//! repeat, and the reader continues with a new cursor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use nagi_bson::{Array, Doc, DocBuf, Value, doc, number};

use crate::remote::address::Address;
use crate::remote::client::{Client, Failure};

/// The pause before the first new attempt; it doubles up to the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often a pause checks if the command is to stop.
const STEP: Duration = Duration::from_millis(50);
/// The most documents in a listing that is read as a whole: collections, indexes.
const LISTED_MAX: usize = 200_000;

/// The codes of errors that pass: another member becomes the primary, a server restarts, requests are interrupted, and
/// conflicts, of which a server over a cluster speaks also if it cannot reach that.
const PASSING: &[i64] = &[
    6, 7, 89, 91, 112, 189, 246, 262, 9001, 10_058, 10_107, 11_600, 11_602, 13_388, 13_435, 13_436,
];
/// The codes of errors that end a cursor, but not its query: not found, killed, its plan killed, lost position.
const CURSOR_ENDS: &[i64] = &[43, 136, 175, 237];
pub(super) const NAMESPACE_NOT_FOUND: i64 = 26;
pub(super) const NAMESPACE_EXISTS: i64 = 48;
pub(super) const UUID_MISMATCH: i64 = 361;

/// Why a step of the copy did not succeed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A signal stops the command.
    Stopped,
    /// A cursor is lost: its query begins again behind what was read.
    CursorLost,
    Refused {
        code: i64,
        text: String,
        reply: DocBuf,
    },
    Failed(String),
}

pub(super) type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    /// The server's code; 0 for other errors.
    pub(super) fn code(&self) -> i64 {
        match self {
            Trouble::Refused { code, .. } => *code,
            _ => 0,
        }
    }

    /// The same with what was done.
    pub(super) fn during(self, what: &str) -> Trouble {
        match self {
            Trouble::Refused { code, text, reply } => {
                Trouble::Refused { code, text: format!("{what}: {text}"), reply }
            }
            Trouble::Failed(text) => Trouble::Failed(format!("{what}: {text}")),
            other => other,
        }
    }
}

pub(super) fn failed<T>(text: impl Into<String>) -> Result<T> {
    Err(Trouble::Failed(text.into()))
}

/// Waits for threads. Of several errors the first one is returned that is not only the consequence of another.
pub(super) fn joined(threads: Vec<ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    let mut first = Ok(());
    for thread in threads {
        let result = thread.join().unwrap_or_else(|_| failed("a thread of the copy has panicked"));
        if result.is_err() && matches!(first, Ok(()) | Err(Trouble::Stopped)) {
            first = result;
        }
    }
    first
}

/// Set by a signal.
#[derive(Clone, Default)]
pub(super) struct Stop(pub(super) Arc<AtomicBool>);

impl Stop {
    pub(super) fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Trouble::Stopped),
            false => Ok(()),
        }
    }

    /// Waits, unless the command is to stop.
    pub(super) fn pause(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.check()?;
            std::thread::park_timeout(left.min(STEP));
        }
        self.check()
    }
}

/// A deployment: the servers of its address.
pub(super) struct Deployment {
    pub(super) side: &'static str,
    pub(super) addresses: Vec<Address>,
    /// How long it may be away.
    pub(super) patience: Duration,
    pub(super) stop: Stop,
}

/// A connection to the deployment's primary, or to one of its routers.
pub(super) struct Link {
    to: Arc<Deployment>,
    client: Option<Client>,
}

impl Link {
    /// Nothing is sent until the first command.
    pub(super) fn new(to: &Arc<Deployment>) -> Link {
        Link { to: to.clone(), client: None }
    }

    /// Connects at once: an address that is wrong at the start does not become right.
    pub(super) fn connect(to: &Arc<Deployment>) -> Result<Link> {
        match connect(to) {
            Ok(client) => Ok(Link { to: to.clone(), client: Some(client) }),
            Err(failure) => failed(format!("{}: {}", to.side, failure.into_text())),
        }
    }

    pub(super) fn stop(&self) -> &Stop {
        &self.to.stop
    }

    pub(super) fn another(&self) -> Link {
        Link::new(&self.to)
    }

    /// Runs a command, again after failures that pass. It must be one that may be applied twice.
    pub(super) fn run(&mut self, body: &DocBuf) -> Result<DocBuf> {
        self.attempt(|client| client.try_run(body.as_doc()))
    }

    /// The same with a sequence of documents.
    pub(super) fn run_with(&mut self, body: &DocBuf, name: &str, docs: &[u8]) -> Result<DocBuf> {
        self.attempt(|client| {
            let reply = client.run_with(body.as_doc(), name, docs)?;
            let errors = reply.get("writeErrors").as_array().unwrap_or(Array::EMPTY);
            let passing = errors.iter().filter_map(|error| error.as_doc()).find(|error| {
                let code = whole(*error, "code");
                PASSING.contains(&code)
            });
            match passing {
                None => Ok(reply),
                Some(error) => Err(Failure::Refused {
                    code: whole(error, "code"),
                    text: error.get("errmsg").as_str().unwrap_or("a write failed").to_owned(),
                    reply: DocBuf::new(),
                }),
            }
        })
    }

    /// Runs a `getMore`: after a failure that passes its cursor is lost.
    pub(super) fn once(&mut self, body: &DocBuf) -> Result<DocBuf> {
        self.to.stop.check()?;
        let Some(client) = self.client.as_mut() else { return Err(Trouble::CursorLost) };
        match client.try_run(body.as_doc()) {
            Ok(reply) => Ok(reply),
            Err(Failure::Connection(_)) => {
                self.client = None;
                Err(Trouble::CursorLost)
            }
            Err(Failure::Refused { code, .. }) if CURSOR_ENDS.contains(&code) => {
                Err(Trouble::CursorLost)
            }
            Err(Failure::Refused { code, .. }) if PASSING.contains(&code) => {
                self.client = None;
                Err(Trouble::CursorLost)
            }
            Err(Failure::Refused { code, text, reply }) => {
                Err(Trouble::Refused { code, text, reply })
            }
        }
    }

    fn attempt(
        &mut self,
        mut run: impl FnMut(&mut Client) -> std::result::Result<DocBuf, Failure>,
    ) -> Result<DocBuf> {
        let mut pause = PAUSE_MIN;
        let mut since = None;
        loop {
            self.to.stop.check()?;
            let answer = match self.client.as_mut() {
                Some(client) => run(client),
                None => match connect(&self.to) {
                    Ok(client) => run(self.client.insert(client)),
                    Err(failure) => Err(failure),
                },
            };
            let text = match answer {
                Ok(reply) => return Ok(reply),
                Err(Failure::Connection(text)) => text,
                Err(Failure::Refused { code, text, .. }) if PASSING.contains(&code) => text,
                Err(Failure::Refused { code, text, reply }) => {
                    return Err(Trouble::Refused { code, text, reply });
                }
            };
            self.client = None;
            let began = *since.get_or_insert_with(Instant::now);
            if began.elapsed() >= self.to.patience {
                let (side, seconds) = (self.to.side, self.to.patience.as_secs());
                return failed(format!("the {side} has been away for {seconds} seconds: {text}"));
            }
            if pause == PAUSE_MIN {
                crate::say(&format!("nagi copy: the {} does not answer: {text}", self.to.side));
            }
            self.to.stop.pause(pause)?;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The reply to `hello` of the server that answers now.
    pub(super) fn greeting(&mut self) -> Result<DocBuf> {
        self.run(&doc! { "hello": 1, "$db": "admin" })
    }

    /// Runs a command that returns a cursor, and returns all its documents: for listings, which are small.
    pub(super) fn list(&mut self, body: &DocBuf) -> Result<Vec<DocBuf>> {
        loop {
            match self.list_once(body) {
                Err(Trouble::CursorLost) => {}
                other => return other,
            }
        }
    }

    fn list_once(&mut self, body: &DocBuf) -> Result<Vec<DocBuf>> {
        let mut reply = self.run(body)?;
        let mut found = Vec::new();
        loop {
            let page = Page::of(&reply)?;
            found.extend(page.docs().map(|doc| doc.to_buf()));
            if found.len() > LISTED_MAX {
                return failed(format!("more than {LISTED_MAX} entries in a listing"));
            }
            let Some(more) = page.more(None) else { return Ok(found) };
            reply = self.once(&more)?;
        }
    }
}

/// Connects to the first server of the address that is a primary or a router.
fn connect(to: &Deployment) -> std::result::Result<Client, Failure> {
    let mut last = Failure::Connection(format!("the {} has no address", to.side));
    for address in &to.addresses {
        match Client::try_connect(address, None) {
            Ok(client) if client.greeting().get("isWritablePrimary").is_truthy() => {
                return Ok(client);
            }
            Ok(_) => {
                last = Failure::Connection(format!("{} is not the primary", address.host));
            }
            Err(failure @ Failure::Connection(_)) => last = failure,
            Err(failure) => return Err(failure),
        }
    }
    Err(last)
}

/// A reply with documents of a cursor.
pub(super) struct Page<'r> {
    id: i64,
    ns: &'r str,
    docs: Array<'r>,
    pub(super) cursor: Doc<'r>,
}

impl<'r> Page<'r> {
    pub(super) fn of(reply: &'r DocBuf) -> Result<Page<'r>> {
        let Value::Doc(cursor) = reply.get("cursor") else {
            return failed("a server has sent a reply without a cursor");
        };
        let batch = match cursor.get("firstBatch") {
            Value::Missing => cursor.get("nextBatch"),
            first => first,
        };
        let (Value::Array(docs), Some(ns)) = (batch, cursor.get("ns").as_str()) else {
            return failed("a server has sent a cursor without documents");
        };
        let id = number::truncate_to_i64(cursor.get("id")).unwrap_or(0);
        Ok(Page { id, ns, docs, cursor })
    }

    pub(super) fn docs(&self) -> impl Iterator<Item = Doc<'r>> + use<'r> {
        self.docs.iter().filter_map(|value| value.as_doc())
    }

    /// The command for the next page, which waits at most `wait_ms` for events; `None` at the end.
    pub(super) fn more(&self, wait_ms: Option<i64>) -> Option<DocBuf> {
        let (db, collection) = self.ns.split_once('.').unwrap_or((self.ns, ""));
        (self.id != 0).then(|| {
            DocBuf::build(|out| {
                out.put("getMore", self.id);
                out.put("collection", collection);
                if let Some(wait) = wait_ms {
                    out.put("maxTimeMS", wait);
                }
                out.put("$db", db);
            })
        })
    }
}

/// A number of a reply.
pub(super) fn whole(doc: Doc<'_>, name: &str) -> i64 {
    number::truncate_to_i64(doc.get(name)).unwrap_or(0)
}

/// The time of the last operation that the server knew when it replied; 0 if it is no member of a replica set.
pub(super) fn operation_time(reply: &DocBuf) -> u64 {
    match reply.get("operationTime") {
        Value::Timestamp(time) => time,
        _ => 0,
    }
}
