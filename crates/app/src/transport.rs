//! TLS at the start of the server.

use std::sync::Arc;

use nagi_bson::DocBuf;
use nagi_server::Log;
use nagi_tls::Tls;

use crate::failure::{Failure, exit};
use crate::options::Options;

/// Reads the files of TLS, if it is enabled, and logs warnings about them.
pub(crate) fn open(options: &Options, log: &Log) -> Result<Option<Arc<Tls>>, Failure> {
    let Some(options) = &options.tls else { return Ok(None) };
    let tls = Tls::open(options.clone()).map_err(|error| Failure {
        code: exit::FAILURE,
        id: 20574,
        message: "Error during global initialization",
        error: format!("InvalidSSLConfiguration: {error}"),
    })?;
    for warning in tls.warnings() {
        log.startup_warning("NETWORK", 8_200_163, &warning, DocBuf::new().as_doc());
    }
    Ok(Some(tls))
}
