//! Additional stack for long or nested pipelines.
//!
//! Each source calls the one below it. A thousand stages, the limit of a pipeline, take some thousand frames, and
//! each stage may run pipelines of its own. Connection threads have small stacks. So every few stages a [`Deep`]
//! source checks the remaining stack and switches to another one if required.

use nagi_bson::Doc;
use nagi_budget::meter;
use nagi_error::Result;
use nagi_store::{RecordId, RecordKey};

use super::{Absorbed, Absorber, Cx, Source, check_memory};

/// Stack in bytes that must be left until the next check: for the frames of the stages, and for nested expressions
/// and documents.
const LEFT_MIN: usize = if cfg!(debug_assertions) { 4 << 20 } else { 640 << 10 };
/// Size in bytes of an additional stack; charged to the request while it is in use.
const ADDED: usize = 4 * LEFT_MIN;

/// Passes on its input, which runs on another stack if little of the current one is left.
pub(crate) struct Deep {
    input: Box<dyn Source>,
}

impl Deep {
    pub(crate) fn boxed(input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Deep { input })
    }
}

#[inline]
fn is_enough() -> bool {
    stacker::remaining_stack().is_none_or(|left| left >= LEFT_MIN)
}

/// # Errors
/// 146 if there is no memory for more stack.
#[inline]
fn check_value_memory() -> Result<()> {
    if is_enough() { Ok(()) } else { check_memory(ADDED) }
}

#[inline]
fn on_enough<T>(work: impl FnOnce() -> T) -> T {
    if is_enough() { work() } else { on_more(work) }
}

#[cold]
fn on_more<T>(work: impl FnOnce() -> T) -> T {
    let _counted = Counted::new();
    stacker::grow(ADDED, work)
}

/// The charge for an additional stack.
struct Counted;

impl Counted {
    fn new() -> Counted {
        meter::count(ADDED as i64);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        meter::count(-(ADDED as i64));
    }
}

impl Source for Deep {
    #[inline]
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        check_value_memory()?;
        on_enough(|| self.input.advance(cx))
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        check_value_memory()?;
        on_enough(|| self.input.absorb(cx))
    }

    fn beside(&mut self, cx: &mut Cx<'_>) -> Result<Option<Box<dyn Absorber>>> {
        check_value_memory()?;
        on_enough(|| self.input.beside(cx))
    }

    fn complete(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        check_value_memory()?;
        on_enough(|| self.input.complete(cx))
    }

    fn join(&mut self, later: Box<dyn Absorber>, cx: &mut Cx<'_>) -> Result<()> {
        check_value_memory()?;
        on_enough(|| self.input.join(later, cx))
    }

    fn alone(&mut self) {
        on_enough(|| self.input.alone());
    }

    fn doc(&self) -> Doc<'_> {
        on_enough(|| self.input.doc())
    }

    fn meta(&self) -> Doc<'_> {
        on_enough(|| self.input.meta())
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        on_enough(|| self.input.record_id())
    }

    fn is_at_end(&self) -> bool {
        on_enough(|| self.input.is_at_end())
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        std::slice::from_mut(&mut self.input)
    }

    fn save(&mut self) {
        on_enough(|| self.input.save());
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        check_value_memory()?;
        on_enough(|| self.input.restore(cx))
    }

    fn doubt_keys(&mut self, noted: u64, checked: bool) -> Result<bool> {
        on_enough(|| self.input.doubt_keys(noted, checked))
    }

    fn split(&mut self, cx: &Cx<'_>) -> Result<Option<Box<dyn Source>>> {
        let later = on_enough(|| self.input.split(cx))?;
        Ok(later.map(Deep::boxed))
    }

    fn splits_late(&self) -> bool {
        on_enough(|| self.input.splits_late())
    }

    fn afresh(&self) -> Option<Box<dyn Source>> {
        on_enough(|| self.input.afresh()).map(Deep::boxed)
    }

    fn position(&mut self) -> Option<RecordId> {
        on_enough(|| self.input.position())
    }
}

impl Drop for Deep {
    fn drop(&mut self) {
        let input = std::mem::replace(&mut self.input, Box::new(End));
        on_enough(|| drop(input));
    }
}

/// The placeholder for an input that was taken out.
struct End;

impl Source for End {
    fn advance(&mut self, _cx: &mut Cx<'_>) -> Result<bool> {
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}
