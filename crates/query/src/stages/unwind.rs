//! `$unwind`: yields one document for each element of an array.
//!
//! A value that is not an array is treated as an array of one element. Missing, null and `[]` yield no document,
//! unless `preserveNullAndEmptyArrays` is set.

use std::sync::Arc;

use nagi_lang::expr::Deps;

use super::{
    paths::{components, value_at, write_replaced},
    prelude::*,
};
use crate::source::{Absorbed, splits_with_input};

pub(super) static UNWIND: StageSpec = StageSpec {
    name: "$unwind",
    shape: How::Fields(&[("path", How::Same), ("includeArrayIndex", How::Same)]),
    parse,
    ..StageSpec::ROW
};

/// The parameters of an unwind.
pub(crate) struct Unwind {
    pub(super) path: Box<[Box<str>]>,
    index_path: Option<Box<[Box<str>]>>,
    pub(super) preserve: bool,
}

impl Unwind {
    /// Writes one output document; without `value` the document keeps its own value.
    pub(super) fn write(
        &self,
        doc: Doc<'_>,
        value: Option<Value<'_>>,
        index: Value<'_>,
        (out, scratch): (&mut Vec<u8>, &mut Vec<u8>),
    ) {
        out.clear();
        match value {
            None => out.extend_from_slice(doc.as_bytes()),
            Some(value) => write_replaced(&mut DocWriter::new(out), doc, &self.path, value),
        }
        if let Some(path) = &self.index_path {
            std::mem::swap(out, scratch);
            out.clear();
            write_replaced(&mut DocWriter::new(out), Doc::trusted(scratch), path, index);
        }
    }

    /// The paths it may change.
    pub(super) fn changes(&self) -> Vec<String> {
        let index = self.index_path.iter().map(|path| path.join("."));
        index.chain([self.path.join(".")]).collect()
    }

    /// Its options in addition to the path, as explain shows them.
    pub(super) fn show_options(&self, out: &mut DocWriter<'_>) {
        if let Some(path) = &self.index_path {
            out.put("includeArrayIndex", &path.join("."));
        }
    }
}

struct Running {
    input: Box<dyn Source>,
    spec: Arc<Unwind>,
    /// A copy of the document being unwound, because its output spans several calls.
    held: Vec<u8>,
    /// Offset of the next element in its array; none when all are done.
    next_byte: Option<usize>,
    index: i64,
    out: Vec<u8>,
    scratch: Vec<u8>,
}

fn parse(spec: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let mut path = None;
    let mut preserve = false;
    let mut index_path = None;
    match spec {
        Value::String(text) => path = Some(text),
        Value::Doc(options) => {
            for element in options {
                match element.name() {
                    "path" => path = Some(path_option(element.value())?),
                    "preserveNullAndEmptyArrays" => preserve = preserve_option(element.value())?,
                    "includeArrayIndex" => index_path = Some(index_option(element.value())?),
                    other => bail!(
                        Code::Location(28811),
                        "unrecognized option to $unwind stage: {other}"
                    ),
                }
            }
        }
        other => bail!(
            Code::Location(15981),
            "expected either a string or an object as specification for $unwind stage, got {}",
            other.kind().name()
        ),
    }
    let path = path.unwrap_or_default();
    if path.is_empty() {
        bail!(Code::Location(28812), "no path specified to $unwind stage");
    }
    let Some(field) = path.strip_prefix('$') else {
        bail!(
            Code::Location(28818),
            "path option to $unwind stage should be prefixed with a '$': {path}"
        );
    };
    Ok(Box::new(Shared(Arc::new(Unwind {
        path: components(field)?,
        index_path: index_path.map(components).transpose()?,
        preserve,
    }))))
}

fn path_option(value: Value<'_>) -> Result<&str> {
    let Value::String(path) = value else {
        bail!(
            Code::Location(28808),
            "expected a string as the path for $unwind stage, got {}",
            value.kind().name()
        );
    };
    Ok(path)
}

fn preserve_option(value: Value<'_>) -> Result<bool> {
    let Value::Bool(preserve) = value else {
        bail!(
            Code::Location(28809),
            "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {}",
            value.kind().name()
        );
    };
    Ok(preserve)
}

fn index_option(value: Value<'_>) -> Result<&str> {
    match value {
        Value::String(path) if path.starts_with('$') => bail!(
            Code::Location(28822),
            "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {path}"
        ),
        Value::String(path) if !path.is_empty() => Ok(path),
        other => bail!(
            Code::Location(28810),
            "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got {}",
            other.kind().name()
        ),
    }
}

struct Shared(Arc<Unwind>);

impl Stage for Shared {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running::new(input, Arc::clone(&self.0)))
    }

    fn changes(&self) -> Option<Vec<String>> {
        Some(self.0.changes())
    }

    fn unwinds(&self) -> Option<&Arc<Unwind>> {
        Some(&self.0)
    }

    fn hands_on(&self, deps: &mut Deps) -> bool {
        deps.paths.insert(self.0.path.join("."));
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc("$unwind", |out| {
            let path: String = format!("${}", self.0.path.join("."));
            out.put("path", &path);
            if self.0.preserve {
                out.put("preserveNullAndEmptyArrays", true);
            }
            self.0.show_options(out);
        });
    }
}

impl Running {
    fn new(input: Box<dyn Source>, spec: Arc<Unwind>) -> Running {
        let (held, out, scratch) = (Vec::new(), Vec::new(), Vec::new());
        Running { input, spec, held, next_byte: None, index: 0, out, scratch }
    }

    fn over(&self, input: Box<dyn Source>) -> Running {
        Running::new(input, Arc::clone(&self.spec))
    }

    /// Writes one output document; without `value` the document keeps its own value.
    fn emit(&mut self, doc: Doc<'_>, value: Option<Value<'_>>, index: Value<'_>) {
        self.spec.write(doc, value, index, (&mut self.out, &mut self.scratch));
    }

    /// Moves to the next element of the current array.
    fn next_element(&mut self) -> bool {
        let Some(at) = self.next_byte.take() else { return false };
        let held = std::mem::take(&mut self.held);
        let doc = Doc::trusted(&held);
        let mut found = false;
        if let Value::Array(array) = value_at(doc, &self.spec.path) {
            let mut rest = array.elements_from(at);
            if let Some(element) = rest.next() {
                self.next_byte = Some(rest.offset());
                self.emit(doc, Some(element.value()), Value::Int64(self.index));
                self.index += 1;
                found = true;
            }
        }
        self.held = held;
        found
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        loop {
            cx.tick()?;
            if self.next_element() {
                return Ok(true);
            }
            if !self.input.advance(cx)? {
                return Ok(false);
            }
            let mut held = std::mem::take(&mut self.held);
            held.clear();
            held.extend_from_slice(self.input.doc().as_bytes());
            let doc = Doc::trusted(&held);
            let mut emitted = true;
            match value_at(doc, &self.spec.path) {
                Value::Array(array) if !array.is_empty() => {
                    (self.next_byte, self.index) = (Some(nagi_bson::Array::FIRST_OFFSET), 0);
                    emitted = false;
                }
                Value::Array(_) if self.spec.preserve => {
                    self.emit(doc, Some(Value::Missing), Value::Null);
                }
                value if value.is_nullish() || matches!(value, Value::Array(_)) => {
                    emitted = self.spec.preserve;
                    if emitted {
                        self.emit(doc, None, Value::Null);
                    }
                }
                _ => self.emit(doc, None, Value::Null),
            }
            self.held = held;
            if emitted {
                return Ok(true);
            }
        }
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        self.input.absorb(cx)
    }

    splits_with_input!();

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn meta(&self) -> Doc<'_> {
        self.input.meta()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}
