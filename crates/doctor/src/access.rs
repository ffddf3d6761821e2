//! Owners and permissions of the files in a data directory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::facts::Access;

/// Maximum number of files checked: a start must not wait for a slow file system.
const ENTRIES_MAX: usize = 10_000;

/// Checks the folder and everything below it. Symbolic links are not followed.
pub(crate) fn of(folder: &Path) -> Access {
    let mut access = Access::default();
    let Ok(top) = fs::metadata(folder) else { return access };
    // With the sticky bit, everybody may create files but not remove those of another user.
    access.is_shared = top.mode() & 0o022 != 0 && top.mode() & 0o1000 == 0;
    let (mut folders, mut seen) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            seen += 1;
            if seen > ENTRIES_MAX {
                return access;
            }
            let note = |count: &mut u64, example: &mut String| {
                *count += 1;
                if example.is_empty() {
                    *example = path.display().to_string();
                }
            };
            if about.uid() != top.uid() {
                note(&mut access.foreign_count, &mut access.foreign_example);
            }
            if !about.is_symlink() && about.mode() & 0o077 != 0 {
                note(&mut access.open_count, &mut access.open_example);
            }
            if about.is_dir() {
                folders.push(path);
            }
        }
    }
    access
}

/// The folder above `path` that this process may not enter, if that is why the path cannot be reached.
pub fn closed_ancestor(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let mut above: Vec<&Path> = absolute.ancestors().collect();
    above.reverse();
    let is_denied = |path: &Path| {
        let found = fs::metadata(path);
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    let denied = above.into_iter().find(|path| is_denied(path))?;
    Some(denied.parent()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn open_files_and_folders_are_counted() {
        let folder = std::env::temp_dir().join(format!("nagi-access-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/file"), b"x").unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&folder, 0o755);
        set(&folder.join("inner"), 0o700);
        set(&folder.join("inner/file"), 0o600);
        assert_eq!(of(&folder), Access::default());
        set(&folder.join("inner/file"), 0o640);
        let open = of(&folder);
        assert_eq!((open.open_count, open.foreign_count, open.is_shared), (1, 0, false));
        assert!(open.open_example.ends_with("inner/file"));
        set(&folder, 0o775);
        set(&folder.join("inner"), 0o711);
        let open = of(&folder);
        assert_eq!((open.open_count, open.is_shared), (2, true));
        set(&folder, 0o1777);
        assert!(!of(&folder).is_shared);
        fs::remove_dir_all(&folder).unwrap();
    }
}
