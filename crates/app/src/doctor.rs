//! `nagi doctor`: supplies the checks of the machine with the options of a server.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use nagi_bson::DocBuf;
use nagi_doctor::{DataFiles, Defaults};
use nagi_host::{DataFiles as Found, EngineKind, Examined};

use crate::options::{self, Options, Request};
use crate::{exposure, memory};

/// Runs `nagi doctor ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    ExitCode::from(nagi_doctor::run(args, config, examine, options::meant_option))
}

/// Compares the files of a data directory with what the last orderly shutdown recorded, as a start does.
fn examine(folder: &Path) -> DataFiles {
    let no_record = "there is no record of an orderly shutdown; a start reads and checks the log, as after a crash";
    match nagi_host::examine(folder) {
        Ok(Found::Examined(Examined::Unchanged)) => DataFiles::Unchanged,
        Ok(Found::Examined(Examined::Damaged(texts))) => DataFiles::Damaged(texts),
        Ok(Found::Examined(Examined::NotRecorded)) => DataFiles::NotCompared(no_record.to_owned()),
        Ok(Found::InUse) => DataFiles::NotCompared("a server uses the data directory".to_owned()),
        Ok(Found::NoRecord) => {
            DataFiles::NotCompared("there are no files whose sizes are recorded".to_owned())
        }
        Err(nagi_kv::Error::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            DataFiles::NotCompared(format!("this user may not read the files: {error}"))
        }
        Err(error) => DataFiles::Unreadable(error.to_string()),
    }
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
