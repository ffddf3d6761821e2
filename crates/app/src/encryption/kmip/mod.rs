//! A client of KMIP servers, which keep keys: makes a symmetric key, activates it, reads it and its state.
//!
//! Each request is one connection and one message with one operation, at the start of the server only. What a server
//! sends is bounded in size and time, and items that are not asked for are skipped.

mod connection;
mod ttlv;

use std::time::Duration;

use nagi_encryption::MasterKey;
use nagi_tls::{ClientFiles, Connector};
use zeroize::Zeroizing;

use crate::options::KmipOptions;
use connection::exchange;
use ttlv::{Items, Writer, tag};

/// The time between attempts.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const CREATE: u32 = 0x01;
const GET: u32 = 0x0A;
const GET_ATTRIBUTES: u32 = 0x0B;
const ACTIVATE: u32 = 0x12;

const SYMMETRIC_KEY: u32 = 2;
const AES: u32 = 3;
const KEY_BITS: u32 = 256;
/// Encrypt and decrypt.
const USAGE: u32 = 4 | 8;
const RAW: u32 = 1;
const ACTIVE: u32 = 2;
/// The names of the states of keys, from 1 on.
const STATES: [&str; 6] = [
    "pre-active",
    "active",
    "deactivated",
    "compromised",
    "destroyed",
    "destroyed and compromised",
];

/// Reads a key.
///
/// # Errors
/// If no server answers, or the key does not exist, is not active or is no key of 256 bits.
pub(super) fn get(options: &KmipOptions, id: &str) -> Result<MasterKey, String> {
    if options.activates {
        check_state(options, id)?;
    }
    let answer = ask(options, GET, |payload| {
        payload.text(tag::UNIQUE_IDENTIFIER, id);
    })?;
    key_of(Items::of(&answer), id)
}

/// The key in the answer to the request for it.
fn key_of(answer: Items<'_>, id: &str) -> Result<MasterKey, String> {
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

/// Lets the server make a key, and reads it.
///
/// # Errors
/// If no server answers, or the server refuses.
pub(super) fn create(options: &KmipOptions) -> Result<MasterKey, String> {
    let answer = ask(options, CREATE, |payload| {
        payload.enumeration(tag::OBJECT_TYPE, SYMMETRIC_KEY);
        payload.structure(tag::TEMPLATE_ATTRIBUTE, |template| {
            let attribute = |template: &mut Writer, name: &str, write: &dyn Fn(&mut Writer)| {
                template.structure(tag::ATTRIBUTE, |attribute| {
                    attribute.text(tag::ATTRIBUTE_NAME, name);
                    write(attribute);
                });
            };
            let value = tag::ATTRIBUTE_VALUE;
            attribute(template, "Cryptographic Algorithm", &|to| {
                to.enumeration(value, AES);
            });
            attribute(template, "Cryptographic Length", &|to| {
                to.integer(value, KEY_BITS);
            });
            attribute(template, "Cryptographic Usage Mask", &|to| {
                to.integer(value, USAGE);
            });
        });
    })?;
    let id = Items::of(&answer).text(tag::UNIQUE_IDENTIFIER).filter(|id| is_name(id));
    let id = id.ok_or("the KMIP server has made a key without a usable id")?;
    log::info!(target: "STORAGE", id = 8_200_204, kmipKeyId = id; "The KMIP server has made a key");
    if options.activates {
        ask(options, ACTIVATE, |payload| {
            payload.text(tag::UNIQUE_IDENTIFIER, id);
        })?;
    }
    get(options, id)
}

/// The id is stored beside the keys, within a length, and shown.
fn is_name(id: &str) -> bool {
    (1..=255).contains(&id.len()) && !id.chars().any(char::is_control)
}

fn check_state(options: &KmipOptions, id: &str) -> Result<(), String> {
    let answer = ask(options, GET_ATTRIBUTES, |payload| {
        payload.text(tag::UNIQUE_IDENTIFIER, id).text(tag::ATTRIBUTE_NAME, "State");
    })?;
    let mut attributes = Items::of(&answer).structures(tag::ATTRIBUTE);
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

/// Sends a request to the first server that answers; returns the payload of its answer.
fn ask(
    options: &KmipOptions,
    operation: u32,
    payload: impl Fn(&mut Writer),
) -> Result<Zeroizing<Vec<u8>>, String> {
    let request = request(options, operation, payload);
    // Before a connection, whose failure would hide the file's, and which would not be tried again with success.
    let connector = Connector::new(&ClientFiles {
        ca_file: Some(options.ca_file.clone()),
        certificate_key_file: options.certificate_file.clone(),
        certificate_key_password: options.password.clone(),
        ..ClientFiles::default()
    })
    .map_err(|why| {
        format!("a file for the connection to the KMIP server: {}", in_own_words(&why))
    })?;
    let mut failures = Vec::new();
    for attempt in 0..=options.retries {
        if attempt > 0 {
            std::thread::sleep(RETRY_AFTER);
        }
        failures.clear();
        for server in &options.servers {
            match exchange(options, server, &connector, &request) {
                Ok(answer) => return payload_of(&answer, operation),
                Err(error) => failures.push(format!("{server}:{}: {error}", options.port)),
            }
        }
    }
    Err(format!("no KMIP server answers: {}", failures.join("; ")))
}

fn request(options: &KmipOptions, operation: u32, payload: impl Fn(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.structure(tag::REQUEST_MESSAGE, |message| {
        message.structure(tag::REQUEST_HEADER, |header| {
            header.structure(tag::PROTOCOL_VERSION, |version| {
                let minor = if options.is_legacy { 0 } else { 2 };
                version.integer(tag::VERSION_MAJOR, 1).integer(tag::VERSION_MINOR, minor);
            });
            header.integer(tag::BATCH_COUNT, 1);
        });
        message.structure(tag::BATCH_ITEM, |item| {
            item.enumeration(tag::OPERATION, operation);
            item.structure(tag::REQUEST_PAYLOAD, &payload);
        });
    });
    writer.into_bytes()
}

/// The names of the options of KMIP for those of a connection string.
fn in_own_words(error: &str) -> String {
    let error = error.replace("tlsCertificateKeyFile ", "security.kmip.clientCertificateFile ");
    error.replace("tlsCAFile ", "security.kmip.serverCAFile ")
}

/// The payload of an answer, if the operation succeeded.
fn payload_of(answer: &[u8], operation: u32) -> Result<Zeroizing<Vec<u8>>, String> {
    let item = Items::of(answer).structure(tag::BATCH_ITEM);
    let item = item.ok_or("the KMIP server's answer has no result")?;
    if item.enumeration(tag::RESULT_STATUS) != Some(0) {
        let message = item.text(tag::RESULT_MESSAGE).unwrap_or("no reason is given");
        return Err(format!("the KMIP server refuses the {}: {message}", name_of(operation)));
    }
    if item.enumeration(tag::OPERATION) != Some(operation) {
        return Err("the KMIP server answers another request".to_owned());
    }
    let payload =
        item.structure(tag::RESPONSE_PAYLOAD).ok_or("the KMIP server's answer is empty")?;
    Ok(payload.to_bytes())
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
    use std::path::PathBuf;

    use super::*;

    fn options() -> KmipOptions {
        KmipOptions {
            servers: vec!["127.0.0.1".to_owned()],
            port: 1,
            certificate_file: None,
            password: None,
            ca_file: PathBuf::from("/no/such/file"),
            key_id: None,
            retries: 0,
            timeout: Duration::from_millis(200),
            activates: true,
            rotates: false,
            is_legacy: false,
        }
    }

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
        let payload = payload_of(&answer(0, CREATE), CREATE).unwrap();
        assert_eq!(Items::of(&payload).text(tag::UNIQUE_IDENTIFIER), Some("7"));
        for (bytes, says) in [
            (answer(1, GET), "refuses the request for the key: Could not locate object: 7"),
            (answer(0, ACTIVATE), "answers another request"),
            (Vec::new(), "has no result"),
            (answer(0, GET)[..40].to_vec(), "has no result"),
        ] {
            let error = payload_of(&bytes, GET).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
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
            let error = key_of(Items::of(&bytes), "7").unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn files_are_read_before_a_server_is_asked() {
        let error = create(&options()).unwrap_err();
        assert!(error.contains("security.kmip.serverCAFile /no/such/file: "), "{error}");
        assert!(!error.contains("no KMIP server answers"), "{error}");
        let files = ClientFiles { allow_invalid_certificates: true, ..ClientFiles::default() };
        let refused = exchange(&options(), "127.0.0.1", &Connector::new(&files).unwrap(), &[]);
        assert!(refused.unwrap_err().contains("refused"));
        assert!(is_name("abc-1") && !is_name("") && !is_name("a\nb") && !is_name(&"x".repeat(256)));
    }

    #[test]
    fn a_request_has_the_version_and_one_operation() {
        let bytes = request(&options(), GET, |payload| {
            payload.text(tag::UNIQUE_IDENTIFIER, "7");
        });
        let message = Items::of(&bytes).structure(tag::REQUEST_MESSAGE).unwrap();
        let item = message.structure(tag::BATCH_ITEM).unwrap();
        assert_eq!(item.enumeration(tag::OPERATION), Some(GET));
        let payload = item.structure(tag::REQUEST_PAYLOAD).unwrap();
        assert_eq!(payload.text(tag::UNIQUE_IDENTIFIER), Some("7"));
    }
}
