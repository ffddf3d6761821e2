//! `processManagement.pidFilePath`: the process id, for scripts of any user; removed at the end in order.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The written file, if one was requested.
pub(crate) struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes it, readable for all as mongod's.
    pub(crate) fn write(path: Option<&Path>) -> Result<PidFile, Failure> {
        let Some(path) = path else { return Ok(PidFile(None)) };
        let written = fs::write(path, own())
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o644)));
        match written {
            Ok(()) => Ok(PidFile(Some(path.to_owned()))),
            Err(error) => Err(Failure {
                code: 1,
                id: 23_329,
                message: "Cannot write pid file to path",
                error: format!("{}: {error}", path.display()),
            }),
        }
    }
}

fn own() -> String {
    format!("{}\n", std::process::id())
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another server's may stand there by now.
        if let Some(path) = &self.0
            && fs::read_to_string(path).is_ok_and(|text| text == own())
        {
            let _ = fs::remove_file(path);
        }
    }
}
