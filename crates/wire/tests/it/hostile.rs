//! Random bytes, and frames with a changed byte: they cause errors, never a panic.

use nagi_bson::doc;
use nagi_wire::{Message, append_sequence, decompress, frame_len, opcode};
use proptest::prelude::*;

#[test]
fn lengths_out_of_range_close() {
    for len in [0, 15, -1, 48_000_001, i32::MAX, i32::MIN] {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&len.to_le_bytes());
        assert!(frame_len(&header).unwrap_err().closes);
    }
    assert!(Message::parse(&[]).unwrap_err().closes);
    assert!(Message::parse(&[17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
}

proptest! {
    #[test]
    fn random_bodies_never_panic(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        opcode in prop_oneof![
            Just(opcode::MSG), Just(opcode::QUERY), Just(opcode::INSERT), Just(opcode::UPDATE),
            Just(opcode::DELETE), Just(opcode::GET_MORE), Just(opcode::KILL_CURSORS),
            Just(opcode::COMPRESSED), any::<i32>(),
        ],
    ) {
        let mut frame = Vec::new();
        for word in [16 + body.len() as i32, 0, 0, opcode] {
            frame.extend_from_slice(&word.to_le_bytes());
        }
        frame.extend_from_slice(&body);
        let _ = Message::parse(&frame);
        let _ = decompress(&frame, &mut Vec::new());
    }

    #[test]
    fn changed_bytes_never_panic(at in 16_usize..120, byte in any::<u8>()) {
        let body = doc! { "insert": "c", "a": { "b": [1, "x", 2.5] }, "$db": "test" };
        let one = doc! { "_id": 1, "s": "text" };
        let mut frame = crate::msg::frame(0, body.as_doc(), |out| {
            append_sequence(out, "documents", [one.as_doc(), one.as_doc()]);
        });
        if let Some(place) = frame.get_mut(at) {
            *place = byte;
        }
        if let Ok((_, Message::Msg(msg))) = Message::parse(&frame) {
            let _ = msg.database();
            for sequence in msg.sequences() {
                for doc in sequence.docs {
                    let _ = doc.to_string();
                }
            }
        }
    }
}
