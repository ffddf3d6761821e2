//! `saslContinue`: the next message of a login.

use super::sasl_start::{CONVERSATION_ID, payload, write};
use crate::core::command::prelude::*;
use crate::core::login;

pub(in crate::commands) static SASL_CONTINUE: Command = Command {
    facts: Facts {
        name: "saslContinue",
        help: "Continues a login.",
        before_login: true,
        api_v1: true,
        secret: Secret::Yes,
        ..Facts::ROW
    },
    run,
    ..Command::ROW
};

args! { "saslContinue" => Args {
    one:             Value<'a> = "saslContinue",
    conversation_id: Int       = "conversationId",
    payload:         Value<'a> = "payload",
    mechanism:       Value<'a> = "mechanism",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    // A missing conversation is reported before errors of the arguments, as in MongoDB.
    let Some(conversation) = cx.connection.conversation.take() else {
        bail!(Code::PROTOCOL_ERROR, "No SASL session state found");
    };
    let args = Args::parse(req)?;
    if args.conversation_id != Int(CONVERSATION_ID) {
        bail!(Code::PROTOCOL_ERROR, "sasl: Mismatched conversation id");
    }
    let payload = payload("saslContinue", args.payload)?;
    let answer = login::step(cx.connection, conversation, &payload)?;
    write(&answer, out);
    Ok(())
}
