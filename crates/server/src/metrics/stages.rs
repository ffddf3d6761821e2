//! How often each aggregation stage was used: `metrics.aggStageCounters`.

use nagi_bson::{Array, DocWriter};
use nagi_query::{inner_pipelines, stage_names};

use super::Counter;

/// A counter for each stage, sorted by name.
pub(crate) struct StageCounters(Box<[(&'static str, Counter)]>);

impl Default for StageCounters {
    fn default() -> StageCounters {
        let mut names: Vec<_> = stage_names().collect();
        names.sort_unstable();
        names.dedup();
        StageCounters(names.into_iter().map(|name| (name, Counter::default())).collect())
    }
}

impl StageCounters {
    /// Counts the stages of a pipeline that was parsed, and those of pipelines within them.
    pub(crate) fn count(&self, pipeline: Array<'_>) {
        let stages = pipeline.iter().filter_map(|stage| stage.as_doc()?.first());
        for stage in stages {
            let name = stage.name();
            if let Ok(at) = self.0.binary_search_by_key(&name, |(known, _)| *known) {
                self.0[at].1.increment();
            }
            inner_pipelines(name, stage.value()).into_iter().for_each(|inner| self.count(inner));
        }
    }

    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        self.0.iter().for_each(|(name, counter)| out.put(name, counter.get()));
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, doc};

    use super::*;

    #[test]
    fn stages_of_inner_pipelines_count_too() {
        let counters = StageCounters::default();
        let inner = doc! { "a": [{ "$match": {} }], "b": [{ "$match": {} }, { "$limit": 1 }] };
        let facet = doc! { "$facet": (inner.as_doc()) };
        let request = doc! { "pipeline": [{ "$match": {} }, (facet.as_doc()), { "$none": 1 }] };
        counters.count(request.as_doc().get("pipeline").as_array().expect("an array"));
        let doc = DocBuf::build(|out| counters.write(out));
        let count = |name| nagi_bson::number::truncate_to_i64(doc.as_doc().get(name));
        let names = ["$match", "$limit", "$facet", "$sort"];
        assert_eq!(names.map(count), [Some(3), Some(1), Some(1), Some(0)]);
    }
}
