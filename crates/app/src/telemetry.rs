//! Starts the exporter of OpenTelemetry.

use std::sync::Arc;

use nagi_otlp::{Exporter, parse_headers};
use nagi_server::Server;

use crate::build;
use crate::options::Options;

/// The longest file of headers.
const HEADERS_BYTES_MAX: u64 = 64 << 10;

/// Starts the exporter; `None` if none is configured.
///
/// # Errors
/// If the file of headers or of certificates cannot be used.
pub(crate) fn start(server: &Arc<Server>, options: &Options) -> Result<Option<Exporter>, String> {
    let Some(settings) = &options.open_telemetry else { return Ok(None) };
    let mut options = settings.options.clone();
    if let Some(path) = &settings.headers_file {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let about = std::fs::metadata(path).map_err(|error| failed(&error))?;
        if !about.is_file() || about.len() > HEADERS_BYTES_MAX {
            return Err(failed(&"not a small file"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        options.headers = parse_headers(&text).map_err(|error| failed(&error))?;
    }
    let endpoint = options.endpoint.clone();
    let exporter = Exporter::start(server.clone(), options, build::VERSION);
    let exporter = exporter.map_err(|error| error.to_string())?;
    log::info!(target: "NETWORK", id = 8_200_322, endpoint = endpoint.as_str();
        "Traces and metrics are sent to an OpenTelemetry collector");
    Ok(Some(exporter))
}
