//! `$_internalJsReduce`: reduces the values of a key of a `mapReduce` to one value, with a JavaScript function.
//!
//! The values are reduced whenever many have accumulated; a reduce function must support this. A single value is not
//! reduced.

use std::sync::Arc;

use nagi_bson::{ArrayBuf, Doc, Value, ValueBuf, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::spec::parsed;
use super::{Accumulator, Parsed, held_bytes};
use crate::expr::{Expr, ParseCx, Vars};
use crate::script::{self, Function};

/// The number of values at which they are reduced to one.
const VALUES_MAX: usize = 1000;
/// The size in bytes at which they are reduced to one.
const VALUES_BYTES_MAX: usize = 1 << 20;
/// The maximal size in bytes of the values for one call of the function: that of a document.
const CALL_BYTES_MAX: usize = 16 << 20;

pub(super) fn parse(name: &'static str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let Value::Doc(doc) = value else {
        bail!(
            Code::Location(31326),
            "{name} requires a document argument, but found {}",
            value.kind().name()
        );
    };
    let (mut reduce, mut data) = (None, None);
    for element in doc {
        match (element.name(), element.value()) {
            ("eval", Value::String(text) | Value::Code(text)) => reduce = Some(Function::new(text)),
            ("eval", other) => bail!(
                Code::Location(31244),
                "{name} requires the 'eval' argument to be of type string, or code but found {}",
                other.kind().name()
            ),
            ("data", data_of) => data = Some(Expr::parse(data_of, cx)?),
            (field, other) => bail!(
                Code::Location(31243),
                "Invalid argument specified to {name}: {field}: {other}"
            ),
        }
    }
    let Some(reduce) = reduce.filter(|reduce| !reduce.text().is_empty()) else {
        bail!(Code::Location(31245), "{name} requires 'eval' argument, received input: {value}");
    };
    let Some(data) = data else {
        bail!(Code::Location(31349), "{name} requires 'data' argument, received input: {value}");
    };
    Ok(parsed(data, move || Reduction {
        name,
        reduce: reduce.clone(),
        key: None,
        values: Vec::new(),
        bytes: 0,
    }))
}

struct Reduction {
    name: &'static str,
    reduce: Arc<Function>,
    key: Option<ValueBuf>,
    values: Vec<ValueBuf>,
    bytes: usize,
}

impl Reduction {
    fn key(&self) -> Value<'_> {
        self.key.as_ref().map_or(Value::Null, ValueBuf::value)
    }

    fn push(&mut self, value: Value<'_>) {
        let value = ValueBuf::new(value);
        self.bytes += held_bytes(&value);
        self.values.push(value);
    }

    /// The key and the value of `{k, v}`.
    fn pair<'v>(&self, value: Value<'v>) -> Result<(Value<'v>, Value<'v>)> {
        let Value::Doc(data) = value else {
            bail!(
                Code::Location(31242),
                "{} requires a document argument, but found {}",
                self.name,
                value.kind().name()
            );
        };
        let (key, of_key) = (data.get("k"), data.get("v"));
        if key.is_missing() || of_key.is_missing() || data.count() != 2 {
            bail!(
                Code::Location(31251),
                "{} requires the 'data' argument to have a 'k' and 'v' field. Instead found{value}",
                self.name
            );
        }
        Ok((key, of_key))
    }

    fn take_key(&mut self, key: Value<'_>) {
        if self.key.as_ref().is_none_or(|known| known.value() != key) {
            self.key = Some(ValueBuf::new(key));
        }
    }

    /// Reduces the current values to one, with as many calls as necessary.
    fn reduce(&mut self, vars: &Vars<'_>) -> Result<()> {
        while self.values.len() > 1 {
            let mut bytes = 0;
            let given = self.values.iter().take_while(|value| {
                bytes += held_bytes(value);
                bytes <= CALL_BYTES_MAX
            });
            let count = given.count();
            if count < 2 {
                bail!(Code::Location(31392), "Value too large to reduce");
            }
            let rest = self.values.split_off(count);
            let given = ArrayBuf::build(|out| {
                self.values.iter().for_each(|value| out.push(value.value()));
            });
            let one = vars.scripts()?.reduce(&self.reduce, self.key(), given.as_array())?;
            if let Value::Array(_) = one.value() {
                bail!(Code::Location(10075), "reduce -> multiple not supported yet");
            }
            self.values.clear();
            self.values.push(one);
            self.values.extend(rest);
            self.bytes = self.values.iter().map(held_bytes).sum();
        }
        Ok(())
    }

    fn reduce_many(&mut self, vars: &Vars<'_>) -> Result<()> {
        let many = self.values.len() >= VALUES_MAX || self.bytes > VALUES_BYTES_MAX;
        if many { self.reduce(vars) } else { Ok(()) }
    }
}

impl Accumulator for Reduction {
    fn add(&mut self, _: Value<'_>) -> Result<()> {
        Err(script::disabled())
    }

    fn add_in(&mut self, value: Value<'_>, vars: &Vars<'_>) -> Result<()> {
        if value.is_missing() {
            return Ok(());
        }
        let (key, of_key) = self.pair(value)?;
        self.take_key(key);
        self.push(of_key);
        self.reduce_many(vars)
    }

    /// Merges `{k: key, v: [values]}`.
    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        let part = part.as_doc().unwrap_or(Doc::EMPTY);
        if let Value::Array(values) = part.get("v") {
            self.take_key(part.get("k"));
            values.iter().for_each(|value| self.push(value));
        }
        Ok(())
    }

    fn merge_in(&mut self, part: Value<'_>, vars: &Vars<'_>) -> Result<()> {
        self.merge(part)?;
        self.reduce_many(vars)
    }

    fn settle(&mut self, vars: &Vars<'_>) -> Result<()> {
        self.reduce(vars)
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.doc(|out| {
            if !self.values.is_empty() {
                out.put("k", self.key());
                out.array("v", |out| self.values.iter().for_each(|value| out.push(value.value())));
            }
        });
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        out.put(self.values.first().map_or(Value::Null, ValueBuf::value));
    }

    fn bytes(&self) -> usize {
        self.bytes + self.key.as_ref().map_or(0, held_bytes)
    }
}
