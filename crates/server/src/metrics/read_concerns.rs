//! Read concerns of queries: `readConcernCounters`.

use nagi_bson::DocWriter;

use super::Counter;

/// Queries by the level that they ask for.
#[derive(Default)]
pub(crate) struct ReadConcernCounters {
    outside: Levels,
    in_transactions: Levels,
}

#[derive(Default)]
struct Levels {
    local: Counter,
    available: Counter,
    majority: Counter,
    linearizable: Counter,
    /// With and without `atClusterTime`.
    snapshot_at: Counter,
    snapshot: Counter,
    /// Without a level: that of `setDefaultRWConcern` applies, or "local".
    default_local: Counter,
    default_available: Counter,
    default_majority: Counter,
    implicit: Counter,
}

/// What a query asks for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) level: Option<&'a str>,
    pub(crate) has_time: bool,
    pub(crate) in_transaction: bool,
}

impl ReadConcernCounters {
    /// `default`: reads the default level that was set; called only without a level.
    pub(crate) fn count(&self, asked: Asked<'_>, default: impl FnOnce() -> Option<&'static str>) {
        let levels = if asked.in_transaction { &self.in_transactions } else { &self.outside };
        let counter = match asked.level {
            Some("local") => &levels.local,
            Some("available") => &levels.available,
            Some("majority") => &levels.majority,
            Some("linearizable") => &levels.linearizable,
            Some("snapshot") if asked.has_time => &levels.snapshot_at,
            Some("snapshot") => &levels.snapshot,
            // Other levels were refused.
            Some(_) => return,
            None => match default() {
                Some("available") => &levels.default_available,
                Some("majority") => &levels.default_majority,
                Some(_) => &levels.default_local,
                None => &levels.implicit,
            },
        };
        counter.increment();
    }

    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.doc("nonTransactionOps", |out| {
            self.outside.write_none(out);
            out.put("local", self.outside.local.get());
            out.put("available", self.outside.available.get());
            out.put("majority", self.outside.majority.get());
            self.outside.write_snapshot(out);
            out.put("linearizable", self.outside.linearizable.get());
        });
        out.doc("transactionOps", |out| {
            self.in_transactions.write_none(out);
            out.put("local", self.in_transactions.local.get());
            out.put("majority", self.in_transactions.majority.get());
            self.in_transactions.write_snapshot(out);
        });
    }
}

impl Levels {
    fn write_none(&self, out: &mut DocWriter<'_>) {
        let chosen = [
            ("local", self.default_local.get()),
            ("available", self.default_available.get()),
            ("majority", self.default_majority.get()),
        ];
        let implicit = self.implicit.get();
        out.put("none", chosen.iter().map(|(_, count)| count).sum::<i64>() + implicit);
        out.doc("noneInfo", |out| {
            out.doc("CWRC", |out| chosen.iter().for_each(|(name, count)| out.put(name, *count)));
            out.doc("implicitDefault", |out| {
                out.put("local", implicit);
                out.put("available", 0_i64);
            });
        });
    }

    fn write_snapshot(&self, out: &mut DocWriter<'_>) {
        out.doc("snapshot", |out| {
            out.put("withClusterTime", self.snapshot_at.get());
            out.put("withoutClusterTime", self.snapshot.get());
        });
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::DocBuf;

    use super::*;

    #[test]
    fn a_query_is_counted_by_its_level_or_by_the_default() {
        let counters = ReadConcernCounters::default();
        let asked = |level, in_transaction| Asked { level, has_time: false, in_transaction };
        counters.count(asked(Some("majority"), false), || unreachable!("it has a level"));
        counters.count(asked(None, false), || None);
        counters.count(asked(None, false), || Some("majority"));
        counters.count(asked(Some("snapshot"), true), || None);
        let doc = DocBuf::build(|out| counters.write(out));
        let text = nagi_bson::json::to_relaxed(doc.as_doc());
        assert!(
            text.contains(r#""none":2,"noneInfo":{"CWRC":{"local":0,"available":0,"majority":1}"#),
            "{text}"
        );
        assert!(
            text.contains(
                r#""majority":1,"snapshot":{"withClusterTime":0,"withoutClusterTime":0}"#
            ),
            "{text}"
        );
        assert!(
            text.ends_with(r#""snapshot":{"withClusterTime":0,"withoutClusterTime":1}}}"#),
            "{text}"
        );
    }
}
