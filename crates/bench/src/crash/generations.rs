//! A client that makes generations of keys while the others write to an encrypted data directory.
//!
//! A generation is acknowledged once it is on disk, and files use it from then on. So after a kill or a power cut, also
//! in the middle of the command, every acknowledged one is there, and at most the one in flight in addition. That the
//! files which use them are read is verified by everything else.
use crate::args::{Outcome, Problem};
use crate::client::{Connection, complaint, integer};
use crate::random::Random;
use nagi_bson::{Value, doc};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The server refuses more than 4096.
const GENERATIONS_MAX: i64 = 4000;
/// Longest pause between two, so that the other files are written with some of them.
const PAUSE_MS_MAX: u64 = 120;

/// The newest generation that was acknowledged.
pub(super) struct Generations {
    newest: i64,
}

impl Default for Generations {
    /// A data directory begins with one.
    fn default() -> Generations {
        Generations { newest: 1 }
    }
}

impl Generations {
    pub(super) fn acknowledged(&self) -> i64 {
        self.newest
    }

    /// Makes generations until the server is gone.
    pub(super) fn rotate(
        &mut self,
        mut connection: Connection,
        seed: u64,
        over: &AtomicBool,
    ) -> Outcome {
        let mut random = Random::new(seed);
        let command = doc! { "rotateEncryptionKey": 1, "$db": "admin" };
        while self.newest < GENERATIONS_MAX {
            thread::sleep(Duration::from_millis(random.below(PAUSE_MS_MAX)));
            let Ok(reply) = connection.command(command.as_doc()) else { break }; // It was killed.
            if let Some(text) = complaint(reply.as_doc()) {
                if over.load(Ordering::SeqCst) {
                    break; // The disk has failed.
                }
                return Err(Problem::Failed(format!("rotateEncryptionKey: {text}")));
            }
            match integer(reply.get("generation")) {
                Some(newest) if newest > self.newest => self.newest = newest,
                other => return Err(self.wrong("rotateEncryptionKey returned", other)),
            }
        }
        Ok(())
    }

    /// Compares with what the restarted server has.
    pub(super) fn settle(&mut self, address: &str) -> Outcome {
        let mut connection = Connection::open(address)?;
        let status = connection.expect(doc! { "serverStatus": 1, "$db": "admin" }.as_doc())?;
        let found = match status.get("encryptionAtRest") {
            Value::Doc(at_rest) => integer(at_rest.get("generation")),
            _ => None,
        };
        match found {
            Some(found) if found == self.newest || found == self.newest + 1 => {
                self.newest = found;
                Ok(())
            }
            other => Err(self.wrong("after the restart there is", other)),
        }
    }

    fn wrong(&self, what: &str, found: Option<i64>) -> Problem {
        let newest = self.newest;
        Problem::Failed(format!("{what} generation {found:?}, {newest} was acknowledged"))
    }
}
