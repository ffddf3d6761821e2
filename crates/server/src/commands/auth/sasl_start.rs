//! `saslStart`: begins a login. The same step within `hello` saves a round trip.

use nagi_bson::{Binary, json};
use zeroize::Zeroizing;

use super::authenticate::{AUTHENTICATE, log_in_speculatively};
use crate::auth::sasl::{Answer, Conversation, Mechanism, Start};
use crate::core::command::prelude::*;
use crate::core::connection::Connection;
use crate::core::login;

pub(in crate::commands) static SASL_START: Command = Command {
    facts: Facts {
        name: "saslStart",
        help: "Begins a login.",
        before_login: true,
        api_v1: true,
        secret: Secret::Yes,
        ..Facts::ROW
    },
    run,
    ..Command::ROW
};

args! { "saslStart" => Args {
    one:            Value<'a>       = "saslStart",
    mechanism:      &'a str         = "mechanism",
    payload:        Value<'a>       = "payload",
    auto_authorize: Value<'a>       = "autoAuthorize",
    options:        Option<Doc<'a>> = "options",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let answer = start(cx.connection, &args, req.db, false)?;
    write(&answer, out);
    Ok(())
}

fn start(
    connection: &mut Connection,
    args: &Args<'_>,
    db: &str,
    speculative: bool,
) -> Result<Answer> {
    connection.audit_abandoned();
    connection.conversation = None;
    let payload = payload("saslStart", args.payload)?;
    let params = &connection.server.settings.params;
    let Some(mechanism) = Mechanism::enabled(args.mechanism, params) else {
        connection.audit_login("", db, args.mechanism, Code::MECHANISM_UNAVAILABLE);
        bail!(
            Code::MECHANISM_UNAVAILABLE,
            "Received authentication for mechanism {} which is not enabled",
            args.mechanism
        );
    };
    connection.server.auth.logins.receive(mechanism.by, speculative);
    let skip = match args.options {
        Some(options) => args::read::<Truthy>(options, "saslStart.options", "skipEmptyExchange")?.0,
        None => false,
    };
    let begun = Start { db, skip_empty_exchange: skip };
    let conversation = Conversation::new(mechanism, &begun, speculative);
    login::step(connection, Box::new(conversation), &payload)
}

/// Runs `speculativeAuthenticate` of `hello`. Returns its reply, or `None` if the login cannot begin.
pub(in crate::commands) fn start_speculatively(
    connection: &mut Connection,
    spec: Doc<'_>,
) -> Option<DocBuf> {
    let command = spec.first().map(|first| first.name())?;
    let db = spec.get("db").as_str()?;
    let plain = DocBuf::build(|doc| {
        spec.iter().filter(|e| e.name() != "db").for_each(|element| doc.put_element(element));
    });
    if command == AUTHENTICATE.facts.name {
        return log_in_speculatively(connection, plain.as_doc(), db);
    }
    if command != SASL_START.facts.name {
        return None;
    }
    let args = Args::parse_doc(plain.as_doc()).ok()?;
    let answer = start(connection, &args, db, true).ok()?;
    Some(DocBuf::build(|doc| write(&answer, doc)))
}

/// The bytes of a payload, which is binary or a string in base64. They may be a password, so they are zeroed.
pub(super) fn payload(command: &str, value: Value<'_>) -> Result<Zeroizing<Vec<u8>>> {
    match value {
        Value::Binary(Binary { bytes, .. }) => Ok(Zeroizing::new(bytes.to_vec())),
        Value::String(text) => json::base64_decode(text)
            .map(Zeroizing::new)
            .ok_or_else(|| err!(Code::FAILED_TO_PARSE, "payload is not base64")),
        Value::Missing | Value::Null | Value::Undefined => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '{command}.payload' is missing but a required field"
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{command}.payload' is the wrong type '{}', expected types \
             '[string, binData]'",
            other.kind().name()
        ),
    }
}

/// A connection has one conversation at a time, so all conversations have the same id.
pub(super) const CONVERSATION_ID: i32 = 1;

pub(super) fn write(answer: &Answer, out: &mut DocWriter<'_>) {
    out.put("conversationId", CONVERSATION_ID);
    out.put("done", answer.done);
    out.put("payload", Value::Binary(Binary { subtype: 0, bytes: &answer.payload }));
}
