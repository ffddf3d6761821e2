//! `$changeStreamSplitLargeEvent`: splits events that are too large; at the end of a change stream's pipeline.

use super::{Within, prelude::*};

pub(super) static CHANGE_STREAM_SPLIT_LARGE_EVENT: StageSpec = StageSpec {
    name: "$changeStreamSplitLargeEvent",
    parse,
    facts: StageFacts {
        in_transaction: false,
        in_view: false,
        in_change_stream: super::InChangeStream::Ends,
        ..StageFacts::ORDINARY
    },
    ..StageSpec::ROW
};

struct SplitLargeEvent;

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    if !super::is_empty_object(spec) {
        bail!(
            Code::Location(7_182_800),
            "$changeStreamSplitLargeEvent spec should be an empty object"
        );
    }
    if cx.within != Within::Top {
        bail!(
            Code::ILLEGAL_OPERATION,
            "$changeStreamSplitLargeEvent can only be used in a $changeStream pipeline"
        );
    }
    Ok(Box::new(SplitLargeEvent))
}

impl Stage for SplitLargeEvent {
    /// A running stream splits its events itself, see [`crate::change_stream::Split`]; explain has none.
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        input
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc("$changeStreamSplitLargeEvent", |_| ());
    }

    fn splits_events(&self) -> bool {
        true
    }
}
