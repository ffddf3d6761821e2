//! The key file: the secret that the members of a replica set share. Specifying one enables authorization.
//!
//! A set of one member never authenticates to other members, so the key is only validated as mongod does, and then
//! ignored.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zeroize::Zeroizing;

use crate::paths;

/// The allowed length of a key in characters.
const LENGTHS: std::ops::RangeInclusive<usize> = 6..=1024;
/// The size limit of the file, which may contain several keys for rotation.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Validates a key file: only its owner may read it, and its keys are base64 of an allowed length.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let opening = |error| format!("error opening file: {}", paths::explained(path, &error));
    let about = fs::metadata(path).map_err(opening)?;
    if !about.is_file() || about.len() > FILE_BYTES_MAX {
        return Err(format!("{shown} is not a key file"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(paths::too_open(path, about.mode()));
    }
    let reading = |error| format!("error reading file: {}", paths::explained(path, &error));
    let text = fs::read_to_string(path).map_err(reading)?;
    let text = Zeroizing::new(text);
    let keys = keys(&text);
    if keys.is_empty() {
        return Err(format!(
            "security key in {shown} has length 0, must be between 6 and 1024 chars"
        ));
    }
    for key in &keys {
        if let Some(bad) = key.chars().find(|c| !is_base64(*c)) {
            return Err(format!("invalid char in key file {shown}: {bad}"));
        }
        if !LENGTHS.contains(&key.len()) {
            return Err(format!(
                "security key in {shown} has length {}, must be between 6 and 1024 chars",
                key.len()
            ));
        }
    }
    Ok(())
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')
}

/// Reads the keys: one key from all lines without white space, or a YAML list with one key per line.
fn keys(text: &str) -> Vec<Zeroizing<String>> {
    let list: Vec<_> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "))
        .map(|key| key.trim().trim_matches(['"', '\'']).to_owned())
        .map(Zeroizing::new)
        .collect();
    if !list.is_empty() {
        return list;
    }
    let key: String = text.split_whitespace().collect();
    if key.is_empty() { Vec::new() } else { vec![Zeroizing::new(key)] }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_checked_as_mongod_does_it() {
        let path = std::env::temp_dir().join(format!("nagi-key-{}", std::process::id()));
        let check_text = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            check(&path)
        };
        assert_eq!(check_text("c2Vj\ncmV0 a2V5\n", 0o600), Ok(()));
        assert_eq!(check_text("- \"c2VjcmV0\"\n- b3RoZXI=\n", 0o400), Ok(()));
        for (text, mode, says) in [
            ("c2VjcmV0", 0o640, "too open"),
            ("", 0o600, "length 0"),
            ("short", 0o600, "length 5"),
            ("c2Vj*cmV0", 0o600, "invalid char"),
            (&"a".repeat(1025), 0o600, "length 1025"),
        ] {
            let error = check_text(text, mode).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(check(&path).unwrap_err().contains("error opening file"));
    }
}
