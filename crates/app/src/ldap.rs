//! LDAP at the start of the server.

use std::sync::Arc;

use nagi_ldap::Ldap;

use crate::failure::{Failure, exit};
use crate::options::Options;

/// Prepares LDAP, if it is configured, and checks that a server can be used, unless that is turned off.
pub(crate) fn open(options: &Options) -> Result<Option<Arc<Ldap>>, Failure> {
    let Some(settings) = &options.ldap else { return Ok(None) };
    let failed = |error: String| Failure {
        code: exit::FAILURE,
        id: 20574,
        message: "Error during global initialization",
        error,
    };
    let ldap = Ldap::new(settings.options.clone())
        .map_err(|why| failed(format!("BadValue: security.ldap: {why}")))?;
    if settings.validate {
        ldap.validate().map_err(|why| {
            failed(format!(
                "OperationFailed: Can't connect to the specified LDAP servers, error: {why}. To start without this \
                 check, set security.ldap.validateLDAPServerConfig: false"
            ))
        })?;
    }
    Ok(Some(Arc::new(ldap)))
}
