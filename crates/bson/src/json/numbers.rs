//! Numbers: of RFC 8259, and what the shell takes.

use super::reader::{Reader, Result};
use crate::{Value, ValueSlot};

impl Reader<'_> {
    pub(super) fn begins_number(&self, c: char) -> bool {
        c.is_ascii_digit() || c == '-' || self.dialect.has_loose_numbers && matches!(c, '+' | '.')
    }

    pub(super) fn number(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        if self.dialect.has_loose_numbers {
            return self.loose_number(slot);
        }
        let rest = self.rest();
        let part = |b: u8| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E');
        let text = &rest[..rest.bytes().position(|b| !part(b)).unwrap_or(rest.len())];
        match plain_number(text) {
            Some(number) => slot.put(number),
            None => return self.fail("bad number"),
        }
        self.at += text.len();
        Ok(())
    }

    fn loose_number(&mut self, slot: ValueSlot<'_>) -> Result<()> {
        let rest = self.rest();
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let text = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        let unsigned = text.trim_start_matches(['-', '+']);
        if unsigned.is_empty() || !text.contains("Infinity") && unsigned.starts_with(['i', 'n']) {
            return self.fail("bad number");
        }
        if unsigned.bytes().all(|b| b.is_ascii_digit()) {
            match (text.parse::<i32>(), text.parse::<i64>()) {
                (Ok(n), _) => slot.put(n),
                (_, Ok(n)) => slot.put(n),
                _ => slot.put(self.read::<f64>(text)?),
            }
        } else {
            slot.put(self.read::<f64>(text)?);
        }
        self.at += text.len();
        Ok(())
    }
}

/// A number of RFC 8259; none if it is another text, or larger than a double.
fn plain_number(text: &str) -> Option<Value<'static>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_padded = digits.len() > 1
        && digits.starts_with('0')
        && !digits.starts_with("0.")
        && !digits.starts_with("0e")
        && !digits.starts_with("0E");
    let is_open = digits.ends_with('.') || digits.starts_with('.') || digits.contains(".e");
    if is_padded || is_open || digits.starts_with('+') {
        return None;
    }
    let is_whole = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    match text.parse::<i64>() {
        Ok(n) if is_whole => Some(i32::try_from(n).map_or(Value::Int64(n), Value::Int32)),
        _ => text.parse::<f64>().ok().filter(|n| n.is_finite()).map(Value::Double),
    }
}
