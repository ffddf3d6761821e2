//! What an answer of a KMIP server says. The server is not trusted with this process: items that are missing, twice, of
//! another type or longer than their message are errors with a text.

use nagi_encryption::MasterKey;
use zeroize::Zeroizing;

use super::ttlv::{Items, tag};

pub(super) const CREATE: u32 = 0x01;
pub(super) const GET: u32 = 0x0A;
pub(super) const GET_ATTRIBUTES: u32 = 0x0B;
pub(super) const ACTIVATE: u32 = 0x12;

pub(super) const KEY_BITS: u32 = 256;

pub(super) const AES: u32 = 3;
const RAW: u32 = 1;
const ACTIVE: u32 = 2;
/// The longest text of a server that is shown, in characters.
const TEXT_CHARS_MAX: usize = 200;
/// The names of the states of keys, from 1 on.
const STATES: [&str; 6] = [
    "pre-active",
    "active",
    "deactivated",
    "compromised",
    "destroyed",
    "destroyed and compromised",
];

/// The payload of an answer, if the operation succeeded.
pub(super) fn payload(answer: &[u8], operation: u32) -> Result<Zeroizing<Vec<u8>>, String> {
    let item = Items::of(answer).structure(tag::BATCH_ITEM);
    let item = item.ok_or("the KMIP server's answer has no result")?;
    if item.enumeration(tag::RESULT_STATUS) != Some(0) {
        let message =
            item.text(tag::RESULT_MESSAGE).map_or_else(|| "no reason is given".into(), shown);
        return Err(format!("the KMIP server refuses the {}: {message}", name_of(operation)));
    }
    if item.enumeration(tag::OPERATION) != Some(operation) {
        return Err("the KMIP server answers another request".to_owned());
    }
    let payload =
        item.structure(tag::RESPONSE_PAYLOAD).ok_or("the KMIP server's answer is empty")?;
    Ok(payload.to_bytes())
}

/// A text of the server as a log and a terminal can show it.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect()
}

/// The id of a key that the server has made, from the payload of its answer.
///
/// # Errors
/// If there is none that can be stored.
pub(super) fn id(payload: &[u8]) -> Result<&str, String> {
    let id = Items::of(payload).text(tag::UNIQUE_IDENTIFIER).filter(|id| is_name(id));
    id.ok_or_else(|| "the KMIP server has made a key without a usable id".to_owned())
}

/// The id is stored beside the keys, within a length, and shown.
fn is_name(id: &str) -> bool {
    (1..=255).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// The key `id`, from the payload of an answer.
///
/// # Errors
/// If it is another key, or no key of AES with 256 bits that is not wrapped.
pub(super) fn key(payload: &[u8], id: &str) -> Result<MasterKey, String> {
    let answer = Items::of(payload);
    if answer.text(tag::UNIQUE_IDENTIFIER) != Some(id) {
        return Err(format!("the KMIP server answers the request for the key '{id}' with another"));
    }
    let block = answer.structure(tag::SYMMETRIC_KEY).and_then(|key| key.structure(tag::KEY_BLOCK));
    let block =
        block.ok_or_else(|| format!("the KMIP server's object '{id}' is no symmetric key"))?;
    if block.enumeration(tag::KEY_FORMAT_TYPE) != Some(RAW) {
        return Err(format!(
            "the key '{id}' of the KMIP server is wrapped, or has another format than raw bytes"
        ));
    }
    // A server may leave it out.
    if block.enumeration(tag::CRYPTOGRAPHIC_ALGORITHM).is_some_and(|algorithm| algorithm != AES) {
        return Err(format!("the key '{id}' of the KMIP server is not one of AES"));
    }
    let material = block.structure(tag::KEY_VALUE).and_then(|value| value.bytes(tag::KEY_MATERIAL));
    let material = material.filter(|bytes| bytes.len() * 8 == KEY_BITS as usize);
    let material = material
        .ok_or_else(|| format!("the key '{id}' of the KMIP server has not {KEY_BITS} bits"))?;
    MasterKey::from_bytes(&material, id).map_err(|error| error.to_string())
}

/// Checks that the key `id` is active, from the payload of an answer with its attributes.
///
/// # Errors
/// If it is not, or the server does not say.
pub(super) fn check_state(payload: &[u8], id: &str) -> Result<(), String> {
    let mut attributes = Items::of(payload).structures(tag::ATTRIBUTE);
    let state = attributes.find(|one| one.text(tag::ATTRIBUTE_NAME) == Some("State"));
    let state = state.and_then(|state| state.enumeration(tag::ATTRIBUTE_VALUE));
    if state == Some(ACTIVE) {
        return Ok(());
    }
    let index = state.and_then(|state| usize::try_from(state).ok()?.checked_sub(1));
    let name = index.and_then(|index| STATES.get(index)).unwrap_or(&"unknown");
    Err(format!(
        "the key '{id}' of the KMIP server is not active, its state is: {name}; activate it there, or set \
         security.kmip.activateKeys to false"
    ))
}

fn name_of(operation: u32) -> &'static str {
    match operation {
        CREATE => "creation of a key",
        ACTIVATE => "activation of the key",
        GET_ATTRIBUTES => "request for the key's state",
        _ => "request for the key",
    }
}

#[cfg(test)]
mod tests {
    use super::super::ttlv::Writer;
    use super::*;

    fn answer(status: u32, operation: u32) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.structure(tag::BATCH_ITEM, |item| {
            item.enumeration(tag::OPERATION, operation).enumeration(tag::RESULT_STATUS, status);
            item.text(tag::RESULT_MESSAGE, "Could not locate object: 7");
            item.structure(tag::RESPONSE_PAYLOAD, |payload| {
                payload.text(tag::UNIQUE_IDENTIFIER, "7");
            });
        });
        writer.into_bytes()
    }

    #[test]
    fn answers_are_judged() {
        let found = payload(&answer(0, CREATE), CREATE).unwrap();
        assert_eq!(Items::of(&found).text(tag::UNIQUE_IDENTIFIER), Some("7"));
        for (bytes, says) in [
            (answer(1, GET), "refuses the request for the key: Could not locate object: 7"),
            (answer(0, ACTIVATE), "answers another request"),
            (Vec::new(), "has no result"),
            (answer(0, GET)[..40].to_vec(), "has no result"),
        ] {
            let error = payload(&bytes, GET).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    /// The text is printed at the start: it must neither move a terminal's cursor nor fill a log.
    #[test]
    fn a_servers_text_is_short_and_printable() {
        let mut writer = Writer::default();
        writer.structure(tag::BATCH_ITEM, |item| {
            item.enumeration(tag::OPERATION, GET).enumeration(tag::RESULT_STATUS, 1);
            item.text(tag::RESULT_MESSAGE, &format!("no\x1b[2J\n{}", "x".repeat(60_000)));
        });
        let error = payload(&writer.into_bytes(), GET).unwrap_err();
        assert!(error.contains(": no[2Jxxx") && error.len() < 300, "{}", error.len());
        assert!(!error.contains(char::is_control));
    }

    fn key_answer(id: &str, algorithm: u32) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.text(tag::UNIQUE_IDENTIFIER, id);
        writer.structure(tag::SYMMETRIC_KEY, |key| {
            key.structure(tag::KEY_BLOCK, |block| {
                block.enumeration(tag::KEY_FORMAT_TYPE, RAW);
                block.enumeration(tag::CRYPTOGRAPHIC_ALGORITHM, algorithm);
            });
        });
        writer.into_bytes()
    }

    #[test]
    fn another_key_is_not_taken() {
        for (bytes, says) in [
            (key_answer("8", AES), "with another"),
            (key_answer("7", 2), "is not one of AES"),
            (key_answer("7", AES), "has not 256 bits"),
        ] {
            let error = key(&bytes, "7").unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn ids_can_be_stored_and_shown() {
        assert!(is_name("abc-1") && !is_name("") && !is_name("a\nb") && !is_name(&"x".repeat(256)));
    }
}
