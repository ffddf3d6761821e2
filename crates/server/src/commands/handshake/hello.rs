//! `hello` and its old name `isMaster`: describes this server and its capabilities to drivers.
//!
//! The reply of a standalone has no `setName`, so drivers neither retry writes nor begin transactions. A member
//! of a replica set names itself and its set. A router says `isdbgrid`: drivers use any of those that they were given.
//!
//! With `topologyVersion` and `maxAwaitTimeMS` the reply is delayed until the server's role changes, quiesce
//! mode begins, or the time is over. With an exhaust request such replies form a stream.

use std::time::Duration;

use nagi_wire::Compressor;

use super::client;
use crate::clock;
use crate::commands::auth::start_speculatively;
use crate::core::command::prelude::*;
use crate::core::server::Server;
use crate::limits::{
    BSON_OBJECT_BYTES_MAX, IDLE_PEER_LOOK, MESSAGE_BYTES_MAX, SESSION_TIMEOUT_MINUTES,
    WIRE_VERSION_MAX, WIRE_VERSION_MIN, WRITE_BATCH_COUNT_MAX,
};
use crate::names::UserName;
use crate::replica::{ReplicaSet, Role};

pub(in crate::commands) static HELLO: Command = Command {
    facts: Facts {
        name: "hello",
        help: "Describes the server: its role, limits and protocol versions.",
        before_login: true,
        api_v1: true,
        secret: Secret::Yes,
        ..Facts::ROW
    },
    run,
    ..Command::ROW
};

pub(in crate::commands) static IS_MASTER: Command = Command {
    facts: Facts {
        name: "isMaster",
        aliases: &["ismaster"],
        help: "Old spelling of hello.",
        before_login: true,
        secret: Secret::Yes,
        ..Facts::ROW
    },
    run,
    ..Command::ROW
};

args! { "hello" => Args {
    hello:            Value<'a>           = "hello",
    is_master:        Value<'a>           = "isMaster",
    is_master_lower:  Value<'a>           = "ismaster",
    client:           Value<'a>           = "client",
    hello_ok:         Option<bool>        = "helloOk",
    compression:      Option<Array<'a>>   = "compression",
    sasl_mechs:       Value<'a>           = "saslSupportedMechs",
    speculative:      Value<'a>           = "speculativeAuthenticate",
    topology_version: Option<Doc<'a>>     = "topologyVersion",
    max_await_ms:     Option<NonNegative> = "maxAwaitTimeMS",
    load_balanced:    Option<bool>        = "loadBalanced",
    backpressure:     Value<'a>           = "backpressure",
    host_info:        Value<'a>           = "hostInfo",
    internal_client:  Value<'a>           = "internalClient",
    hang_up:          Value<'a>           = "hangUpOnStepDown",
    for_shell:        Value<'a>           = "forShell",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if !args.client.is_nullish() {
        client::receive(cx, args.client)?;
    }
    cx.connection.hello_seen = true;
    refuse_in_quiesce_mode(cx.server)?;
    await_change(cx, req, &args)?;
    refuse_in_quiesce_mode(cx.server)?;
    if args.hello_ok == Some(true) {
        out.put("helloOk", true);
    }
    let role_field = if req.name == "hello" { "isWritablePrimary" } else { "ismaster" };
    match &cx.server.replica {
        None => {
            out.put(role_field, true);
            if cx.server.router.is_some() {
                out.put("msg", "isdbgrid");
            }
        }
        Some(replica) => {
            let tls = cx.connection.tls.as_ref();
            let server_name = tls.and_then(|tls| tls.server_name.as_deref());
            write_member(replica, server_name, role_field, out);
        }
    }
    cx.server.identity.topology.write(out);
    out.put("maxBsonObjectSize", BSON_OBJECT_BYTES_MAX as i32);
    out.put("maxMessageSizeBytes", MESSAGE_BYTES_MAX as i32);
    out.put("maxWriteBatchSize", WRITE_BATCH_COUNT_MAX as i32);
    out.put("localTime", Value::DateTime(clock::wall_ms()));
    out.put("logicalSessionTimeoutMinutes", SESSION_TIMEOUT_MINUTES);
    out.put("connectionId", cx.connection.id as i32);
    out.put("minWireVersion", WIRE_VERSION_MIN);
    out.put("maxWireVersion", WIRE_VERSION_MAX);
    if cx.server.router.is_none() {
        out.put("readOnly", false);
    }
    if let Some(offered) = args.compression {
        write_compression(cx.server, offered, out);
    }
    write_mechanisms(cx, args.sasl_mechs, out)?;
    if let Value::Doc(spec) = args.speculative
        && let Some(reply) = start_speculatively(cx.connection, spec)
    {
        out.put("speculativeAuthenticate", &reply);
    }
    Ok(())
}

/// Refuses the request while the server shuts down (91), and reports how long it still serves operations in
/// progress.
fn refuse_in_quiesce_mode(server: &Server) -> Result<()> {
    let remaining = match server.quiesce_remaining() {
        Some(remaining) => Some(remaining),
        None if server.is_stopping() => server.is_replicated().then_some(Duration::ZERO),
        None => return Ok(()),
    };
    let error =
        err!(Code::SHUTDOWN_IN_PROGRESS, "The server is in quiesce mode and will shut down");
    Err(match remaining {
        Some(remaining) => error.with_info(DocBuf::build(|w| {
            let ms = i64::try_from(remaining.as_millis()).unwrap_or(i64::MAX);
            w.put("remainingQuiesceTimeMillis", ms);
        })),
        None => error,
    })
}

/// Writes the mechanisms for which the user `db.name` has credentials. An unknown user has those of its decoy.
fn write_mechanisms(cx: &Context<'_>, user: Value<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let name = match user {
        Value::Missing | Value::Null | Value::Undefined => return Ok(()),
        Value::String(text) => match text.split_once('.') {
            Some((db, name)) => UserName::new(name, db),
            None => {
                bail!(Code::BAD_VALUE, "UserName must contain a '.' separated database.user pair")
            }
        },
        Value::Doc(_) => UserName::parse(user, "user", "")?,
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'hello.saslSupportedMechs' is the wrong type '{}', expected types \
             '[string, object]'",
            other.kind().name()
        ),
    };
    cx.server.auth.logins.mechanisms_asked.increment();
    let mut mechanisms = crate::auth::users::mechanisms(&cx.server.auth, &name)?;
    mechanisms.retain(|mechanism| mechanism.is_enabled(&cx.server.settings.params));
    if !mechanisms.is_empty() {
        out.array("saslSupportedMechs", |list| {
            mechanisms.iter().for_each(|mechanism| list.push(mechanism.name()));
        });
    }
    Ok(())
}

/// Writes the fields of a member: its role, its name, and the set.
fn write_member(
    replica: &ReplicaSet,
    server_name: Option<&str>,
    role_field: &str,
    out: &mut DocWriter<'_>,
) {
    let role = replica.role();
    let Some(member) = replica.member() else {
        out.put(role_field, false);
        out.put("secondary", false);
        out.put("info", "Does not have a valid replica set config");
        out.put("isreplicaset", true);
        return;
    };
    let address = member.address_for(server_name);
    out.array("hosts", |list| list.push(address));
    out.put("setName", &replica.name);
    out.put("setVersion", member.version as i32);
    out.put(role_field, role == Role::Primary);
    out.put("secondary", role == Role::Secondary);
    if role == Role::Primary {
        out.put("primary", address);
    }
    if !member.tags.as_doc().is_empty() {
        out.put("tags", &member.tags);
    }
    out.put("me", address);
    if role == Role::Primary {
        out.put("electionId", &member.election_id());
    }
    out.doc("lastWrite", |w| replica.write_last_write(&member, w));
}

/// Writes the compressors that client and server have in common, in the client's order; no field if there are
/// none.
fn write_compression(server: &Server, offered: Array<'_>, out: &mut DocWriter<'_>) {
    let enabled = |name: &&str| {
        let found = Compressor::by_name(name).filter(|c| *c != Compressor::Noop);
        found.is_some_and(|compressor| server.compresses_by(compressor))
    };
    let common = || offered.iter().filter_map(|v| v.as_str()).filter(enabled);
    if common().next().is_some() {
        out.array("compression", |list| common().for_each(|name| list.push(name)));
    }
}

/// Waits for a change of the topology. The wait polls whether the client is still connected: each client of a
/// driver has one waiting connection, and without the poll it would stay open for the full time after a
/// disconnect.
fn wait(cx: &Context<'_>, beyond: i64, most: Duration) -> Result<()> {
    let until = clock::now() + most;
    cx.end_with_client();
    while !cx.server.identity.topology.wait_beyond(beyond, until.min(clock::now() + IDLE_PEER_LOOK))
    {
        cx.check()?;
        if clock::now() >= until {
            break;
        }
    }
    Ok(())
}

/// Waits as `topologyVersion` and `maxAwaitTimeMS` specify.
fn await_change(cx: &mut Context<'_>, req: &Request<'_>, args: &Args<'_>) -> Result<()> {
    let (version, max_await_ms) = match (args.topology_version, args.max_await_ms) {
        (None, None) => return Ok(()),
        (Some(version), Some(Within(ms))) => (version, ms),
        (Some(_), None) => bail!(
            Code::Location(31368),
            "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'"
        ),
        (None, Some(_)) => bail!(
            Code::Location(31368),
            "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'"
        ),
    };
    let Value::ObjectId(process_id) = version.get("processId") else {
        bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field 'TopologyVersion.processId' is missing but a required field"
        );
    };
    let seen = match version.get("counter") {
        Value::Int64(n) if n >= 0 => n,
        Value::Int64(n) => bail!(
            Code::Location(31372),
            "topologyVersion must have a non-negative counter, got {n}"
        ),
        _ => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field 'TopologyVersion.counter' is missing but a required field"
        ),
    };
    let topology = &cx.server.identity.topology;
    let streaming = cx.connection.stream.is_some();
    if *process_id == topology.process_id && seen > topology.counter() {
        bail!(
            Code::Location(31382),
            "Received a topology version with counter: {seen} which is greater than the server \
             topology version counter: {}",
            topology.counter()
        );
    }
    // Later replies of a stream wait for a change after the previous reply.
    let beyond = if streaming { topology.counter() } else { seen };
    if streaming || *process_id == topology.process_id {
        cx.done.waited = true;
        cx.server.metrics.awaiting_hello.up();
        let asked = Duration::from_millis(max_await_ms.min(600_000) as u64);
        let ended =
            wait(cx, beyond, cx.connection.read_time_max.map_or(asked, |most| asked.min(most)));
        cx.server.metrics.awaiting_hello.down();
        ended?;
    }
    cx.done.stream = req.exhaust_allowed;
    Ok(())
}
