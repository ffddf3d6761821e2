//! The memory of the process: the budget from the options, and the initial sizes of the caches.

use nagi_budget::Division;
use nagi_host::{EngineKind, in_memory_budget};

use crate::engine;
use crate::options::Options;

/// The assumed memory of a machine that does not report it.
const UNKNOWN_MACHINE: u64 = 2 << 30;

/// The configured budget, or the default.
pub(crate) fn budget_bytes(options: &Options) -> u64 {
    if options.engine == EngineKind::Memory {
        return in_memory_budget(engine::in_memory_bytes(options));
    }
    options.cache_bytes.unwrap_or_else(|| {
        let machine = nagi_proc::memory_bytes().unwrap_or(UNKNOWN_MACHINE);
        nagi_budget::default_budget(machine, options.direct_io)
    })
}

/// The initial sizes of the caches: blocks, whole documents. Only the embedded engine has them; the others have the
/// data in memory already, or mapped, or the stores of a cluster have the caches.
pub(crate) fn cache_bytes(options: &Options) -> (u64, u64) {
    match options.engine {
        EngineKind::Embedded => {
            nagi_store::first_partition(Division::of(budget_bytes(options)).caches)
        }
        EngineKind::Mapped | EngineKind::Memory | EngineKind::Distributed => (0, 0),
    }
}
