//! `authenticate`: logins of one message. No mechanism of this command is enabled: MongoDB 4.0 removed
//! MONGODB-CR, and a certificate requires TLS.

use crate::core::command::prelude::*;

pub(in crate::commands) static AUTHENTICATE: Command = Command {
    facts: Facts {
        name: "authenticate",
        help: "Logs in with a client certificate.",
        before_login: true,
        api_v1: true,
        secret: Secret::Yes,
        ..Facts::ROW
    },
    run,
    ..Command::ROW
};

args! { "authenticate" => Args {
    one:       Value<'a>       = "authenticate",
    mechanism: Option<&'a str> = "mechanism",
    user:      Option<&'a str> = "user",
    db:        Option<&'a str> = "db",
    nonce:     Value<'a>       = "nonce",
    key:       Value<'a>       = "key",
    digest:    Value<'a>       = "digestPassword",
    pwd:       Value<'a>       = "pwd",
}}

fn run(_: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    match args.mechanism.unwrap_or("") {
        "" => bail!(Code::BAD_VALUE, "Auth mechanism not specified"),
        mechanism => bail!(
            Code::MECHANISM_UNAVAILABLE,
            "Received authentication for mechanism {mechanism} which is not enabled"
        ),
    }
}
