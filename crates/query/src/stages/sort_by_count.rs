//! `$sortByCount`: groups by an expression and counts, most frequent first.

use std::sync::Arc;

use nagi_bson::{ValueBuf, doc};
use nagi_lang::{accum::AccumSpec, expr::Expr, sort::SortSpec};

use super::{
    group::{Group, Grouping},
    prelude::*,
    sort::Sort,
};

pub(super) static SORT_BY_COUNT: StageSpec =
    StageSpec { name: "$sortByCount", parse, ..StageSpec::ROW };

struct SortByCount {
    group: Group,
    sort: Sort,
    text: ValueBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    match spec {
        Value::Doc(doc) if doc.first().is_none_or(|e| !e.name().starts_with('$')) => bail!(
            Code::Location(40147),
            "the sortByCount field must be defined as a $-prefixed path or an expression inside \
             an object"
        ),
        Value::String(text) if !text.starts_with('$') => bail!(
            Code::Location(40148),
            "the sortByCount field must be defined as a $-prefixed path or an expression inside \
             an object"
        ),
        Value::Doc(_) | Value::String(_) => {}
        _ => bail!(
            Code::Location(40149),
            "the sortByCount field must be specified as a string or as an object"
        ),
    }
    let id = Expr::parse(spec, &mut cx.lang())?;
    let count = AccumSpec::parse("$sum", Value::Int32(1), &mut cx.lang())?;
    let fields = vec![("count".into(), count)];
    let grouping = Grouping {
        id,
        fields,
        allow_disk_use: cx.options.allow_disk_use,
        memory_bytes_max: cx.options.memory.group,
        collation: cx.collation,
    };
    let order = doc! { "count": -1 };
    let sort = SortSpec::parse(order.as_doc())?;
    Ok(Box::new(SortByCount {
        group: Group { grouping: Arc::new(grouping), text: DocBuf::new() },
        sort: Sort::new(Arc::new(sort), order, cx),
        text: ValueBuf::new(spec),
    }))
}

impl Stage for SortByCount {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        self.sort.open(self.group.open(input))
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$sortByCount", self.text.value());
    }

    fn needs(&self, deps: &mut nagi_lang::expr::Deps) -> bool {
        self.group.needs(deps)
    }
}
