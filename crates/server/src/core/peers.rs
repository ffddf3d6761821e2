//! Questions to the servers of the other nodes, over a store that several share: to tell, and to kill, operations and
//! sessions. Which there are, and who answers them, is a table of `crate::commands`.

use std::time::Duration;

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, bail};

use crate::core::command::Context;
use crate::names::UserName;
use crate::session::{UserDigest, user_digest};

/// So long a question about operations waits for a node that lives.
const TELL_WAIT: Duration = Duration::from_secs(2);
/// So long one that kills waits: as long as the lease of a node lasts that is gone, and has nothing to kill any more.
const KILL_WAIT: Duration = Duration::from_secs(15);

/// What another server has answered; `None` if it has not in time.
pub(crate) struct Told {
    /// Its host and port, or the name of its node if it has not told them yet.
    pub(crate) host: String,
    pub(crate) answer: Option<DocBuf>,
}

/// Asks all others what they know. Empty if there are none. A store that does not answer is told as a server that does
/// not: what is known here is wanted most then.
///
/// # Errors
/// The end of the client's operation.
pub(crate) fn ask(cx: &Context<'_>, question: Doc<'_>) -> Result<Vec<Told>> {
    match asked(cx, question, TELL_WAIT) {
        Err(error) => {
            cx.check()?;
            log::debug!(target: "COMMAND", id = 8_200_408, error = error.message();
                "The other servers cannot be asked");
            Ok(vec![Told { host: "all other servers".to_owned(), answer: None }])
        }
        told => told,
    }
}

/// Has all others do something. On return those that live have done it.
///
/// # Errors
/// 6 if one has not answered: it may not have done it. Those of the store, and the end of the client's operation.
pub(crate) fn order(cx: &Context<'_>, question: Doc<'_>) -> Result<Vec<DocBuf>> {
    let mut answers = Vec::new();
    for told in asked(cx, question, KILL_WAIT)? {
        let Some(answer) = told.answer else {
            bail!(
                Code::HOST_UNREACHABLE,
                "{} has not answered within {} seconds",
                told.host,
                KILL_WAIT.as_secs()
            );
        };
        answers.push(answer);
    }
    Ok(answers)
}

fn asked(cx: &Context<'_>, question: Doc<'_>, wait: Duration) -> Result<Vec<Told>> {
    let answers = cx.server.store.ask_nodes(question, wait, &|| cx.check())?;
    let told = answers.into_iter().map(|answer| Told {
        host: answer.about.get("host").as_str().map_or(answer.name, str::to_owned),
        answer: answer.answer,
    });
    Ok(told.collect())
}

/// A user whose own operations and sessions are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) user: UserName,
    pub(crate) digest: UserDigest,
}

impl Own {
    pub(crate) fn of(user: UserName) -> Own {
        let digest = user_digest(&user);
        Own { user, digest }
    }

    /// Writes it into a question.
    pub(crate) fn write(own: Option<&Own>, out: &mut DocWriter<'_>) {
        if let Some(own) = own {
            out.doc("own", |out| own.user.write("user", out));
        }
    }

    /// Reads it from a question.
    pub(crate) fn read(question: Doc<'_>) -> Option<Own> {
        let own = question.get("own").as_doc()?;
        let text = |name: &str| own.get(name).as_str().unwrap_or_default();
        Some(Own::of(UserName::new(text("user"), text("db"))))
    }

    pub(crate) fn is(&self, user: Option<&UserName>) -> bool {
        user == Some(&self.user)
    }
}

/// The number of an operation at a server, as clients of all see it: `HOST:PORT:NUMBER`.
pub(crate) fn operation_name(host: &str, id: u64) -> String {
    format!("{host}:{id}")
}

/// The server and the number; `None` if it has not that form.
pub(crate) fn parse_operation(name: &str) -> Option<(&str, u64)> {
    let (host, id) = name.rsplit_once(':')?;
    Some((host, id.parse().ok().filter(|_| !host.is_empty())?))
}

/// The list in an answer.
pub(crate) fn listed(answer: &DocBuf, name: &str) -> Vec<DocBuf> {
    let Value::Array(list) = answer.get(name) else { return Vec::new() };
    list.iter().filter_map(|value| value.as_doc()).map(|doc| doc.to_buf()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_all_servers_have_names() {
        let name = operation_name("one.example:27017", 12);
        assert_eq!(parse_operation(&name), Some(("one.example:27017", 12)));
        assert_eq!(parse_operation("[::1]:27017:3"), Some(("[::1]:27017", 3)));
        for bad in ["", "12", ":12", "a:", "a:b", "a:-1", "a:99999999999999999999"] {
            assert_eq!(parse_operation(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_user_is_read_as_it_was_written() {
        let own = Own::of(UserName::new("anne", "admin"));
        let question = DocBuf::build(|w| Own::write(Some(&own), w));
        assert_eq!(Own::read(question.as_doc()), Some(own.clone()));
        assert!(own.is(Some(&UserName::new("anne", "admin"))));
        assert!(!own.is(Some(&UserName::new("anne", "test"))) && !own.is(None));
        assert_eq!(Own::read(DocBuf::build(|w| Own::write(None, w)).as_doc()), None);
    }
}
