//! OP_COMPRESSED: round trips, and wrong sizes.

use nagi_bson::doc;
use nagi_wire::{Compressor, MESSAGE_BYTES_MAX, compress, decompress, opcode};

const ALL: [Compressor; 4] =
    [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

fn packed(compressor: Compressor) -> (Vec<u8>, Vec<u8>) {
    let text = "still water ".repeat(200);
    let body = doc! { "insert": "c", "text": text.as_str() };
    let plain = crate::msg::frame(0, body.as_doc(), |_| ());
    let mut out = b"before".to_vec();
    out.extend_from_slice(&plain);
    compress(&mut out, 6, compressor, &mut Vec::new());
    (plain, out.split_off(6))
}

#[test]
fn round_trips() {
    for compressor in ALL {
        let (plain, packed) = packed(compressor);
        assert_eq!(packed[12..16], opcode::COMPRESSED.to_le_bytes());
        let mut back = vec![1, 2, 3];
        assert_eq!(decompress(&packed, &mut back).unwrap(), compressor);
        assert_eq!(back, plain);
        assert_eq!(Compressor::by_name(compressor.name()), Some(compressor));
    }
}

#[test]
fn lies_close_the_connection() {
    for compressor in ALL {
        let (plain, packed) = packed(compressor);
        let size = (plain.len() - 16) as i32;
        for lie in [size - 1, size + 1, 0, -1, MESSAGE_BYTES_MAX as i32, i32::MAX] {
            let mut frame = packed.clone();
            frame[20..24].copy_from_slice(&lie.to_le_bytes());
            assert!(decompress(&frame, &mut Vec::new()).unwrap_err().closes, "{lie}");
        }
        let mut nested = packed.clone();
        nested[16..20].copy_from_slice(&opcode::COMPRESSED.to_le_bytes());
        assert!(decompress(&nested, &mut Vec::new()).is_err());
        let mut frame = packed.clone();
        frame[24] = 9;
        assert!(decompress(&frame, &mut Vec::new()).is_err());
    }
}
