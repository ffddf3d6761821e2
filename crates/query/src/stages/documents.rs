//! `$documents`: a pipeline over documents given in the stage, or by the caller one by one.

use std::sync::Arc;

use nagi_lang::expr::Expr;

use super::prelude::*;

pub(super) static DOCUMENTS: StageSpec = StageSpec {
    name: "$documents",
    place: Place::First,
    parse,
    facts: StageFacts { runs_on: RunsOn::Database, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

/// Documents that the caller makes when the pipeline reads them, so that not all of them are in memory at once.
pub trait Given: Send + Sync + std::fmt::Debug {
    /// The document at a position; `None` after the last one. Called once for each, in order.
    ///
    /// # Errors
    /// Those of making it.
    fn document(&self, at: usize) -> Result<Option<DocBuf>>;
}

/// The expression that yields the array, and the specification for explain.
struct Documents {
    expr: Arc<Expr>,
    text: DocBuf,
    given: Option<Arc<dyn Given>>,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let expr = Arc::new(Expr::parse(spec, &mut cx.lang())?);
    let given = cx.given.map(Arc::clone);
    Ok(Box::new(Documents { expr, text: DocBuf::build(|w| w.put("$documents", spec)), given }))
}

impl Stage for Documents {
    fn begins_with(&self) -> Option<super::Use> {
        None
    }

    fn open(&self, _: Box<dyn Source>) -> Box<dyn Source> {
        match &self.given {
            Some(given) => Box::new(OneByOne { given: given.clone(), next: 0, doc: None }),
            None => Box::new(Running { expr: self.expr.clone(), docs: None, next: 0 }),
        }
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.extend(self.text.as_doc());
    }

    fn step(&self) -> Step<'_> {
        Step::Begins
    }
}

struct Running {
    expr: Arc<Expr>,
    /// Evaluated at the first `advance`, when the variables have values.
    docs: Option<Vec<DocBuf>>,
    next: usize,
}

/// Reads what the caller gives.
struct OneByOne {
    given: Arc<dyn Given>,
    next: usize,
    doc: Option<DocBuf>,
}

impl Source for OneByOne {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        // Making one may cost far more than reading a record, so the interrupt is checked each time.
        cx.tick()?;
        cx.env.interrupt().check()?;
        self.doc = self.given.document(self.next)?;
        self.next += 1;
        Ok(self.doc.is_some())
    }

    fn doc(&self) -> Doc<'_> {
        self.doc.as_ref().map_or(Doc::EMPTY, |doc| doc.as_doc())
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}

fn evaluate(expr: &Expr, cx: &Cx<'_>) -> Result<Vec<DocBuf>> {
    let arena = Bump::new();
    let eval = cx.eval(Doc::EMPTY, &arena);
    let Value::Array(array) = expr.eval(&eval)? else {
        bail!(Code::Location(5_858_203), "an array is expected");
    };
    cx.writing(array.count() * size_of::<DocBuf>())?;
    let docs = array.iter().map(|value| match value {
        Value::Doc(doc) => cx.pass().map(|()| doc.to_buf()),
        other => bail!(
            Code::Location(40228),
            "all elements of $documents must be objects, found {}",
            other.kind().name()
        ),
    });
    docs.collect()
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        cx.tick()?;
        let docs = match &mut self.docs {
            Some(docs) => docs,
            none => none.insert(evaluate(&self.expr, cx)?),
        };
        self.next += 1;
        Ok(self.next <= docs.len())
    }

    fn doc(&self) -> Doc<'_> {
        let docs = self.docs.as_deref().unwrap_or_default();
        docs.get(self.next.wrapping_sub(1)).map_or(Doc::EMPTY, |doc| doc.as_doc())
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}
