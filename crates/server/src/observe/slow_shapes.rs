//! The shapes of slow operations, for the interfaces of this process that show them.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use nagi_bson::{Array, Doc, DocWriter, Value};

use crate::advice::Query;
use crate::core::server::Server;
use crate::limits::STAGES_NAMED_MAX;
use crate::metrics::slow_shapes::SlowShape;

impl Server {
    /// Writes `slowms`, `leftOut` (slow operations that are in no row) and `shapes`: the slow operations since the
    /// start by namespace, operation, shape and stages, those with the greatest total time first. At most 320 rows of
    /// less than 4 KB; the commands are not among them.
    pub fn write_slow_shapes(&self, out: &mut DocWriter<'_>) {
        let (list, left_out) = self.metrics.slow_shapes.all();
        out.put("slowms", self.settings.profile.slow_ms());
        out.put("leftOut", number(left_out));
        out.array("shapes", |out| list.iter().for_each(|row| out.doc(|out| row.write(out))));
    }

    /// Writes one of the rows of [`Server::write_slow_shapes`], with its slowest command as `example`, cut if it
    /// is longer than 4 KiB: absent if all were longer than 8 KiB, and if the log leaves out the data of clients
    /// (`redactClientLogData`). Returns false if there is no such row. `hashes` are `planCacheShapeHash` and
    /// `stagesHash`, 0 for one that the row does not have.
    pub fn write_slow_shape(
        &self,
        (ns, operation): (&str, &str),
        hashes: (u32, u32),
        out: &mut DocWriter<'_>,
    ) -> bool {
        let Some(row) = self.metrics.slow_shapes.find(ns, operation, hashes) else { return false };
        row.write(out);
        let redacts = self.settings.params.bool("redactClientLogData");
        out.put("redacted", redacts);
        if let Some(example) = row.example.as_ref().filter(|_| !redacts) {
            out.put("example", example);
        }
        true
    }
}

impl SlowShape {
    fn write(&self, out: &mut DocWriter<'_>) {
        out.put("ns", self.ns.as_str());
        out.put("operation", self.name.as_str());
        out.put("shape", self.text.as_str());
        if self.shape != 0 {
            out.put("planCacheShapeHash", format!("{:08X}", self.shape).as_str());
        }
        if self.stages != 0 {
            out.put("stagesHash", format!("{:08X}", self.stages).as_str());
        }
        out.put("count", number(self.count));
        out.put("totalMicros", number(self.total_micros));
        out.put("slowestMicros", number(self.slowest_micros));
        out.put("keysExamined", number(self.keys_examined));
        out.put("docsExamined", number(self.docs_examined));
        out.put("nReturned", number(self.returned));
        out.put("sortsInMemory", self.sorts);
        out.array("plans", |out| self.plans.iter().for_each(|plan| out.push(plan.as_str())));
        out.array("appNames", |out| self.apps.iter().for_each(|app| out.push(app.as_str())));
        out.put("lastMs", self.last_ms);
    }
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A command as text: its query with `?` instead of values, and the names of a pipeline's stages. One that was cut has
/// only these.
pub(super) fn text(name: &str, command: Doc<'_>) -> String {
    let mut text = Query::of(name, "", command).map_or_else(String::new, |query| query.text());
    if let Value::Array(pipeline) = command.get("pipeline") {
        if !text.is_empty() {
            text.push_str(" | ");
        }
        text.push_str(&stages(pipeline));
    }
    text
}

/// A hash of what [`text`] names of a pipeline, or of the field of a `distinct`, so that a row has one text; 0 for
/// other commands. The plan's shape has only the filter and the sort at the beginning.
pub(super) fn stages_hash(command: Doc<'_>) -> u32 {
    // Clients choose the names. The rows live as long as the process, and so do the keys.
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let mut hasher = KEYS.build_hasher();
    match (command.get("pipeline"), command.get("key")) {
        (Value::Array(pipeline), _) => {
            stage_names(pipeline).take(STAGES_NAMED_MAX).for_each(|name| name.hash(&mut hasher));
            stage_names(pipeline).nth(STAGES_NAMED_MAX).is_some().hash(&mut hasher);
        }
        (_, Value::String(path)) if command.element("distinct").is_some() => path.hash(&mut hasher),
        _ => return 0,
    }
    (hasher.finish() as u32).max(1)
}

fn stage_names(pipeline: Array<'_>) -> impl Iterator<Item = &str> {
    pipeline.iter().map(|stage| stage.as_doc().and_then(|d| d.first()).map_or("?", |e| e.name()))
}

fn stages(pipeline: Array<'_>) -> String {
    let names = stage_names(pipeline).map(str::to_owned);
    let mut names: Vec<String> = names.take(STAGES_NAMED_MAX + 1).collect();
    if names.len() > STAGES_NAMED_MAX {
        names[STAGES_NAMED_MAX] = "...".to_owned();
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    #[test]
    fn texts_have_no_values() {
        for (name, command, wanted) in [
            ("find", "{find: 'c', filter: {a: 1}, sort: {b: 1}}", "{ a: ? } sort { b: 1 }"),
            ("insert", "{insert: 'c', documents: [{a: 'secret'}]}", ""),
            (
                "aggregate",
                "{aggregate: 'c', pipeline: [{$match: {a: 'secret'}}, {$group: {_id: 'secret'}}]}",
                "{ a: ? } | $match, $group",
            ),
            ("aggregate", "{aggregate: 1, pipeline: [5, {}]}", "{} | ?, ?"),
        ] {
            assert_eq!(text(name, json::parse(command).unwrap().as_doc()), wanted, "{command}");
        }
        let many = format!("{{pipeline: [{}]}}", "{$set: {}}, ".repeat(40));
        let many = text("aggregate", json::parse(&many).unwrap().as_doc());
        assert!(many.ends_with("$set, ..."), "{many}");
    }

    /// A getMore knows only the cut form of a long command, and belongs to its row.
    #[test]
    fn a_cut_pipeline_has_the_same_stages() {
        let long = "x".repeat(5000);
        for count in [1, 11, 12, 13, 40] {
            let more = "{$set: {a: 1}}, 5, {}, ".repeat(count);
            let whole =
                format!("{{aggregate: 'c', pipeline: [{{$match: {{a: '{long}'}}}}, {more}]}}");
            let whole = json::parse(&whole).unwrap();
            let mut cut = Vec::new();
            crate::printable::write_cut(&mut cut, whole.as_doc());
            let cut = Doc::parse(&cut).unwrap();
            assert!(cut.len() < 2000, "{cut}");
            assert_eq!(stages_hash(cut), stages_hash(whole.as_doc()), "{count}");
            let names = text("aggregate", cut);
            assert!(names.starts_with("$match, $set, ?, ?"), "{names}");
            let all = text("aggregate", whole.as_doc());
            assert_eq!(all.strip_prefix("{ a: ? } | "), Some(names.as_str()));
        }
    }
}
