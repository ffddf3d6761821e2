//! `$sort`: all documents in order. A following `$limit` makes it a top-k sort.

use std::sync::Arc;

use nagi_lang::{
    expr::{Deps, MetaSet},
    sort::SortSpec,
};

use super::prelude::*;
use crate::source::{self, SortLimits};

pub(super) static SORT: StageSpec =
    StageSpec { name: "$sort", shape: How::Sort, parse, ..StageSpec::ROW };

/// A parsed `$sort`.
pub(crate) struct Sort {
    pub(crate) spec: Arc<SortSpec>,
    text: DocBuf,
    allow_disk_use: bool,
    memory_bytes_max: usize,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(doc) = spec else {
        bail!(Code::Location(15973), "the $sort key specification must be an object");
    };
    let spec = parse_keys(doc, cx)?;
    if spec.is_empty() {
        bail!(Code::Location(15976), "$sort stage must have at least one sort key");
    }
    Ok(Box::new(Sort::new(Arc::new(spec), doc.to_buf(), cx)))
}

/// Parses the keys of a sort with the errors of `$sort`.
pub(super) fn parse_keys(doc: Doc<'_>, cx: &PipelineCx<'_>) -> Result<SortSpec> {
    check(doc)?;
    let spec = SortSpec::parse(whole(doc).as_doc())?.collated(cx.collation);
    cx.metas.set(cx.metas.get() | spec.metas());
    Ok(spec)
}

/// The specification with its directions as integers.
fn whole(doc: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for element in doc {
            match super::numbers::whole(element.value()) {
                Some(direction) => out.put(element.name(), direction),
                None => out.put(element.name(), element.value()),
            }
        }
    })
}

/// Checks directions with the stage's own error codes; everything else is checked by the specification.
fn check(doc: Doc<'_>) -> Result<()> {
    for element in doc {
        match element.value() {
            Value::Doc(_) => {}
            value if !value.is_number() => bail!(
                Code::Location(15974),
                "$sort key ordering must be specified using a number or {{$meta: 'textScore'}}"
            ),
            value => {
                if !matches!(super::numbers::whole(value), Some(1 | -1)) {
                    bail!(
                        Code::Location(15975),
                        "$sort key ordering must be 1 (for ascending) or -1 (for descending)"
                    );
                }
            }
        }
    }
    Ok(())
}

impl Sort {
    pub(super) fn new(spec: Arc<SortSpec>, text: DocBuf, cx: &PipelineCx<'_>) -> Sort {
        Sort {
            spec,
            text,
            allow_disk_use: cx.options.allow_disk_use,
            memory_bytes_max: cx.options.memory.sort,
        }
    }

    /// The same order, with the same limits.
    pub(super) fn same(&self) -> Sort {
        Sort { spec: self.spec.clone(), text: self.text.clone(), ..*self }
    }

    /// The memory that it may use.
    pub(super) const fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max
    }

    /// Returns true if a plan may take it over.
    pub(crate) fn is_plannable(&self) -> bool {
        self.spec.metas() == MetaSet::NONE || self.spec.metas() == MetaSet::TEXT
    }

    /// Opens a sort of which only the first `count` documents are needed.
    pub(super) fn open_limited(
        &self,
        input: Box<dyn Source>,
        count: Option<u64>,
    ) -> Box<dyn Source> {
        let limits = SortLimits {
            count,
            memory_bytes: self.memory_bytes_max,
            allow_disk_use: self.allow_disk_use,
        };
        Box::new(source::Sort::new(input, self.spec.clone(), limits))
    }
}

impl Stage for Sort {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        self.open_limited(input, None)
    }

    fn hands_on(&self, deps: &mut Deps) -> bool {
        deps.paths.extend(self.spec.parts().iter().map(|part| part.path.as_str().to_owned()));
        !self.spec.needs_meta()
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc("$sort", |out| out.put("sortKey", &self.text));
    }

    fn step(&self) -> Step<'_> {
        Step::Sort(self)
    }
}
