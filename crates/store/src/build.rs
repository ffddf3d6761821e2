//! Building indexes on existing data while others read and write.

use nagi_error::Result;

/// How a build runs.
#[derive(Clone, Copy, Default)]
pub struct BuildOptions<'a> {
    /// Asked now and then; an error ends the build and undoes it.
    pub interrupt: Option<&'a dyn Fn() -> Result<()>>,
}
