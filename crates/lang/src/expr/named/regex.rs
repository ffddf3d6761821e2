//! `$regexFind`, `$regexFindAll`, `$regexMatch`. Positions are counted in code points.
use std::borrow::Cow;

use super::prelude::*;
use crate::regex::{Matches, Pattern};
use nagi_bson::DocWriter;

pub(super) static OPS: &[Named] = &[
    Named { name: "$regexFind", eval: find, ..REGEX },
    Named { name: "$regexFindAll", eval: find_all, ..REGEX },
    Named { name: "$regexMatch", eval: is_match, ..REGEX },
];

const REGEX: Named = Named {
    name: "",
    params: &[("input", Some(31022)), ("regex", Some(31023)), ("options", None)],
    not_object: 51103,
    unknown: 31024,
    short: None,
    eval: find,
};

/// A compiled pattern. It is compiled once per plan if it is constant.
struct Compiled<'a>(Cow<'a, Prepared>);

impl Compiled<'_> {
    fn get(&self) -> Result<&Pattern> {
        match self.0.as_ref() {
            Prepared::Pattern(pattern) => Ok(pattern),
            Prepared::Zone(_) => Err(Error::bug("a regular expression operator holds a zone")),
        }
    }
}

/// Evaluates the text and the pattern; none if either is null.
fn operands<'a>(given: &Given<'a, '_>) -> Result<Option<(&'a str, Compiled<'a>)>> {
    let (input, regex, options) = (given.value(0)?, given.value(1)?, given.value(2)?);
    let text = match input {
        Value::String(text) => Some(text),
        value if value.is_nullish() => None,
        _ => bail!(Code::Location(51104), "{} needs 'input' to be of type string", given.name),
    };
    let (pattern, own) = match regex {
        Value::String(pattern) => (Some(pattern), ""),
        Value::Regex(regex) => (Some(regex.pattern()), regex.options()),
        value if value.is_nullish() => (None, ""),
        _ => bail!(
            Code::Location(51105),
            "{} needs 'regex' to be of type string or regex",
            given.name
        ),
    };
    let options = match options {
        Value::String(_) if !own.is_empty() => bail!(
            Code::Location(51107),
            "{}: found regex option(s) specified in both 'regex' and 'option' fields",
            given.name
        ),
        Value::String(options) => options,
        value if value.is_nullish() => own,
        _ => bail!(Code::Location(51106), "{} needs 'options' to be of type string", given.name),
    };
    let (Some(text), Some(pattern)) = (text, pattern) else {
        return Ok(None);
    };
    if pattern.contains('\0') {
        bail!(
            Code::Location(51109),
            "{}: regular expression cannot contain an embedded null byte",
            given.name
        );
    }
    if options.contains('\0') {
        bail!(
            Code::Location(51110),
            "{}: regular expression options cannot contain an embedded null byte",
            given.name
        );
    }
    let compile = || compile(given.name, pattern, options).map(Prepared::Pattern);
    let constant = given.is_constant(1) && given.is_constant(2);
    Ok(Some((text, Compiled(given.prepared(constant, compile)?))))
}

fn compile(name: &str, pattern: &str, options: &str) -> Result<Pattern> {
    Pattern::new(pattern, options).map_err(|error| {
        let code = if error.code().0 == 51091 { Code::Location(51111) } else { error.code() };
        Error::new(code, format!("Invalid Regex in {name}: {}", error.message()))
    })
}

fn is_match<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    match operands(given)? {
        Some((text, pattern)) => Ok(Value::Bool(pattern.get()?.is_match(text)?)),
        None => Ok(Value::Bool(false)),
    }
}

fn find<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let Some((text, pattern)) = operands(given)? else {
        return Ok(Value::Null);
    };
    let mut matches = pattern.get()?.matches(text);
    if !matches.advance()? {
        return Ok(Value::Null);
    }
    given.cx.doc(|out| {
        write(&matches, points(text, 0, matches.start()), out);
        Ok(())
    })
}

fn find_all<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let Some((text, pattern)) = operands(given)? else {
        return given.cx.array_of(&[]);
    };
    let mut matches = pattern.get()?.matches(text);
    given.cx.array(|out| {
        // The count of code points continues from match to match.
        let (mut at, mut index) = (0, 0);
        while matches.advance()? {
            given.cx.vars.step()?;
            index += points(text, at, matches.start());
            at = matches.start();
            out.doc(|out| write(&matches, index, out));
            given.cx.check_written(out.len())?;
        }
        Ok(())
    })
}

/// The number of code points between two byte positions.
fn points(text: &str, from: usize, to: usize) -> usize {
    text.get(from..to).map_or(0, |part| part.chars().count())
}

fn write(matches: &Matches<'_, '_>, index: usize, out: &mut DocWriter<'_>) {
    let group = |at| matches.group(at).map_or(Value::Null, Value::String);
    out.put("match", group(0));
    out.put("idx", index as i32);
    out.array("captures", |out| (1..=matches.groups()).for_each(|at| out.push(group(at))));
}
