//! The paths of what is watched besides the figures: slow operations, work of the engine, its reads and writes, growth
//! of the data, findings of the doctor.

use hyper::StatusCode;
use nagi_bson::json::{self, JsonWriter};
use nagi_bson::{Doc, DocBuf, doc};
use nagi_error::Code;

use crate::activity::Happened;
use crate::answer::{Answer, json_answer};
use crate::asked::Asked;
use crate::refusal::Refusal;
use crate::state::State;

/// MongoDB's code of a missing right.
const UNAUTHORIZED: f64 = 13.0;

fn ok(body: &DocBuf) -> Answer {
    json_answer(StatusCode::OK, json::to_relaxed(body.as_doc()))
}

/// `GET /api/growth`: all databases, or none for a user who may not watch the server; with `?db=` the collections of
/// one, for those who may see its statistics.
pub(crate) fn growth(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    let session = state.session(asked)?;
    let (name, list) = match asked.parameter("db")? {
        None => match session.may_watch(&state.server) {
            Ok(()) => ("databases", state.growth.of_databases()),
            // The page is for all users, and it shows the growth beside other things.
            Err(_) => ("databases", Vec::new()),
        },
        Some(db) => {
            let reply = session.run(&state.server, &db, doc! { "dbStats": 1 }.as_doc())?;
            if !reply.as_doc().get("ok").is_truthy() {
                return Err(refused(reply.as_doc()));
            }
            ("collections", state.growth.of_database(&db))
        }
    };
    Ok(ok(&DocBuf::build(|out| {
        out.array(name, |out| list.iter().for_each(|one| out.doc(|out| one.write(out))));
    })))
}

/// `{events: [...]}`
pub(crate) fn events(list: &[Happened]) -> DocBuf {
    DocBuf::build(|out| {
        out.array("events", |out| list.iter().for_each(|one| out.doc(|out| one.write(out))));
    })
}

/// `GET /api/events`: the newest flushes, compactions, loads, and events of memory, oldest first.
pub(crate) fn work(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    state.session(asked)?.may_watch(&state.server)?;
    Ok(ok(&events(&state.activity.events())))
}

/// `GET /api/disk`: where reads and writes of files have landed in the last two minutes.
pub(crate) fn disk(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    state.session(asked)?.may_watch(&state.server)?;
    Ok(json_answer(StatusCode::OK, JsonWriter::file(|out| state.activity.write_disk(out))))
}

/// `GET /api/slow`: the slow operations since the start by shape; with `?ns=`, `operation=`, `planCacheShapeHash=` and
/// `stagesHash=` the slowest of one shape with its command. For those who may read the log, which has the same
/// operations.
pub(crate) fn slow(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    state.session(asked)?.may_read_log(&state.server)?;
    let Some(ns) = asked.parameter("ns")? else {
        return Ok(ok(&DocBuf::build(|out| state.server.write_slow_shapes(out))));
    };
    let operation = asked.parameter("operation")?.unwrap_or_default();
    let hash = |name: &str| match asked.parameter(name)?.unwrap_or_default().as_str() {
        "" => Ok(0),
        digits => u32::from_str_radix(digits, 16).map_err(|_| {
            Refusal::bad_request(format!("The parameter '{name}' has eight hexadecimal digits"))
        }),
    };
    let hashes = (hash("planCacheShapeHash")?, hash("stagesHash")?);
    let mut is_known = false;
    let body = DocBuf::build(|out| {
        is_known = state.server.write_slow_shape((&ns, &operation), hashes, out);
    });
    if !is_known {
        let text = "There is no slow operation of this shape";
        return Err(Refusal::new(StatusCode::NOT_FOUND, Code::NO_SUCH_KEY, text));
    }
    // The command is explained again: it needs its types.
    Ok(json_answer(StatusCode::OK, json::to_canonical(body.as_doc())))
}

fn refused(reply: Doc<'_>) -> Refusal {
    let missing = nagi_bson::number::as_f64(reply.get("code")) == Some(UNAUTHORIZED);
    let status = if missing { StatusCode::FORBIDDEN } else { StatusCode::BAD_REQUEST };
    Refusal::of_reply(status, reply)
}

/// `GET /api/doctor`: the checks of the machine and of the options, without the test of the disk. They show paths,
/// options and who may reach the server, so they are for those who may change its parameters.
pub(crate) fn doctor(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    let session = state.session(asked)?;
    // It sets nothing, and fails for that reason; without the right it fails before that, and is audited.
    let reply = session.run(&state.server, "admin", doc! { "setParameter": 1 }.as_doc())?;
    if nagi_bson::number::as_f64(reply.as_doc().get("code")) == Some(UNAUTHORIZED) {
        return Err(refused(reply.as_doc()));
    }
    Ok(ok(&(state.about.doctor)()))
}
