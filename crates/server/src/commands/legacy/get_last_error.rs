//! `getLastError`: the result of the last legacy write on this connection.
//!
//! `j` and `fsync` make all writes so far durable before the reply; `w` above 1 requires a replica set. The
//! command itself succeeds even if the write failed: `err` contains the error.

use crate::core::command::prelude::*;
use crate::request::concern::{WriteConcern, WriteNodes};

pub(in crate::commands) static GET_LAST_ERROR: Command = Command {
    facts: Facts {
        name: "getLastError",
        aliases: &["getlasterror"],
        help: "Outcome of the last legacy write of this connection.",
        before_login: true,
        keeps_last_write: true,
        ..Facts::ROW
    },
    run,
    ..Command::ROW
};

pub(in crate::commands) static GET_PREV_ERROR: Command = Command {
    facts: Facts {
        name: "getPrevError",
        aliases: &["getpreverror"],
        help: "Outcome of the last legacy write that failed on this connection.",
        before_login: true,
        keeps_last_write: true,
        ..Facts::ROW
    },
    run: previous,
    ..Command::ROW
};

args! { "getLastError" => Args {
    one:      Value<'a> = "getLastError",
    old_name: Value<'a> = "getlasterror",
    w:        Value<'a> = "w",
    j:        Truthy    = "j",
    fsync:    Truthy    = "fsync",
    wtimeout: Value<'a> = "wtimeout",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let spec = DocBuf::build(|w| {
        w.put("w", args.w);
        w.put("j", args.j.0);
        w.put("fsync", args.fsync.0 && !args.j.0);
        if args.wtimeout.is_number() {
            w.put("wtimeout", args.wtimeout);
        }
    });
    let concern = WriteConcern::parse_doc(spec.as_doc())?;
    let last = &cx.connection.last_write;
    out.put("connectionId", cx.connection.id as i32);
    if let Some(existing) = last.updated_existing {
        out.put("updatedExisting", existing);
    }
    out.put("n", last.count as i32);
    if let Some(upserted) = &last.upserted {
        out.put("upserted", upserted.get("_id"));
    }
    match &last.error {
        Some((code, text)) => {
            out.put("err", text);
            out.put("code", *code);
            return Ok(());
        }
        None => out.put("err", Value::Null),
    }
    // An old driver that sends `w: 0` here only wants the reply.
    if concern.nodes != WriteNodes::Count(0) {
        concern.check_standalone()?;
    }
    if concern.is_synced() {
        cx.store().flush()?;
    }
    Ok(())
}

fn previous(cx: &mut Context<'_>, _: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    match &cx.connection.last_write.error {
        Some((code, text)) => {
            out.put("err", text);
            out.put("code", *code);
            out.put("nPrev", 1);
        }
        None => {
            out.put("err", Value::Null);
            out.put("n", 0);
            out.put("nPrev", -1);
        }
    }
    Ok(())
}
