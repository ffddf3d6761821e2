//! Untrusted bytes as a frame: every opcode is parsed, and compressed frames are decompressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nagi_wire::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, Message, decompress, frame_len, opcode};

fuzz_target!(|data: &[u8]| {
    let Some(header) = data.first_chunk::<HEADER_BYTES>() else { return };
    let Ok(length) = frame_len(header) else { return };
    assert!((HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&length));
    // The reader passes on exactly one frame, without the bytes that follow it.
    let Some(frame) = data.get(..length) else { return };
    let Ok((header, _)) = Header::split(frame) else { return };
    if header.opcode == opcode::COMPRESSED {
        let mut out = Vec::new();
        if decompress(frame, &mut out).is_ok() {
            assert!(out.len() <= MESSAGE_BYTES_MAX);
            visit(&out);
        }
    } else {
        visit(frame);
    }
});

fn visit(frame: &[u8]) {
    let Ok((_, message)) = Message::parse(frame) else { return };
    if let Message::Msg(msg) = message {
        let _ = msg.database();
        for sequence in msg.sequences() {
            for doc in sequence.docs {
                assert!(doc.as_bytes().len() >= 5);
            }
        }
    }
}
