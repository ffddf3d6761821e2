//! A second gatherer for a source that keeps what it reads of portions, so that two threads can feed it.
//!
//! ```text
//!   first half of the input  -> portions -> stages -> own gatherer  -\
//!   second half of the input -> portions -> stages -> Beside<..>    --> join
//! ```

use std::any::Any;

use nagi_error::{Error, Result};

use super::parallel_scan::{all, divide};
use super::{Cx, Gather, Source};

/// Gathers the portions that its leaf has at present.
pub(crate) trait Absorber: Send {
    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<()>;

    fn complete(&mut self, cx: &mut Cx<'_>) -> Result<()>;

    /// The number of gathering sources above the one that it belongs to.
    fn above(&mut self) -> &mut usize;

    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

struct Beside<G> {
    input: Box<dyn Source>,
    gathered: G,
    above: usize,
}

impl<G: Gather + 'static> Absorber for Beside<G> {
    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        all(&mut *self.input, &mut self.gathered, cx)
    }

    fn complete(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.gathered.complete(cx)
    }

    fn above(&mut self) -> &mut usize {
        &mut self.above
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// For [`Source::beside`] of a source that gathers its `input` in `own`, unless the input gathers the portions.
pub(crate) fn beside<G: Gather + 'static>(
    input: &mut dyn Source,
    own: &mut G,
    cx: &mut Cx<'_>,
) -> Result<Option<Box<dyn Absorber>>> {
    if let Some(mut below) = input.beside(cx)? {
        *below.above() += 1;
        return Ok(Some(below));
    }
    let Some((input, gathered)) = divide(input, own, cx)? else { return Ok(None) };
    Ok(Some(Box::new(Beside { input, gathered, above: 0 })))
}

/// For [`Source::join`] of the same source: appends what `later` has gathered, which [`beside`] returned.
pub(crate) fn join<G: Gather + 'static>(
    input: &mut dyn Source,
    own: &mut G,
    mut later: Box<dyn Absorber>,
    cx: &mut Cx<'_>,
) -> Result<()> {
    if let Some(above) = later.above().checked_sub(1) {
        *later.above() = above;
        return input.join(later, cx);
    }
    let later = later.into_any().downcast::<Beside<G>>();
    let later = later.map_err(|_| Error::bug("joined with a gatherer of another kind"))?;
    own.join(later.gathered, cx)
}

/// The methods of a source that gathers its first input in the field `$gathered`, for two threads that feed it.
macro_rules! gathers_portions {
    ($gathered:ident) => {
        fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<$crate::source::Absorbed> {
            $crate::source::absorb(&mut *self.inputs[0], &mut self.$gathered, cx)
        }

        fn beside(&mut self, cx: &mut Cx<'_>) -> Result<Option<Box<dyn $crate::source::Absorber>>> {
            $crate::source::beside(&mut *self.inputs[0], &mut self.$gathered, cx)
        }

        fn complete(&mut self, cx: &mut Cx<'_>) -> Result<()> {
            // One of them has gathered nothing.
            self.inputs[0].complete(cx)?;
            $crate::source::Gather::complete(&mut self.$gathered, cx)
        }

        fn join(
            &mut self,
            later: Box<dyn $crate::source::Absorber>,
            cx: &mut Cx<'_>,
        ) -> Result<()> {
            $crate::source::join(&mut *self.inputs[0], &mut self.$gathered, later, cx)
        }

        fn alone(&mut self) {
            self.inputs[0].alone();
            $crate::source::Gather::alone(&mut self.$gathered);
        }
    };
}
pub(crate) use gathers_portions;
