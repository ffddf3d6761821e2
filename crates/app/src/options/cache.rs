//! The memory of the process: an option with two names, or a share of the machine's memory.

use super::Settings;

const OLD: &str = "storage.wiredTiger.engineConfig.cacheSizeGB";
const NEW: &str = "storage.cacheSizeGB";
const SHARE: &str = "storage.wiredTiger.engineConfig.cacheSizePct";

/// The budget in bytes, if one is configured. `memory` is the memory of the machine or of the control group.
pub(super) fn bytes(
    settings: &Settings,
    memory: impl Fn() -> Option<u64>,
) -> Result<Option<u64>, String> {
    let real = |key: &str| settings.get(key).and_then(|text| text.parse::<f64>().ok());
    let size = match (real(OLD), real(NEW)) {
        (Some(old), Some(new)) if (old - new).abs() > f64::EPSILON => {
            return Err(format!("BadValue: {NEW} and {OLD} are one option and have two values"));
        }
        (old, new) => old.or(new),
    };
    match (size, real(SHARE)) {
        (Some(_), Some(_)) => {
            Err("BadValue: cacheSizeGB and cacheSizePct cannot both be specified".into())
        }
        (Some(gigabytes), None) => Ok(Some((gigabytes * f64::from(1 << 30)) as u64)),
        (None, Some(percent)) => {
            const LEAST: u64 = 256 << 20;
            let memory = memory().ok_or(
                "BadValue: cacheSizePct needs to know the machine's memory, which /proc does not \
                 report",
            )?;
            Ok(Some(((memory as f64 * percent / 100.0) as u64).max(LEAST)))
        }
        (None, None) => Ok(None),
    }
}
