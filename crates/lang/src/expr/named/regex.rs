//! `$regexFind`, `$regexFindAll`, `$regexMatch`: positions are counted in code points.
use std::borrow::Cow;

use super::prelude::*;
use crate::expr::room::check_size;
use crate::regex::Pattern;
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

/// A pattern, compiled once if it is constant.
struct Compiled<'a>(Cow<'a, Prepared>);

impl Compiled<'_> {
    fn get(&self) -> Result<&Pattern> {
        match self.0.as_ref() {
            Prepared::Pattern(pattern) => Ok(pattern),
            Prepared::Zone(_) => Err(Error::bug("a regular expression operator holds a zone")),
        }
    }
}

/// The text and the compiled pattern; none if either is null.
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
    let pattern = pattern.get()?;
    let found = pattern.code().captures(text.as_bytes()).map_err(|e| pattern.failed(&e))?;
    match found {
        None => Ok(Value::Null),
        Some(captures) => given.cx.doc(|out| {
            write_match(text, &captures, 0, out);
            Ok(())
        }),
    }
}

/// Bytes that may be looked at for all matches of one text. The library checks the rest of the text anew for
/// each match, so that many matches in a long text take time that grows with the square: seconds here.
const SCANNED_BYTES_MAX: u64 = 8 << 30;

fn find_all<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let Some((text, pattern)) = operands(given)? else {
        return given.cx.array_of(&[]);
    };
    let pattern = pattern.get()?;
    given.cx.array(|out| {
        // Code points are counted on from match to match.
        let (mut at, mut points, mut scanned) = (0, 0, 0);
        for captures in pattern.code().captures_iter(text.as_bytes()) {
            let captures = captures.map_err(|e| pattern.failed(&e))?;
            scanned += (text.len() - at) as u64;
            if scanned > SCANNED_BYTES_MAX {
                bail!(
                    Code::Location(51156),
                    "Error occurred while executing the regular expression /{}/: match limit exceeded",
                    pattern.pattern()
                );
            }
            let start = captures.get(0).map_or(at, |m| m.start());
            points += text.get(at..start).map_or(0, |part| part.chars().count());
            at = start;
            out.doc(|out| write_at(text, &captures, points, out));
            check_size(out.len())?;
        }
        Ok(())
    })
}

fn write_match(
    text: &str,
    captures: &pcre2::bytes::Captures<'_>,
    from: usize,
    out: &mut DocWriter<'_>,
) {
    let start = captures.get(0).map_or(from, |m| m.start());
    let points = text.get(from..start).map_or(0, |part| part.chars().count());
    write_at(text, captures, points, out);
}

fn write_at(
    text: &str,
    captures: &pcre2::bytes::Captures<'_>,
    points: usize,
    out: &mut DocWriter<'_>,
) {
    let part = |index: usize| match captures.get(index) {
        Some(m) => Value::String(text.get(m.start()..m.end()).unwrap_or("")),
        None => Value::Null,
    };
    out.put("match", part(0));
    out.put("idx", points as i32);
    out.array("captures", |out| (1..captures.len()).for_each(|at| out.push(part(at))));
}
