//! Explains writes to a time series: the plan over its buckets, below the stage that changes them.
//!
//! ```text
//!   UPDATE, DELETE    of whole buckets: the condition names only metadata
//!   TS_MODIFY         of measurements: buckets that may have some are unpacked
//! ```

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::Result;
use nagi_lang::filter::Filter;
use nagi_store::Collection;
use nagi_timeseries::{
    Options,
    bucket::{Shape as BucketShape, Unpacker},
};

use super::{Explained, Run, Subject, Top};
use crate::{
    conditions::buckets::{hinted_key_of, on_meta},
    plan::{self, FindSpec, Hint},
    source::{Cx, Source, renew},
    write::{self, Selection},
};

/// What a write to measurements looks for in its buckets.
pub(super) struct Measured {
    pub(super) filter: Arc<Filter>,
    options: Options,
}

/// What it found.
#[derive(Default)]
pub(super) struct Unpacked {
    pub(super) buckets: u64,
    pub(super) matched: u64,
}

impl Run<'_> {
    /// The subject of a write to the time series with these buckets; none for a command that does not write.
    pub(super) fn series<'a>(
        &self,
        explained: &Explained<'_>,
        buckets: &'a Arc<Collection>,
    ) -> Result<Option<Subject<'a>>> {
        let collation = |asked| match asked {
            nagi_lang::collation::Asked::Given(given) => given,
            nagi_lang::collation::Asked::Inherited => buckets.options.collation,
        };
        match explained {
            Explained::Update(_, statement) => {
                let top = Top::Update { multi: true, upsert: false, express: false };
                let mut subject = None;
                write::with_series_update(buckets, statement, self.env, &mut |prepared| {
                    subject = Some(self.on_buckets(buckets, prepared.selection, top, None)?);
                    Ok(())
                })?;
                Ok(subject)
            }
            Explained::Delete(_, statement) => {
                let selection =
                    write::prepare_delete(statement, collation(statement.collation), self.env)?;
                self.delete_of_series(buckets, selection, statement.multi).map(Some)
            }
            Explained::FindAndModify(request) => {
                request.check()?;
                write::refuse_of_series(request)?;
                let collation = collation(request.collation);
                let prepared = write::prepare_update(&request.statement(), collation, self.env)?;
                self.delete_of_series(buckets, prepared.selection, false).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn delete_of_series<'a>(
        &self,
        buckets: &'a Arc<Collection>,
        selection: Selection<'_>,
        multi: bool,
    ) -> Result<Subject<'a>> {
        let Some(options) = &buckets.options.timeseries else {
            return Err(nagi_error::Error::bug("buckets without a time series"));
        };
        let asked = selection.filter.clone();
        let key = hinted_key_of(options, selection.hint)?;
        let filter = write::filter_of_series(buckets, options, &asked);
        let whole = multi && on_meta(options, &asked).is_some();
        let (top, measured) = match whole {
            true => (Top::Delete { multi: true, express: false }, None),
            false => {
                let options = (**options).clone();
                (Top::SeriesDelete { multi }, Some(Measured { filter: asked, options }))
            }
        };
        let hint = key.as_ref().map(|key| Hint::Key(key.as_doc())).or(selection.hint);
        let selection = Selection { filter: Arc::new(filter), hint, ..selection };
        self.on_buckets(buckets, selection, top, measured)
    }

    fn on_buckets<'a>(
        &self,
        buckets: &'a Arc<Collection>,
        selection: Selection<'_>,
        top: Top,
        measured: Option<Measured>,
    ) -> Result<Subject<'a>> {
        let spec = FindSpec {
            hint: selection.hint,
            ..FindSpec::new(Some(Arc::clone(buckets)), selection.filter.clone())
        };
        let plan = self.planned(&selection.lets, |cx| plan::plan(&spec, cx))?;
        let filter = selection.filter.clone();
        let (lets, collation) = (selection.lets, selection.collation);
        let namespace = &buckets.namespace;
        Ok(Subject { namespace, filter, top, plan, lets, collation, measured })
    }
}

/// Counts the measurements that match in the buckets of a plan: all, or up to the first one.
pub(super) fn count(
    source: &mut dyn Source,
    Measured { filter, options }: &Measured,
    multi: bool,
    cx: &mut Cx<'_>,
) -> Result<Unpacked> {
    let shape = BucketShape::of(options);
    let mut found = Unpacked::default();
    let (mut measurement, mut arena) = (Vec::new(), Bump::new());
    while source.advance(cx)? {
        found.buckets += 1;
        let mut unpacker = Unpacker::new(source.doc(), &shape)?;
        while unpacker.append(&mut measurement)? {
            cx.tick()?;
            renew(&mut arena);
            let matches = filter.matches(Doc::trusted(&measurement), &cx.matching(&arena))?;
            found.matched += u64::from(matches);
            measurement.clear();
            if matches && !multi {
                return Ok(found);
            }
        }
    }
    Ok(found)
}
