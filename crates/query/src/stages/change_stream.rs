//! `$changeStream`: the events of changes, which [`crate::change_stream`] makes.

use std::sync::Arc;

use super::{COLLECTIONLESS, InChangeStream, Use, Within, prelude::*};
use crate::{
    change_stream::{Scope, StreamOptions},
    source::Eof,
};

pub(super) static CHANGE_STREAM: StageSpec = StageSpec {
    name: "$changeStream",
    place: Place::First,
    parse,
    facts: StageFacts {
        in_transaction: false,
        in_view: false,
        rejectable: false,
        runs_on: RunsOn::Either,
        in_change_stream: InChangeStream::Begins,
        ..StageFacts::ORDINARY
    },
    ..StageSpec::ROW
};

struct ChangeStream(Arc<StreamOptions>);

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    match cx.within {
        Within::Top | Within::Facet => {}
        Within::Lookup => bail!(
            Code::Location(51047),
            "$changeStream is not allowed within a $lookup's sub-pipeline"
        ),
        Within::UnionWith => bail!(
            Code::Location(31441),
            "$changeStream is not allowed within a $unionWith's sub-pipeline"
        ),
    }
    let collectionless = cx.namespace.collection() == COLLECTIONLESS;
    let options = StreamOptions::parse(spec, cx.namespace, collectionless, cx.for_access)?;
    Ok(Box::new(ChangeStream(Arc::new(options))))
}

impl Stage for ChangeStream {
    fn begins_with(&self) -> Option<Use> {
        Some(match self.0.scope() {
            Scope::Collection(_) => Use::Watch,
            Scope::Database(_) => Use::WatchDatabase,
            Scope::Cluster => Use::WatchCluster,
        })
    }

    /// Explain runs it without events: a running stream has a state of its own, see [`crate::change_stream::Stream`].
    fn open(&self, _: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Eof)
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$changeStream", &self.0.text);
    }

    fn step(&self) -> Step<'_> {
        Step::Begins
    }

    fn stream(&self) -> Option<&Arc<StreamOptions>> {
        Some(&self.0)
    }
}
