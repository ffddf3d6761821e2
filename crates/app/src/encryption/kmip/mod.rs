//! A client of KMIP servers, which keep keys: makes a symmetric key, activates it, reads it and its state.
//!
//! Each request is one connection and one message with one operation, at the start of the server only. What a server
//! sends is bounded in size and time, and items that are not asked for are skipped.

mod answer;
mod connection;
mod ttlv;

use std::time::Duration;

use nagi_encryption::MasterKey;
use nagi_tls::{ClientFiles, Connector};
use zeroize::Zeroizing;

use crate::options::KmipOptions;
use answer::{ACTIVATE, AES, CREATE, GET, GET_ATTRIBUTES, KEY_BITS};
use connection::exchange;
use ttlv::{Writer, tag};

/// The time between attempts.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const SYMMETRIC_KEY: u32 = 2;

/// Encrypt and decrypt.
const USAGE: u32 = 4 | 8;

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
    answer::key(&answer, id)
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
    let id = answer::id(&answer)?;
    log::info!(target: "STORAGE", id = 8_200_204, kmipKeyId = id; "The KMIP server has made a key");
    if options.activates {
        ask(options, ACTIVATE, |payload| {
            payload.text(tag::UNIQUE_IDENTIFIER, id);
        })?;
    }
    get(options, id)
}

fn check_state(options: &KmipOptions, id: &str) -> Result<(), String> {
    let answer = ask(options, GET_ATTRIBUTES, |payload| {
        payload.text(tag::UNIQUE_IDENTIFIER, id).text(tag::ATTRIBUTE_NAME, "State");
    })?;
    answer::check_state(&answer, id)
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
                Ok(answer) => return answer::payload(&answer, operation),
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

    #[test]
    fn files_are_read_before_a_server_is_asked() {
        let error = create(&options()).unwrap_err();
        assert!(error.contains("security.kmip.serverCAFile /no/such/file: "), "{error}");
        assert!(!error.contains("no KMIP server answers"), "{error}");
        let files = ClientFiles { allow_invalid_certificates: true, ..ClientFiles::default() };
        let refused = exchange(&options(), "127.0.0.1", &Connector::new(&files).unwrap(), &[]);
        assert!(refused.unwrap_err().contains("refused"));
    }

    #[test]
    fn a_request_has_the_version_and_one_operation() {
        let bytes = request(&options(), GET, |payload| {
            payload.text(tag::UNIQUE_IDENTIFIER, "7");
        });
        let message = ttlv::Items::of(&bytes).structure(tag::REQUEST_MESSAGE).unwrap();
        let item = message.structure(tag::BATCH_ITEM).unwrap();
        assert_eq!(item.enumeration(tag::OPERATION), Some(GET));
        let payload = item.structure(tag::REQUEST_PAYLOAD).unwrap();
        assert_eq!(payload.text(tag::UNIQUE_IDENTIFIER), Some("7"));
    }
}
