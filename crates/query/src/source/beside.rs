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

    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

struct Beside<G> {
    input: Box<dyn Source>,
    gathered: G,
}

impl<G: Gather + 'static> Absorber for Beside<G> {
    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        all(&mut *self.input, &mut self.gathered, cx)
    }

    fn complete(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.gathered.complete(cx)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// For [`Source::beside`] of a source that gathers its `input` in `own`.
pub(crate) fn beside<G: Gather + 'static>(
    input: &mut dyn Source,
    own: &mut G,
    cx: &mut Cx<'_>,
) -> Result<Option<Box<dyn Absorber>>> {
    let divided = divide(input, own, cx)?;
    Ok(divided.map(|(input, gathered)| Box::new(Beside { input, gathered }) as Box<dyn Absorber>))
}

/// For [`Source::join`] of the same source: appends what `later` has gathered, which [`beside`] returned.
pub(crate) fn join<G: Gather + 'static>(
    own: &mut G,
    later: Box<dyn Absorber>,
    cx: &mut Cx<'_>,
) -> Result<()> {
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
            $crate::source::Gather::complete(&mut self.$gathered, cx)
        }

        fn join(
            &mut self,
            later: Box<dyn $crate::source::Absorber>,
            cx: &mut Cx<'_>,
        ) -> Result<()> {
            $crate::source::join(&mut self.$gathered, later, cx)
        }

        fn alone(&mut self) {
            $crate::source::Gather::alone(&mut self.$gathered);
        }
    };
}
pub(crate) use gathers_portions;
