//! The change log of the source: one change stream over all its databases, continued by its token.
//!
//! An event with a large document would not fit into a reply, so the stream leaves out documents of more than
//! [`DOCUMENT_BYTES_MAX`]: such a change is applied as an update is, by reading the document.

use nagi_bson::{Doc, DocBuf, doc};

use super::link::{Link, Page, Result, Trouble, failed, operation_time};
use super::token;

const DOCUMENT_BYTES_MAX: i32 = 4 << 20;
/// The most events that are requested at once.
const BATCH_EVENTS: i32 = 5000;
const HISTORY_LOST: i64 = 286;
const NO_REPLICA_SET: i64 = 40_573;
const NO_SUCH_TOKEN: &[i64] = &[HISTORY_LOST, 280];

pub(super) struct Stream {
    link: Link,
    /// The command for the next events; `None` before the stream is opened, and after its cursor was lost.
    more: Option<DocBuf>,
    /// Everything before it has been returned.
    pub(super) token: DocBuf,
}

/// Events in their order.
pub(super) struct Events {
    reply: DocBuf,
    /// The newest operation that the source knew.
    pub(super) newest: u64,
}

impl Events {
    pub(super) fn iter(&self) -> Result<impl Iterator<Item = Doc<'_>>> {
        Ok(Page::of(&self.reply)?.docs())
    }
}

impl Stream {
    /// A stream from now on, or behind a token that is not empty.
    pub(super) fn open(link: Link, token: DocBuf) -> Result<Stream> {
        let mut stream = Stream { link, more: None, token };
        stream.begin()?;
        Ok(stream)
    }

    /// The time before which all changes have been returned.
    pub(super) fn time(&self) -> Result<u64> {
        match token::time(self.token.as_doc()) {
            Some(time) => Ok(time),
            None => failed("the source has resume tokens of an unknown format"),
        }
    }

    fn begin(&mut self) -> Result<()> {
        let command = DocBuf::build(|out| {
            out.put("aggregate", 1);
            out.array("pipeline", |out| {
                out.doc(|out| {
                    out.doc("$changeStream", |out| {
                        out.put("allChangesForCluster", true);
                        out.put("showExpandedEvents", true);
                        if self.token.as_doc().count() > 0 {
                            out.put("resumeAfter", self.token.as_doc());
                        }
                    });
                });
                let large = doc! { "$gt": [{ "$bsonSize": "$fullDocument" }, DOCUMENT_BYTES_MAX] };
                out.doc(|out| {
                    out.doc("$set", |out| {
                        out.doc("fullDocument", |out| {
                            out.array("$cond", |out| {
                                out.push(large.as_doc());
                                out.push("$$REMOVE");
                                out.push("$fullDocument");
                            });
                        });
                    });
                });
            });
            out.doc("cursor", |out| out.put("batchSize", 0));
            out.put("$db", "admin");
        });
        let reply = self.link.run(&command).map_err(explained)?;
        self.take(&reply)
    }

    /// Notes the token and the command for the next events.
    fn take(&mut self, reply: &DocBuf) -> Result<()> {
        let page = Page::of(reply)?;
        if let Some(token) = page.cursor.get("postBatchResumeToken").as_doc() {
            self.token = token.to_buf();
        }
        self.more = page.more(None);
        Ok(())
    }

    /// The next events; waits for one at most `wait_ms`.
    pub(super) fn next(&mut self, wait_ms: i64) -> Result<Events> {
        loop {
            let Some(more) = self.more.take() else {
                self.begin()?;
                continue;
            };
            let command = DocBuf::build(|out| {
                let (db, rest): (Vec<_>, Vec<_>) =
                    more.as_doc().iter().partition(|e| e.name() == "$db");
                rest.into_iter().for_each(|e| out.put_element(e));
                out.put("batchSize", BATCH_EVENTS);
                out.put("maxTimeMS", wait_ms);
                db.into_iter().for_each(|e| out.put_element(e));
            });
            match self.link.once(&command) {
                Ok(reply) => {
                    self.take(&reply)?;
                    return Ok(Events { newest: operation_time(&reply), reply });
                }
                // It continues behind the token.
                Err(Trouble::CursorLost) => {}
                Err(trouble) => return Err(explained(trouble)),
            }
        }
    }
}

/// Errors that the user has to act on.
fn explained(trouble: Trouble) -> Trouble {
    match trouble.code() {
        NO_REPLICA_SET => Trouble::Failed(
            "the source has no change log: start it as a replica set (nagi serve --replSet rs0 --initiate), \
             which needs no copy of its data; a server over a cluster (--storageEngine tikv) has one always"
                .to_owned(),
        ),
        code if NO_SUCH_TOKEN.contains(&code) => Trouble::Failed(
            "the change log of the source does not go back to where this copy stopped: enlarge it \
             (--oplogSize, --oplogMinRetentionHours), drop what was copied and the database nagi_copy in the \
             target, and begin again"
                .to_owned(),
        ),
        _ => trouble,
    }
}

#[test]
fn errors_of_streams_say_what_to_do() {
    let of = |code| {
        let refused = Trouble::Refused { code, text: "why".to_owned(), reply: DocBuf::new() };
        match explained(refused) {
            Trouble::Failed(text) | Trouble::Refused { text, .. } => text,
            _ => String::new(),
        }
    };
    assert!(of(NO_REPLICA_SET).contains("--replSet") && of(HISTORY_LOST).contains("--oplogSize"));
    assert_eq!(of(13), "why");
}
