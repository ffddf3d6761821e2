//! Values of several parts, made from their parts.

use crate::{Value, ValueBuf, ValueSlot};

pub(super) fn put_regex(pattern: &str, options: &str, slot: ValueSlot<'_>) {
    if let Some(regex) = regex(&pattern.replace('\0', ""), &options.replace('\0', "")) {
        slot.put(regex.value());
    }
}

/// A regular expression, its options sorted; none if a text has a zero byte.
pub fn regex(pattern: &str, options: &str) -> Option<ValueBuf> {
    let mut flags: Vec<char> = options.chars().collect();
    flags.sort_unstable();
    let flags: String = flags.into_iter().collect();
    let bytes = format!("{pattern}\0{flags}\0");
    crate::Regex::from_bytes(bytes.as_bytes()).map(|regex| Value::Regex(regex).into())
}

pub(super) fn put_pointer(namespace: &str, id: &[u8; 12], slot: ValueSlot<'_>) {
    slot.put(pointer(namespace, id).value());
}

/// A DBPointer.
pub fn pointer(namespace: &str, id: &[u8; 12]) -> ValueBuf {
    let mut bytes = (namespace.len() as i32 + 1).to_le_bytes().to_vec();
    bytes.extend_from_slice(namespace.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(id);
    Value::DbPointer(crate::DbPointer(&bytes)).into()
}

pub(super) fn put_code(code: &str, scope: crate::Doc<'_>, slot: ValueSlot<'_>) {
    slot.put(code_with_scope(code, scope).value());
}

/// JavaScript code with a scope.
pub fn code_with_scope(code: &str, scope: crate::Doc<'_>) -> ValueBuf {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&(code.len() as i32 + 1).to_le_bytes());
    bytes.extend_from_slice(code.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(scope.as_bytes());
    let len = bytes.len() as i32;
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    Value::CodeWithScope(crate::CodeWithScope(&bytes)).into()
}
