//! The state of an execution that is a change stream: the tokens of its replies, its end.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf};
use nagi_store::Arrivals;

use crate::change_stream::{StreamState, Token};

/// The change stream that an execution runs.
pub(super) struct RunningStream {
    state: Arc<StreamState>,
    /// The token of its beginning.
    begins: Token,
    /// The token of the last event that was returned.
    returned: Option<DocBuf>,
}

impl RunningStream {
    pub(super) fn new(state: Arc<StreamState>) -> RunningStream {
        RunningStream { begins: state.place().token, state, returned: None }
    }

    /// True once the last event was delivered or not wanted.
    pub(super) fn has_ended(&self) -> bool {
        self.state.place().ended
    }

    /// The notifier of changes in its scope.
    pub(super) fn arrivals(&self) -> Arc<Arrivals> {
        Arc::clone(self.state.watch().arrivals())
    }

    pub(super) fn note(&mut self, event: Doc<'_>) {
        self.returned = event.get("_id").as_doc().map(|token| token.to_buf());
    }

    /// The token from which a stream continues as this one will.
    pub(super) fn token(&self) -> DocBuf {
        let place = self.state.place();
        // Also if the client's stages have dropped the event that tells it.
        if place.ended {
            return DocBuf::build(|out| place.token.put(out));
        }
        let of = |token: Token| DocBuf::build(|out| token.put(out));
        let returned = self.returned.clone();
        match (returned, place.drained_at.map(|time| of(Token::high_water(time)))) {
            (Some(returned), Some(drained)) => {
                let text = |token: &DocBuf| token.as_doc().get("_data").as_str().map(str::to_owned);
                if text(&returned) > text(&drained) { returned } else { drained }
            }
            (Some(token), None) => token,
            (None, _) => {
                let drained = place.drained_at.map(Token::high_water);
                of(drained.map_or(self.begins, |drained| drained.max(self.begins)))
            }
        }
    }
}
