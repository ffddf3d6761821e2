//! The collections that are being compacted, and the settings of the background compaction.

use std::collections::HashMap;

use nagi_error::{Code, Result, bail};
use nagi_store::Namespace;
use parking_lot::Mutex;

/// The options of `autoCompact: true`.
#[derive(Clone, Copy)]
pub(crate) struct Background {
    pub(crate) target_mb: i64,
    pub(crate) once: bool,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) running: Vec<Namespace>,
    pub(crate) background: Option<Background>,
    /// Incremented when the settings of the background compaction change: a pass with old settings stops.
    pub(crate) generation: u64,
    pub(crate) next_pass_ms: i64,
    pub(crate) failed: HashMap<[u8; 16], i64>,
}

/// The state of all compactions.
#[derive(Default)]
pub(crate) struct Compactions(pub(crate) Mutex<State>);

/// The exclusive right to compact a collection; released when dropped.
pub(crate) struct Claim<'s> {
    all: &'s Compactions,
    namespace: Namespace,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.all.0.lock();
        state.running.retain(|running| *running != self.namespace);
    }
}

impl Compactions {
    pub(crate) fn claim(&self, namespace: &Namespace) -> Result<Claim<'_>> {
        let mut state = self.0.lock();
        if state.running.contains(namespace) {
            bail!(
                Code::OBJECT_IS_BUSY,
                "Compaction is already in progress for collection {namespace}"
            );
        }
        state.running.push(namespace.clone());
        Ok(Claim { all: self, namespace: namespace.clone() })
    }

    /// Turns background compaction on; 314 if it is on.
    pub(crate) fn enable(&self, background: Background) -> Result<()> {
        let mut state = self.0.lock();
        if state.background.is_some() {
            bail!(
                Code::OBJECT_IS_BUSY,
                "Background compaction is already enabled; disable it first to change its options"
            );
        }
        *state = State { running: std::mem::take(&mut state.running), ..fresh(&state) };
        state.background = Some(background);
        Ok(())
    }

    /// Turns background compaction off; a running pass stops soon.
    pub(crate) fn disable(&self) {
        let mut state = self.0.lock();
        *state = State { running: std::mem::take(&mut state.running), ..fresh(&state) };
    }

    pub(crate) fn generation(&self) -> u64 {
        self.0.lock().generation
    }
}

fn fresh(old: &State) -> State {
    State { generation: old.generation + 1, ..State::default() }
}
