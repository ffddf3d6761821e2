//! The end of a stream's pipeline: events keep their tokens, and large ones are split.

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use std::sync::Arc;

use super::{stream::StreamState, token::Token};
use crate::{
    limits::DOC_BYTES_MAX,
    source::{Cx, Source},
};

/// Fails if a stage has changed the token of an event (280).
pub(crate) struct TokenKept {
    input: Box<dyn Source>,
    state: Arc<StreamState>,
}

impl TokenKept {
    pub(crate) fn new(input: Box<dyn Source>, state: Arc<StreamState>) -> TokenKept {
        TokenKept { input, state }
    }
}

impl Source for TokenKept {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.input.advance(cx)? {
            return Ok(false);
        }
        let expected = DocBuf::build(|out| self.state.place().token.put(out));
        let found = self.input.doc().get("_id");
        if !found.same_bytes(&Value::Doc(expected.as_doc())) {
            bail!(
                Code::CHANGE_STREAM_FATAL_ERROR,
                "Encountered an event whose _id field, which contains the resume token, was modified \
                 by the pipeline. Modifying the _id field of an event makes it impossible to resume the \
                 stream from that point. Only transformations that retain the unmodified _id field are \
                 allowed. Expected: {{ _id: {} }} but found: {}",
                expected.as_doc(),
                match found {
                    Value::Missing => "{ _id: (missing) }".to_owned(),
                    found => nagi_bson::doc! { "_id": found }.as_doc().to_string(),
                }
            );
        }
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        std::slice::from_mut(&mut self.input)
    }
}

/// Room for the fields that each fragment has of its own.
const FRAGMENT_HEAD_BYTES: usize = 4 << 10;

/// `$changeStreamSplitLargeEvent`: an event that is too large becomes fragments of whole fields.
pub(crate) struct Split {
    input: Box<dyn Source>,
    state: Arc<StreamState>,
    /// The fragments of the current event, in reverse.
    fragments: Vec<Vec<u8>>,
    current: Option<Vec<u8>>,
    /// Fragments up to this one were delivered before the stream was resumed.
    resumed_at: Option<Token>,
}

impl Split {
    pub(crate) fn new(input: Box<dyn Source>, state: Arc<StreamState>) -> Split {
        let token = state.place().token;
        let resumed_at = token.fragment().map(|_| token);
        Split { input, state, fragments: Vec::new(), current: None, resumed_at }
    }

    fn split(&mut self, event: Doc<'_>) -> Result<Vec<Vec<u8>>> {
        let token = self.state.place().token;
        let most = DOC_BYTES_MAX - FRAGMENT_HEAD_BYTES;
        let mut parts: Vec<Vec<nagi_bson::Element<'_>>> = Vec::new();
        let mut room = 0;
        for field in event.iter().filter(|field| field.name() != "_id") {
            let bytes = field.name().len() + field.value_bytes().len() + 2;
            if bytes > most {
                bail!(
                    Code::BSON_OBJECT_TOO_LARGE,
                    "Splitting change event failed: field '{}' is too large",
                    field.name()
                );
            }
            if bytes > room {
                parts.push(Vec::new());
                room = most;
            }
            room -= bytes;
            if let Some(part) = parts.last_mut() {
                part.push(field);
            }
        }
        let count = parts.len();
        let fragments = parts.iter().enumerate().map(|(at, part)| {
            let mut bytes = Vec::new();
            let mut out = DocWriter::new(&mut bytes);
            out.doc("_id", |out| token.with_fragment(at as u64).put(out));
            out.doc("splitEvent", |out| {
                out.put("fragment", (at + 1) as i32);
                out.put("of", count as i32);
            });
            part.iter().for_each(|field| out.put_element(*field));
            out.finish();
            bytes
        });
        let mut fragments: Vec<Vec<u8>> = fragments.collect();
        if let Some(resumed) =
            self.resumed_at.take().filter(|resumed| resumed.is_same_event(&token))
        {
            let delivered = resumed.fragment().unwrap_or(0) as usize + 1;
            // All may have been delivered: then the next event follows.
            if delivered > count {
                bail!(
                    Code::CHANGE_STREAM_FATAL_ERROR,
                    "Attempted to resume from a split event, but the resumed stream produced a different \
                     split. Ensure that the pipeline used to resume is the same as the original"
                );
            }
            fragments.drain(..delivered);
        }
        fragments.reverse();
        Ok(fragments)
    }
}

impl Source for Split {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        loop {
            self.current = self.fragments.pop();
            if self.current.is_some() {
                return Ok(true);
            }
            if !self.input.advance(cx)? {
                return Ok(false);
            }
            let large = self.input.doc().len() > DOC_BYTES_MAX;
            let token = self.state.place().token;
            let resumed = self.resumed_at.is_some_and(|resumed| resumed.is_same_event(&token));
            if !large && !resumed {
                self.resumed_at = None;
                return Ok(true);
            }
            let event = self.input.doc().to_buf();
            self.fragments = self.split(event.as_doc())?;
        }
    }

    fn doc(&self) -> Doc<'_> {
        match &self.current {
            Some(fragment) => Doc::trusted(fragment),
            None => self.input.doc(),
        }
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        std::slice::from_mut(&mut self.input)
    }
}
