//! The intersection of index scans: the records that all inputs have.

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::{RecordId, RecordKey};

use super::{Cx, Source, SourceStats};

/// Number of entries that are stepped over one by one before an input seeks: a step costs a fraction of a seek.
const STEPS: u32 = 8;

/// Scans inputs that are in the order of their records side by side. `doc` is empty.
pub(crate) struct AndSorted {
    inputs: Vec<Box<dyn Source>>,
    id: Option<RecordId>,
    done: bool,
}

impl AndSorted {
    pub(crate) fn new(inputs: Vec<Box<dyn Source>>) -> AndSorted {
        AndSorted { inputs, id: None, done: false }
    }

    /// Advances an input to its first record that is not before `wanted`.
    fn bring(&mut self, at: usize, wanted: &RecordId, cx: &mut Cx<'_>) -> Result<Option<RecordId>> {
        let input = &mut self.inputs[at];
        let mut steps = 0;
        while input.advance(cx)? {
            match input.record_id() {
                Some(id) if id >= wanted.key() => return Ok(Some(id.to_id())),
                _ => {}
            }
            steps += 1;
            if steps % STEPS == 0 {
                input.pass_to(wanted.key());
            }
        }
        Ok(None)
    }
}

impl Source for AndSorted {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        // Each input is at its last position. The first one advances, and the others follow.
        let moved = self.inputs[0].advance(cx)?;
        let first = self.inputs[0].record_id().filter(|_| moved);
        let Some(mut wanted) = first.map(RecordKey::to_id) else {
            self.done = true;
            return Ok(false);
        };
        let mut agree = 1;
        let mut at = 1 % self.inputs.len();
        while agree < self.inputs.len() {
            let found = match self.inputs[at].record_id() {
                Some(id) if id >= wanted.key() => Some(id.to_id()),
                _ => self.bring(at, &wanted, cx)?,
            };
            let Some(found) = found else {
                self.done = true;
                return Ok(false);
            };
            agree = if found == wanted { agree + 1 } else { 1 };
            wanted = found;
            at = (at + 1) % self.inputs.len();
        }
        self.id = Some(wanted);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.id.as_ref().map(RecordId::key)
    }

    fn is_at_end(&self) -> bool {
        self.done
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}
