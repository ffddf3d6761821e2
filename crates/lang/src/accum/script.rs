//! `$accumulator`: an accumulator whose state is computed by JavaScript functions.
//!
//! Between two calls the state is a BSON value, so that it can be spilled and merged like any other.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Array, Doc, Value, ValueBuf, ValueSlot};
use nagi_error::{Code, Error, Result, bail};

use super::spec::parsed;
use super::{Accumulator, Parsed, held_bytes};
use crate::expr::{Eval, Expr, ParseCx, Vars};
use crate::script::Function;

/// A parsed `$accumulator`.
#[derive(Debug)]
struct Spec {
    init: Arc<Function>,
    init_args: Expr,
    accumulate: Arc<Function>,
    merge: Arc<Function>,
    finalize: Option<Arc<Function>>,
}

pub(super) fn parse(_: &'static str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let Value::Doc(doc) = value else {
        bail!(
            Code::Location(4544703),
            "$accumulator expects an object as an argument; found: {}",
            value.kind().name()
        );
    };
    let (mut init, mut accumulate, mut merge, mut finalize) = (None, None, None, None);
    let (mut init_args, mut accumulate_args) = (None, None);
    for element in doc {
        let (name, value) = (element.name(), element.value());
        match name {
            "init" => init = Some(function(name, value, cx)?),
            "accumulate" => accumulate = Some(function(name, value, cx)?),
            "merge" => merge = Some(function(name, value, cx)?),
            "finalize" => finalize = Some(function(name, value, cx)?),
            "initArgs" => init_args = Some(Expr::parse(value, cx)?),
            "accumulateArgs" => accumulate_args = Some(Expr::parse(value, cx)?),
            "lang" => check_lang(value)?,
            _ => bail!(Code::Location(4544706), "$accumulator got an unexpected field: {name}"),
        }
    }
    let needed = |code, name: &str| {
        Error::new(Code::Location(code), format!("$accumulator missing required argument '{name}'"))
    };
    let spec = Spec {
        init: init.ok_or_else(|| needed(4544707, "init"))?,
        accumulate: accumulate.ok_or_else(|| needed(4544708, "accumulate"))?,
        merge: merge.ok_or_else(|| needed(4544709, "merge"))?,
        init_args: init_args.unwrap_or_else(|| Expr::constant(Value::Array(Array::EMPTY))),
        finalize,
    };
    let argument = accumulate_args.ok_or_else(|| needed(4544710, "accumulateArgs"))?;
    let spec = Arc::new(spec);
    Ok(parsed(argument, move || Scripted { spec: spec.clone(), state: None }))
}

fn function(name: &str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Arc<Function>> {
    let expr = Expr::parse(value, cx)?;
    let Some(text) = expr.as_const() else {
        bail!(Code::Location(4544701), "$accumulator '{name}' must be a constant expression");
    };
    match text {
        Value::String(text) | Value::Code(text) => Ok(Function::new(text)),
        _ => bail!(Code::Location(4544702), "$accumulator '{name}' must be a String or Code"),
    }
}

fn check_lang(value: Value<'_>) -> Result<()> {
    match value {
        Value::String("js") => Ok(()),
        Value::String(_) => {
            bail!(Code::Location(4544705), "$accumulator only supports lang: 'js'")
        }
        _ => bail!(
            Code::Location(4544704),
            "$accumulator lang must be a string; found: {}",
            value.kind().name()
        ),
    }
}

/// The state of `$accumulator`; none before `init`, and in a state that only merges.
struct Scripted {
    spec: Arc<Spec>,
    state: Option<ValueBuf>,
}

impl Scripted {
    fn value(&self) -> Value<'_> {
        self.state.as_ref().map_or(Value::Null, ValueBuf::value)
    }
}

impl Accumulator for Scripted {
    fn start(&mut self, key: Value<'_>, vars: &Vars<'_>, now_ms: i64) -> Result<()> {
        let arena = Bump::new();
        // The arguments may refer to the fields of the key.
        let root = key.as_doc().unwrap_or(Doc::EMPTY);
        let value = self.spec.init_args.eval(&Eval::new(root, vars, &arena, now_ms))?;
        let Value::Array(args) = value else {
            bail!(
                Code::Location(4544711),
                "$accumulator initArgs must evaluate to an array: {value}"
            );
        };
        let args: Vec<Value<'_>> = args.iter().collect();
        self.state = Some(vars.scripts()?.call(&self.spec.init, Value::Missing, &args)?);
        Ok(())
    }

    fn add(&mut self, _: Value<'_>) -> Result<()> {
        Err(crate::script::disabled())
    }

    fn add_in(&mut self, value: Value<'_>, vars: &Vars<'_>) -> Result<()> {
        let Value::Array(items) = value else {
            bail!(
                Code::Location(4544712),
                "$accumulator accumulateArgs must evaluate to an array: {value}"
            );
        };
        let args: Vec<Value<'_>> = std::iter::once(self.value()).chain(items.iter()).collect();
        let state = vars.scripts()?.call(&self.spec.accumulate, Value::Missing, &args)?;
        self.state = Some(state);
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        if self.state.is_some() {
            return Err(crate::script::disabled());
        }
        self.state = Some(ValueBuf::new(part));
        Ok(())
    }

    fn merge_in(&mut self, part: Value<'_>, vars: &Vars<'_>) -> Result<()> {
        let Some(state) = &self.state else { return self.merge(part) };
        let args = [state.value(), part];
        self.state = Some(vars.scripts()?.call(&self.spec.merge, Value::Missing, &args)?);
        Ok(())
    }

    fn settle(&mut self, vars: &Vars<'_>) -> Result<()> {
        if let Some(finalize) = &self.spec.finalize {
            self.state = Some(vars.scripts()?.call(finalize, Value::Missing, &[self.value()])?);
        }
        Ok(())
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.put(self.value());
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        out.put(self.value());
    }

    fn bytes(&self) -> usize {
        self.state.as_ref().map_or(0, held_bytes)
    }
}
