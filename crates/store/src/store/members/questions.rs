//! Questions to the other nodes: what only their processes know, or can do, such as to tell and to kill operations.
//!
//! ```text
//!   server A                           board             server B, thread `nodeMail`
//!   question 8                    -->  questions 8
//!                                                  -->   reads the questions behind the last one that it has answered
//!   looks for answers             <--  answer 8, seat 1  <--  what its server says
//!   removes question and answers
//! ```
//!
//! It takes a look of the other nodes at the board, 0.1 seconds at most, and a few requests. Nothing but the store is
//! needed: servers need not reach each other, nor trust each other's logins.

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use nagi_bson::{Doc, DocBuf};
use nagi_error::{Code, Result, bail};
use nagi_kv::{
    interrupt,
    sync::{Condvar, Instant, Mutex, thread},
};

use super::{ANSWER_POLL, Members};
use crate::{
    Store,
    engine_error::engine,
    node::{Seat, mail},
};

/// Bytes of a question; of an answer. Longer ones are refused.
pub const QUESTION_BYTES_MAX: usize = 1 << 20;
pub const NODE_ANSWER_BYTES_MAX: usize = 1 << 20;
/// So much longer an engine is waited for that does not answer.
const ENGINE_WAIT: Duration = Duration::from_millis(500);
/// How often the thread looks if it has to end.
const LOOK: Duration = Duration::from_secs(1);

/// What the server of this process answers.
type Respond = Arc<dyn Fn(Doc<'_>) -> DocBuf + Send + Sync>;

/// What another node has answered.
#[derive(Debug)]
pub struct NodeAnswer {
    /// `NodeOptions::name`.
    pub name: String,
    /// What its server says of itself ([`Store::describe_node`]).
    pub about: DocBuf,
    /// `None` if it has not answered in time. Empty if it has no server yet.
    pub answer: Option<DocBuf>,
}

/// Questions to this node.
#[derive(Default)]
pub(super) struct Questions {
    /// How many were asked, by whichever node, as the board said last.
    asked: Mutex<u64>,
    changed: Condvar,
    respond: Mutex<Option<Respond>>,
}

impl Members {
    /// What the board says.
    pub(super) fn note_questions(&self, asked: u64) {
        let mut known = self.questions.asked.lock();
        if *known < asked {
            *known = asked;
            self.questions.changed.notify_all();
        }
    }

    pub(crate) fn questions_asked(&self) -> u64 {
        *self.questions.asked.lock()
    }

    /// Waits until more than `answered` questions were asked, and returns how many; `None` after a while.
    pub(crate) fn next_questions(&self, answered: u64) -> Option<u64> {
        let mut asked = self.questions.asked.lock();
        if *asked <= answered {
            self.questions.changed.wait_for(&mut asked, LOOK);
        }
        (*asked > answered).then_some(*asked)
    }

    /// The thread for it must not wait any more.
    pub(super) fn end_questions(&self) {
        self.questions.changed.notify_all();
    }

    fn response(&self, question: Doc<'_>) -> DocBuf {
        let respond = self.questions.respond.lock().clone();
        let answer = respond.map_or_else(DocBuf::new, |respond| respond(question));
        if answer.as_bytes().len() <= NODE_ANSWER_BYTES_MAX { answer } else { DocBuf::new() }
    }
}

impl Store {
    /// `respond` answers the questions of other nodes from now on, on a thread of the store, one after the other. It
    /// must not wait for long. An answer of more than [`NODE_ANSWER_BYTES_MAX`] is as good as none. Without effect
    /// where no other node shares the data.
    pub fn on_question(&self, respond: impl Fn(Doc<'_>) -> DocBuf + Send + Sync + 'static) {
        if let Some(members) = &self.members {
            *members.questions.respond.lock() = Some(Arc::new(respond));
        }
    }

    /// Asks all other nodes, and waits for their answers for so long at most; `check` is called meanwhile, and its
    /// error ends the wait. Nodes that end meanwhile, or whose leases have ended, are left out. Empty, at once, if
    /// there are no other nodes. Costs a commit of two keys and of two more at the end, and a scan each 10 ms. An
    /// engine that does not answer is not waited for longer.
    ///
    /// # Errors
    /// 10334 if the question is longer than [`QUESTION_BYTES_MAX`]. Those of the engine and of `check`.
    pub fn ask_nodes(
        &self,
        question: Doc<'_>,
        wait: Duration,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<NodeAnswer>> {
        let Some(members) = &self.members else { return Ok(Vec::new()) };
        interrupt::within(wait + ENGINE_WAIT, || self.ask_members(members, question, wait, check))
    }

    fn ask_members(
        &self,
        members: &Members,
        question: Doc<'_>,
        wait: Duration,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<NodeAnswer>> {
        if question.as_bytes().len() > QUESTION_BYTES_MAX {
            bail!(Code::BSON_OBJECT_TOO_LARGE, "a question to other nodes is too long");
        }
        let (mut seats, now) = members.seats()?;
        seats.retain(|seat| seat.node != members.node() && seat.until >= now);
        if seats.is_empty() {
            return Ok(Vec::new());
        }
        let id =
            self.alone(&mut |txn| mail::ask(txn, members.node(), now, question).map_err(engine))?;
        let answers = self.collect_answers(members, id, seats, wait, check);
        if let Err(error) = self.remove_question(id) {
            // The steward removes it later.
            log::debug!(target: "STORAGE", id = 8_200_405, error:% = error;
                "A question to other nodes cannot be removed yet");
        }
        answers
    }

    pub(crate) fn remove_question(&self, id: u64) -> Result<()> {
        self.alone(&mut |txn| mail::remove(txn, id).map_err(engine))
    }

    /// The answers of these nodes.
    fn collect_answers(
        &self,
        members: &Members,
        id: u64,
        mut asked: Vec<Seat>,
        wait: Duration,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<NodeAnswer>> {
        let until = Instant::now() + wait;
        loop {
            let snapshot = self.engine.snapshot().map_err(engine)?;
            let found = mail::answers(&*snapshot, id).map_err(engine)?;
            let mut found: BTreeMap<u16, DocBuf> = found.into_iter().collect();
            let is_over = Instant::now() >= until;
            let is_missing = |seat: &Seat| !found.contains_key(&seat.number);
            if is_over || asked.iter().any(is_missing) {
                let (now_seated, now) = members.seats()?;
                let stays = |seat: &Seat| {
                    now_seated.iter().any(|other| other.node == seat.node && other.until >= now)
                };
                asked.retain(|seat| !is_missing(seat) || stays(seat));
            }
            if is_over || !asked.iter().any(is_missing) {
                let answers = asked.into_iter().map(|seat| NodeAnswer {
                    answer: found.remove(&seat.number),
                    name: seat.name,
                    about: seat.about,
                });
                return Ok(answers.collect());
            }
            check()?;
            thread::sleep(ANSWER_POLL);
        }
    }

    /// Answers the questions of other nodes behind the first of `ids`, of which there are those up to the last one at
    /// least. Returns the last one that was answered, or removed.
    pub(crate) fn answer_questions(&self, members: &Members, ids: Range<u64>) -> Result<u64> {
        let snapshot = self.engine.snapshot().map_err(engine)?;
        let mut last = ids.end;
        for question in mail::questions(&*snapshot).map_err(engine)? {
            if question.id > ids.start && question.node != members.node() {
                let answer = members.response(question.question.as_doc());
                let (id, seat) = (question.id, members.seat());
                self.alone(&mut |txn| {
                    mail::answer(txn, id, seat, answer.as_doc()).map_err(engine)
                })?;
            }
            last = last.max(question.id);
        }
        Ok(last)
    }
}
