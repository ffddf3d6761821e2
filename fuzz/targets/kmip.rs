//! Answers of KMIP servers: valid ones with changes in their items or bytes, and any bytes.
//!
//! The client's files are compiled into this target, because the program has no library. A key is taken only if it is the
//! one that the server sent, as raw bytes of the right length, in an answer to the operation that says success.
#![no_main]

mod edits;
mod growth;

use libfuzzer_sys::fuzz_target;

/// Files of the program.
#[path = "../../crates/app/src/encryption/kmip"]
mod kmip {
    #[allow(dead_code)]
    mod answer;
    #[allow(dead_code)]
    mod ttlv;

    use answer::{ACTIVATE, CREATE, GET, GET_ATTRIBUTES};
    use ttlv::{Items, Writer, tag};

    const ID: &str = "key-1";
    const KEY: &str = "0123456789abcdef0123456789abcdef";

    /// A valid answer to an operation, as the value of its first item.
    pub fn valid(operation: u32, is_refused: bool) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.structure(tag::BATCH_ITEM, |item| {
            item.enumeration(tag::OPERATION, operation);
            item.enumeration(tag::RESULT_STATUS, u32::from(is_refused));
            if is_refused {
                item.text(tag::RESULT_MESSAGE, "Could not locate object: key-1");
            }
            item.structure(tag::RESPONSE_PAYLOAD, |payload| {
                payload.enumeration(tag::OBJECT_TYPE, 2).text(tag::UNIQUE_IDENTIFIER, ID);
                match operation {
                    GET => {
                        payload.structure(tag::SYMMETRIC_KEY, key);
                    }
                    GET_ATTRIBUTES => {
                        payload.structure(tag::ATTRIBUTE, |attribute| {
                            attribute.text(tag::ATTRIBUTE_NAME, "State");
                            attribute.enumeration(tag::ATTRIBUTE_VALUE, 2);
                        });
                    }
                    _ => {}
                }
            });
        });
        let mut bytes = writer.into_bytes();
        // The client writes no bytes, so the key was written as a text.
        let material = (tag::KEY_MATERIAL << 8 | 7).to_be_bytes();
        if let Some(at) = bytes.windows(4).position(|window| window == material) {
            bytes[at + 3] = 8;
        }
        bytes
    }

    fn key(key: &mut Writer) {
        key.structure(tag::KEY_BLOCK, |block| {
            block.enumeration(tag::KEY_FORMAT_TYPE, 1);
            block.structure(tag::KEY_VALUE, |value| {
                value.text(tag::KEY_MATERIAL, KEY);
            });
        });
    }

    pub const OPERATIONS: [u32; 4] = [GET, CREATE, GET_ATTRIBUTES, ACTIVATE];

    /// Judges an answer. Returns true if it is taken.
    pub fn judge(answer: &[u8], operation: u32) -> bool {
        let head = answer.first_chunk::<8>();
        if let Some(length) = head.and_then(|head| ttlv::length_of(*head, tag::BATCH_ITEM)) {
            assert_eq!(
                length,
                u32::from_be_bytes([answer[4], answer[5], answer[6], answer[7]]) as usize
            );
        }
        let taken = answer::payload(answer, operation).and_then(|payload| {
            assert!(payload.len() <= answer.len());
            match operation {
                GET => answer::key(&payload, ID).map(|made| {
                    let block = |items: Items<'_>| items.structure(tag::KEY_BLOCK).is_some();
                    assert!(Items::of(&payload).structure(tag::SYMMETRIC_KEY).is_some_and(block));
                    let debug = format!("{made:?}");
                    assert!(!debug.contains(KEY), "a key in a text: {debug}");
                }),
                CREATE => answer::id(&payload).map(|id| {
                    assert!((1..=255).contains(&id.len()) && !id.contains(char::is_control));
                }),
                GET_ATTRIBUTES => answer::check_state(&payload, ID),
                _ => Ok(()),
            }
        });
        match taken {
            Ok(()) => true,
            Err(why) => {
                assert!(!why.is_empty() && why.len() < 1200, "{}: {why}", why.len());
                assert!(!why.contains(char::is_control), "{why:?}");
                false
            }
        }
    }
}

/// The length of an item's head, and the place of its length within it.
const HEAD_BYTES: usize = 8;

fuzz_target!(|data: &[u8]| {
    let Some((kind, input)) = data.split_first() else { return };
    let operation = kmip::OPERATIONS[usize::from(kind >> 2) % 4];
    let is_refused = kind & 16 != 0;
    let valid = kmip::valid(operation, is_refused);
    match kind % 4 {
        0 => drop(kmip::judge(input, operation)),
        1 => {
            let mut bytes = valid.clone();
            edits::apply(input, &mut bytes);
            let taken = kmip::judge(&bytes, operation);
            assert!(taken != is_refused || bytes != valid, "a valid answer is judged wrongly");
        }
        2 => drop(kmip::judge(&with_changed_heads(valid, input), operation)),
        // The answer to another operation.
        _ => {
            let other = kmip::OPERATIONS[usize::from(input.first().copied().unwrap_or(0)) % 4];
            let taken = kmip::judge(&kmip::valid(other, is_refused), operation);
            assert_eq!(taken, other == operation && !is_refused);
        }
    }
    growth::check();
});

/// Changes of tags, types and lengths: two bytes each, for an item and what to do with its head.
fn with_changed_heads(mut bytes: Vec<u8>, input: &[u8]) -> Vec<u8> {
    for change in input.chunks_exact(3).take(16) {
        let heads: Vec<usize> = (0..bytes.len().saturating_sub(HEAD_BYTES))
            .step_by(8)
            .filter(|at| bytes[*at] == 0x42)
            .collect();
        let Some(at) = heads.get(usize::from(change[0]) % heads.len().max(1)).copied() else {
            break;
        };
        match change[1] % 5 {
            0 => bytes[at + 2] = change[2],
            1 => bytes[at + 3] = change[2],
            2 => bytes[at + 7] = change[2],
            3 => bytes[at + 4] = change[2],
            _ => {
                // The item twice.
                let end = (at + HEAD_BYTES + usize::from(bytes[at + 7])).next_multiple_of(8);
                let item = bytes[at..end.min(bytes.len())].to_vec();
                bytes.splice(at..at, item);
            }
        }
    }
    bytes
}
