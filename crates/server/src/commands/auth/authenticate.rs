//! `authenticate`: a login with the certificate of the TLS handshake, MONGODB-X509. MongoDB 4.0 removed the other
//! mechanism of this command, MONGODB-CR.

use crate::auth::X509;
use crate::core::command::prelude::*;
use crate::core::connection::Connection;
use crate::core::login_by_certificate;
use crate::names::UserName;

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

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let user = log_in(cx.connection, &args, req.db, false)?;
    write(&user, out);
    Ok(())
}

fn log_in(
    connection: &mut Connection,
    args: &Args<'_>,
    db: &str,
    speculative: bool,
) -> Result<UserName> {
    connection.conversation = None;
    let mechanism = args.mechanism.unwrap_or("");
    if mechanism.is_empty() {
        bail!(Code::BAD_VALUE, "Auth mechanism not specified");
    }
    let params = &connection.server.settings.params;
    if mechanism != X509 || !params.lists("authenticationMechanisms", X509) {
        bail!(
            Code::MECHANISM_UNAVAILABLE,
            "Received authentication for mechanism {mechanism} which is not enabled"
        );
    }
    login_by_certificate::run(connection, db, args.user, speculative)
}

/// Runs `speculativeAuthenticate` of `hello`, without its field `db`. Returns its reply, or `None` if it fails.
pub(super) fn log_in_speculatively(
    connection: &mut Connection,
    spec: Doc<'_>,
    db: &str,
) -> Option<DocBuf> {
    let args = Args::parse_doc(spec).ok()?;
    let user = log_in(connection, &args, db, true).ok()?;
    Some(DocBuf::build(|doc| write(&user, doc)))
}

fn write(user: &UserName, out: &mut DocWriter<'_>) {
    out.put("dbname", &*user.db);
    out.put("user", &*user.name);
}
