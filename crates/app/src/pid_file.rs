//! `processManagement.pidFilePath`: a file with the process id, for scripts of any user; removed at a clean shutdown.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, exit};

/// The written file, if one is configured.
pub(crate) struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes the file, readable for all users as in mongod.
    pub(crate) fn write(path: Option<&Path>) -> Result<PidFile, Failure> {
        let Some(path) = path else { return Ok(PidFile(None)) };
        let written = fs::write(path, own())
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o644)));
        match written {
            Ok(()) => Ok(PidFile(Some(path.to_owned()))),
            Err(error) => Err(Failure {
                code: exit::FAILURE,
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
        // Another server may have overwritten the file meanwhile.
        if let Some(path) = &self.0
            && fs::read_to_string(path).is_ok_and(|text| text == own())
        {
            let _ = fs::remove_file(path);
        }
    }
}
