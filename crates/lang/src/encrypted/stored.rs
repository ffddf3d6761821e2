//! Stored values with an index: kinds 14, 15, 17.
//!
//! ```text
//!   kind (1) | key id (16) | BSON type (1)
//!     range: number of blocks (1)
//!     text:  number of blocks (4) | of substrings (4) | of suffixes (4)
//!   the client's ciphertext, encrypted again: IV (16) | AES-256-CTR
//!   blocks (96 each): count and contention factor, encrypted (32) | tag (32) | zeros, encrypted (32)
//! ```

use nagi_error::Result;

use super::{
    BLOCK_BYTES, EQUALITY_VALUE, IndexKind, InsertPayload, RANGE_VALUE, TEXT_VALUE, TextValue,
    Token, TokenSet, derive, seal, seal_numbers,
};

const HEAD_BYTES: usize = 18;
/// An IV and at least one byte.
const CIPHERTEXT_BYTES_MIN: usize = 17;

/// A block of a stored value.
#[derive(Debug, Clone, Copy)]
pub struct Block<'v>(pub &'v [u8; BLOCK_BYTES]);

impl<'v> Block<'v> {
    pub fn tag(&self) -> &'v Token {
        self.0[32..64].as_array().expect("32 bytes of 96")
    }
}

/// The blocks of a stored value; none for values that are not indexed or not well-formed.
pub fn blocks(bytes: &[u8]) -> impl Iterator<Item = Block<'_>> {
    parse(bytes).unwrap_or(&[]).iter().map(Block)
}

fn parse(bytes: &[u8]) -> Option<&[[u8; BLOCK_BYTES]]> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let (count, rest) = match head[0] {
        EQUALITY_VALUE => (1, rest),
        RANGE_VALUE => rest.split_first().map(|(count, rest)| (usize::from(*count), rest))?,
        TEXT_VALUE => return TextValue::read(bytes).ok().map(|value| value.all()),
        _ => return None,
    };
    let at = rest.len().checked_sub(count * BLOCK_BYTES)?;
    (at >= CIPHERTEXT_BYTES_MIN).then(|| rest[at..].as_chunks().0)
}

/// Appends the stored value of an insert payload. `positions` has the position of each block's tag; `random` returns
/// bytes that are used once.
///
/// # Errors
/// Those of `random`.
pub fn write_stored(
    payload: &InsertPayload<'_>,
    positions: &[u64],
    random: &mut dyn FnMut() -> Result<[u8; 16]>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let count = payload.sets.len();
    out.push(match payload.kind {
        IndexKind::Equality => EQUALITY_VALUE,
        IndexKind::Range => RANGE_VALUE,
        IndexKind::Text { .. } => TEXT_VALUE,
    });
    out.extend_from_slice(payload.key_id);
    out.push(payload.bson_type);
    match payload.kind {
        IndexKind::Equality => {}
        // The parser has limited the number.
        IndexKind::Range => out.push(count as u8),
        IndexKind::Text { substrings, suffixes } => {
            let counts = [count, substrings, suffixes];
            counts.iter().for_each(|n| out.extend_from_slice(&(*n as u32).to_le_bytes()));
        }
    }
    seal(payload.value_key, random()?, payload.value, out);
    for (set, position) in payload.sets.iter().zip(positions) {
        write_block(set, [*position, payload.contention], random, out)?;
    }
    Ok(())
}

fn write_block(
    set: &TokenSet<'_>,
    [position, contention]: [u64; 2],
    random: &mut dyn FnMut() -> Result<[u8; 16]>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let count = seal_numbers(&derive(set.server, 1), random()?, [position, contention]);
    out.extend_from_slice(&count);
    out.extend_from_slice(&derive(&derive(set.edc, 1), position));
    out.extend_from_slice(&seal_numbers(&derive(set.server, 2), random()?, [0, 0]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use nagi_bson::{Binary, DocBuf, DocWriter, Value};

    use super::*;
    use crate::encrypted::{
        FIND_EQUALITY, FIND_RANGE, FindPayload, INSERT, ZerosKey, open_numbers,
    };

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    /// A stored value of libmongocrypt's test data (`iev-v2/FLECrudTest-insertOneV2.json`).
    #[test]
    fn the_block_of_an_equality_value_is_at_its_end() {
        let value = bytes(
            "0e123456781234987612341234567890120215da2a70905291b8a5b4b634732dad2b67e3d8b66c02ef4f3d991405627b\
             7b5e685062e36f5743b8890ea02fdbcc67202daac24cf3c3b5f6466c9e3fabeb43b6607eb9b9cb37193e6176c680444b\
             43414fe9a96b643a45b91b3b1b5ca7966a3681740531ddf2920cd9a640d02edf076abf87a8e31bb7b1afd78219c74f24\
             fa538dbe68e7b9fa42edf928cadc495b51460d0c3b3174df01b0e8b19845da8b188af1ca67aaa23e828317e44cb237e3\
             628f76de9ede194321cd9470a2df0b6923ae",
        );
        let tags: Vec<Token> = blocks(&value).map(|block| *block.tag()).collect();
        assert_eq!(
            tags.concat(),
            bytes("8dbe68e7b9fa42edf928cadc495b51460d0c3b3174df01b0e8b19845da8b188a")
        );
    }

    /// The same of `iev-v2/FLECrudTest-insertOneRangeV2.json`: an edge count, and as many blocks.
    #[test]
    fn a_range_value_has_a_block_for_each_edge() {
        let value = bytes(
            "0f12345678123498761234123456789012100566a74bf7c78e62d0e6e4b49667b2cb8928f44640e36bc6129d6c20ebcc\
             00b0fd90b4ff50a063051a4009e62730a517a8d574f09be4b277c047c74907071385be8caaaadf99885f126e88db7deb\
             d816b2a08e34585d3d0de2659c121e5887520c34bc1b32ce6404f3e39c97fdb86b077d70c86896fa329faf3029a14012\
             fe4b743d2267d98b888e9006c683039c1a1347baf18e50f02704b146bfc018cf41a55752815f53d5795c66ad0ed2f2bd\
             e7f6471da0b7effca4fe213695f2a16ab9be136678ff929f4f077b0096782fd4ac3c296bbf2aff2520aca5585cfa8c8d\
             14d481c5701e8b2c684b255911d7c3e1a0f1a93d75b8994f6f7621091bd062d86c439ac0d0836b30e0c9d24ed80d233a\
             09ef441f3e1f08b525c9d2682b23e432bc6f585de4c0ab39c87e4cb0b3a63e5ea878c10e705acc4c59126f862536ccd7\
             9683d318b9b583f23da5713244e4cff9ec8fba5a12adbbb7513ff0304586a4f4cfbe3014a4219179a78618cf88908026\
             2b4b96786fb73d4b2ab2c39ab5a0934d9b3106514d94c07296be6cbd9af53b45ee4507c923cdc230779a75c33772df7b\
             884aa898d39eb1be108e0f285dcd2aa2f0e29dd87a04876db6ef9b88e4338e7a56f2df5267ce74d2ade2078fc5c4c2d2\
             d341e9bfa921912e2768ffe7f81fd02a3fc26a774adf3322ba11a79d78bf82779ca2884563b4b2d7db084fa129ce9b3b\
             62882101154aeacca3f2615873cf24a72cf39a791a43422c79c6509712dccdaa1632322a2dff00a448ceb0b98918cd12\
             74fee83a7c33c1a40ff17693f78d785b334bdc",
        );
        let found: Vec<Block<'_>> = blocks(&value).collect();
        assert_eq!(found.len(), 5);
        let tag = bytes("3d2267d98b888e9006c683039c1a1347baf18e50f02704b146bfc018cf41a557");
        assert_eq!(found[0].tag()[..], tag);
        for len in 0..value.len() {
            // The bytes before the blocks are one ciphertext, so its end is not known.
            let _ = blocks(&value[..len]).count();
        }
    }

    fn put(out: &mut DocWriter<'_>, name: &str, bytes: &[u8]) {
        out.put(name, Value::Binary(Binary { subtype: 0, bytes }));
    }

    /// The tokens for a contention factor of 3 of the value with the number `n`.
    fn put_set(out: &mut DocWriter<'_>, n: u8) {
        put(out, "d", &derive(&[n; 32], 3));
        put(out, "s", &derive(&[n + 1; 32], 3));
        put(out, "l", &[n + 2; 32]);
        put(out, "p", &[0; 49]);
    }

    fn payload(edges: &[u8]) -> Vec<u8> {
        let doc = DocBuf::build(|out| {
            put_set(out, 10);
            put(out, "u", &[9; 16]);
            out.put("t", 16);
            put(out, "v", b"the client's ciphertext");
            put(out, "e", &[8; 32]);
            out.put("k", 3_i64);
            if !edges.is_empty() {
                out.array("g", |list| edges.iter().for_each(|n| list.doc(|out| put_set(out, *n))));
            }
        });
        [&[INSERT], doc.as_bytes()].concat()
    }

    fn query(kind: u8, sets: &[u8]) -> Vec<u8> {
        let put_set = |out: &mut DocWriter<'_>, n: u8| {
            put(out, "d", &[n; 32]);
            put(out, "s", &[n + 1; 32]);
            put(out, "l", &[n + 2; 32]);
        };
        let doc = DocBuf::build(|out| match kind {
            FIND_EQUALITY => {
                put_set(out, sets[0]);
                out.put("cm", 3_i64);
            }
            _ => out.doc("payload", |out| {
                out.array("g", |list| sets.iter().for_each(|n| list.doc(|out| put_set(out, *n))));
                out.put("cm", 3_i64);
            }),
        });
        [&[kind], doc.as_bytes()].concat()
    }

    #[test]
    fn the_tokens_of_a_query_lead_to_the_blocks() {
        for (edges, kind, positions) in
            [(&[][..], FIND_EQUALITY, &[7][..]), (&[10, 20, 30], FIND_RANGE, &[7, 1, 4])]
        {
            let bytes = payload(edges);
            let insert = InsertPayload::read(&bytes).expect("well-formed");
            let (mut value, mut iv) = (Vec::new(), 0);
            let random = &mut || {
                iv += 1;
                Ok([iv; 16])
            };
            write_stored(&insert, positions, random, &mut value).expect("written");
            let sets = if edges.is_empty() { &[10][..] } else { edges };
            let found: Vec<Block<'_>> = blocks(&value).collect();
            assert_eq!(found.len(), sets.len());
            let bytes = query(kind, sets);
            let find = FindPayload::read(&bytes).expect("well-formed");
            for ((set, block), position) in find.sets.iter().zip(&found).zip(positions) {
                assert_eq!(*block.tag(), derive(&set.tags(3), *position), "the tag of a position");
                assert!(ZerosKey::new(&set.zeros()).opens(block.0));
                assert!(!ZerosKey::new(&[1; 32]).opens(block.0));
            }
            // The count and the contention factor, for a server that has the client's token.
            let count = derive(insert.sets[0].server, 1);
            assert_eq!(open_numbers(&count, &found[0].0[..32]), Some([positions[0], 3]));
        }
    }

    #[test]
    fn payloads_cut_or_changed_anywhere_are_read_or_refused() {
        for bytes in [payload(&[]), payload(&[10, 20]), query(FIND_EQUALITY, &[1])] {
            for at in 0..bytes.len() {
                assert!(InsertPayload::read(&bytes[..at]).is_err(), "{at} bytes");
                assert!(FindPayload::read(&bytes[..at]).is_err(), "{at} bytes");
                for changed in [0, 0x7f, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[at] = changed;
                    let _ = (InsertPayload::read(&bytes), FindPayload::read(&bytes));
                }
            }
        }
    }

    #[test]
    fn other_parameters_of_a_range_are_told() {
        let edges = payload(&[10]);
        let doc = nagi_bson::Doc::parse(&edges[1..]).expect("well-formed");
        let doc = DocBuf::build(|out| {
            out.extend(doc);
            out.put("sp", 2_i64);
            out.put("mn", 5);
        });
        let bytes = [&[INSERT], doc.as_bytes()].concat();
        let payload = InsertPayload::read(&bytes).expect("well-formed");
        let other = |sparsity: i32, min: f64, trim: i32| {
            let range = DocBuf::build(|out| {
                out.put("sparsity", sparsity);
                out.put("min", min);
                out.put("trimFactor", trim);
            });
            payload.other_parameter(range.as_doc())
        };
        assert_eq!(other(2, 5.0, 6), None, "numbers are compared, and missing ones ignored");
        assert_eq!(other(1, 5.0, 6), Some("sparsity"));
        assert_eq!(other(2, 5.5, 6), Some("min"));
    }

    #[test]
    fn a_query_of_a_range_may_have_thousands_of_edges() {
        let bytes = query(FIND_RANGE, &[10; 5000]);
        assert_eq!(FindPayload::read(&bytes).map(|payload| payload.sets.len()).ok(), Some(5000));
    }

    #[test]
    fn a_range_has_no_more_edges_than_its_count_can_tell() {
        assert!(InsertPayload::read(&payload(&[10; 255])).is_ok());
        assert!(InsertPayload::read(&payload(&[10; 256])).is_err());
    }
}
