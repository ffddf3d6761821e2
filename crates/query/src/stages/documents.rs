//! `$documents`: a pipeline over documents given in the stage.

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

/// The expression that yields the array, and the specification for explain.
struct Documents {
    expr: Arc<Expr>,
    text: DocBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let expr = Arc::new(Expr::parse(spec, &mut cx.lang())?);
    Ok(Box::new(Documents { expr, text: DocBuf::build(|w| w.put("$documents", spec)) }))
}

impl Stage for Documents {
    fn begins_with(&self) -> Option<super::Use> {
        None
    }

    fn open(&self, _: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { expr: self.expr.clone(), docs: None, next: 0 })
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
