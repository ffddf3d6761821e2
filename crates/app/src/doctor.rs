//! `nagi doctor`: supplies the checks of the machine with the options of a server.

use std::path::Path;
use std::process::ExitCode;

use nagi_bson::DocBuf;
use nagi_doctor::Defaults;
use nagi_host::EngineKind;

use crate::options::{self, Options, Request};
use crate::{exposure, memory};

/// Runs `nagi doctor ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    ExitCode::from(nagi_doctor::run(args, config, options::meant_option))
}

/// Data directory, connections, memory budget and way of reading of a configuration file, or the defaults of a server
/// without one.
fn config(file: Option<&str>) -> Result<Defaults, String> {
    let args = file.map(|file| vec!["--config".to_owned(), file.to_owned()]).unwrap_or_default();
    match options::read(&args)? {
        Request::Serve(options) | Request::Shutdown(options) => {
            let exposure = file.map(|_| exposure::for_doctor(&options));
            Ok(Defaults { exposure, ..defaults(&options) })
        }
        Request::Help | Request::Version => Err("a configuration file is needed".into()),
    }
}

fn defaults(options: &Options) -> Defaults {
    Defaults {
        folder: options.db_path.clone().into(),
        connection_count_max: u64::try_from(options.connection_count_max).unwrap_or(0),
        budget_bytes: memory::budget_bytes(options),
        reads_through_cache: match options.engine {
            EngineKind::Embedded => !options.direct_io,
            EngineKind::Mapped => true,
            EngineKind::Memory | EngineKind::Distributed => false,
        },
        exposure: None,
    }
}

/// The checks beside the server that runs with these options.
pub(crate) fn live_report(options: &Options) -> DocBuf {
    let folder = (options.engine != EngineKind::Memory).then(|| Path::new(&options.db_path));
    let exposure = Some(exposure::for_doctor(options));
    nagi_doctor::live_report(folder, &Defaults { exposure, ..defaults(options) })
}
