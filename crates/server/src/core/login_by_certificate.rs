//! MONGODB-X509: a login with the certificate that the client showed in its TLS handshake.
//!
//! The user is the certificate's subject on the database `$external`. The handshake has proved that the client has the
//! key, so there is nothing to exchange. Roles that the authority wrote into the certificate replace those of the
//! user's document.

use nagi_error::{Code, Error, Result, bail, err};

use crate::auth::By;
use crate::clock;
use crate::core::connection::Connection;
use crate::core::login::{ALREADY, Attempt, delay, log_failure, log_in, refusal};
use crate::core::server::Server;
use crate::names::{EXTERNAL, RoleName, UserName};

/// Logs the connection in. `wanted`: the user that the client names, if it does. Returns the user.
///
/// # Errors
/// 17 without TLS or on another database; 18 if the certificate is missing, or of another user, or is unknown. Of the
/// latter the reason is logged only.
pub(crate) fn run(
    connection: &mut Connection,
    db: &str,
    wanted: Option<&str>,
    speculative: bool,
) -> Result<UserName> {
    let server = connection.server.clone();
    if db != EXTERNAL {
        bail!(Code::PROTOCOL_ERROR, "X.509 authentication must always use the $external database.");
    }
    if !connection.has_tls() {
        bail!(Code::PROTOCOL_ERROR, "SSL support is required for the MONGODB-X509 mechanism.");
    }
    server.auth.logins.receive(By::Certificate, speculative);
    let mut name = wanted.map(|wanted| UserName::new(wanted, EXTERNAL));
    let done = identity(&server, connection, wanted).and_then(|(proved, roles)| {
        let attempt =
            Attempt { by: By::Certificate, speculative, user: Some(&proved), claims: None };
        let done = log_in(connection, &attempt, roles);
        name = Some(proved);
        done
    });
    match (done, name) {
        (Ok(()), Some(name)) => Ok(name),
        (done, name) => {
            let error = done.err().unwrap_or_else(refusal);
            let attempt =
                Attempt { by: By::Certificate, speculative, user: name.as_ref(), claims: None };
            log_failure(connection, &attempt, &error);
            // There is no password to guess, so failures of the address are not counted.
            delay(connection, None);
            match error.code() == ALREADY {
                true => Err(error),
                false => Err(refusal()),
            }
        }
    }
}

/// The user and the roles that the certificate of the connection proves.
fn identity(
    server: &Server,
    connection: &Connection,
    wanted: Option<&str>,
) -> Result<(UserName, Option<Vec<RoleName>>)> {
    let certificate = connection.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
    let certificate =
        certificate.ok_or_else(|| failed("No verified subject name available from client"))?;
    if wanted.is_some_and(|wanted| wanted != certificate.subject) {
        return Err(failed("There is no x.509 client certificate matching the user."));
    }
    if certificate.subject.is_empty() {
        return Err(failed("The certificate has no subject"));
    }
    if certificate.expires_ms < clock::wall_ms() {
        return Err(failed("The certificate has expired since the connection was opened"));
    }
    if is_members(server, &certificate.subject) {
        return Err(failed(MEMBERS_ONLY));
    }
    Ok((UserName::new(&certificate.subject, EXTERNAL), certificate.role_names()))
}

const MEMBERS_ONLY: &str = "The provided certificate can only be used for cluster authentication, not client \
    authentication. The current configuration does not allow x.509 cluster authentication, check the \
    --clusterAuthMode flag";

/// Returns true if a subject is that of members of the cluster, which users may not have.
pub(crate) fn is_members(server: &Server, subject: &str) -> bool {
    server.settings.params.bool("enforceUserClusterSeparation")
        && server.tls.as_ref().is_some_and(|tls| tls.is_member(subject))
}

fn failed(reason: &str) -> Error {
    err!(Code::AUTHENTICATION_FAILED, "{reason}")
}
