//! The line of the log about memory, which operators know since MongoDB 1.6: `mem (MB) res:501 virt:2219 mapped:976`.
//!
//! `res` and `virt` are what Linux says of the process (VmRSS, VmSize). `mapped` is the size of mapped data files, and
//! is absent with engines that map none. A line appears at most once a minute, and only if a figure has changed by an
//! eighth; every five minutes otherwise.

use nagi_proc::Process;
use nagi_store::Store;

const EACH_MS: i64 = 60_000;
const UNCHANGED_EACH_MS: i64 = 300_000;
/// Changes of fewer MB are of no interest.
const CHANGE_MB_MIN: i64 = 16;

/// Figures in MB (2^20 bytes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) resident_mb: i64,
    pub(crate) virtual_mb: i64,
    pub(crate) mapped_mb: Option<i64>,
}

/// What was logged last.
pub(crate) struct MemoryLine {
    at_ms: i64,
    said: Memory,
}

impl Memory {
    /// The figures of this moment. Reads `/proc/self/status` and the engine's gauges.
    pub(crate) fn of(store: &Store) -> Memory {
        let mb = |bytes: u64| i64::try_from(bytes >> 20).unwrap_or(i64::MAX);
        let own = Process::Own.status().unwrap_or_default();
        let mut mapped_mb = None;
        store.engine().stats(&mut |name, value| {
            if name == "mapped_bytes" {
                mapped_mb = Some(value >> 20);
            }
        });
        Memory {
            resident_mb: mb(own.resident_bytes.unwrap_or(0)),
            virtual_mb: mb(own.virtual_bytes.unwrap_or(0)),
            mapped_mb,
        }
    }

    fn differs(&self, before: &Memory) -> bool {
        let changed =
            |now: i64, then: i64| now.abs_diff(then) > (then / 8).max(CHANGE_MB_MIN) as u64;
        changed(self.resident_mb, before.resident_mb)
            || changed(self.mapped_mb.unwrap_or(0), before.mapped_mb.unwrap_or(0))
    }

    /// The figures as that line has them.
    fn text(&self) -> String {
        let mapped = self.mapped_mb.map(|mb| format!(" mapped:{mb}")).unwrap_or_default();
        format!("res:{} virt:{}{mapped}", self.resident_mb, self.virtual_mb)
    }
}

impl MemoryLine {
    /// Nothing was logged yet; the first line may appear a minute after `now_ms`.
    pub(crate) fn new(now_ms: i64) -> MemoryLine {
        MemoryLine { at_ms: now_ms, said: Memory::default() }
    }

    /// Returns true if a line with `now` is due, and remembers it.
    fn due(&mut self, now_ms: i64, now: &Memory) -> bool {
        let waited_ms = now_ms - self.at_ms;
        let due =
            waited_ms >= UNCHANGED_EACH_MS || (waited_ms >= EACH_MS && now.differs(&self.said));
        if due {
            *self = MemoryLine { at_ms: now_ms, said: *now };
        }
        due
    }

    /// Logs the line if it is due. Costs a comparison if the last one is younger than a minute.
    pub(crate) fn log_if_due(&mut self, store: &Store, now_ms: i64) {
        if now_ms - self.at_ms < EACH_MS {
            return;
        }
        let memory = Memory::of(store);
        if self.due(now_ms, &memory) {
            log::info!(target: "CONTROL", id = 8_200_063; "mem (MB) {}", memory.text());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(resident_mb: i64, mapped_mb: i64) -> Memory {
        Memory { resident_mb, virtual_mb: 2219, mapped_mb: Some(mapped_mb) }
    }

    #[test]
    fn the_text_is_that_of_2012() {
        assert_eq!(mapped(501, 976).text(), "res:501 virt:2219 mapped:976");
        let own_cache = Memory { mapped_mb: None, ..mapped(501, 0) };
        assert_eq!(own_cache.text(), "res:501 virt:2219");
    }

    #[test]
    fn a_change_is_logged_after_a_minute_and_the_rest_after_five() {
        let mut line = MemoryLine::new(0);
        assert!(!line.due(59_999, &mapped(501, 976)));
        assert!(line.due(60_000, &mapped(501, 976)));
        assert!(!line.due(125_000, &mapped(520, 1000)));
        assert!(line.due(125_000, &mapped(915, 2000)));
        assert!(!line.due(424_999, &mapped(915, 2000)));
        assert!(line.due(425_000, &mapped(915, 2000)));
    }
}
