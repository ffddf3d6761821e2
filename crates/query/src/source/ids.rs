//! Records whose ids are known in advance.

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::{RecordId, RecordKey};

use super::{Cx, Source};

/// Yields one record id after the other; `doc` is empty.
pub(crate) struct Ids {
    ids: Vec<RecordId>,
    /// Position of the next id.
    next: usize,
}

impl Ids {
    pub(crate) fn new(ids: Vec<RecordId>) -> Ids {
        Ids { ids, next: 0 }
    }
}

impl Source for Ids {
    fn advance(&mut self, _cx: &mut Cx<'_>) -> Result<bool> {
        let more = self.next < self.ids.len();
        self.next += usize::from(more);
        Ok(more)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.ids.get(self.next.checked_sub(1)?).map(RecordId::key)
    }

    fn ahead(&mut self, _cx: &mut Cx<'_>, count: usize, out: &mut Vec<RecordId>) -> Result<()> {
        out.extend(self.ids[self.next..].iter().take(count).cloned());
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        self.next == self.ids.len()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}
