//! OP_MSG: sections, flags, checksum.

use nagi_bson::{Doc, Value, doc};
use nagi_error::Code;
use nagi_wire::{Fault, Header, Message, Msg, append_sequence, begin_msg, finish_msg, flags};

/// A frame with a body and sections that `more` appends.
pub(crate) fn frame(flags: u32, body: Doc<'_>, more: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_msg(&mut out, 7, 0, flags);
    out.extend_from_slice(body.as_bytes());
    more(&mut out);
    finish_msg(&mut out, start);
    out
}

fn parse(frame: &[u8]) -> Msg<'_> {
    match Message::parse(frame).expect("a good frame") {
        (_, Message::Msg(msg)) => msg,
        other => panic!("{other:?}"),
    }
}

fn fault(frame: &[u8]) -> (Code, bool) {
    let Fault { error, closes, .. } = Message::parse(frame).expect_err("a bad frame");
    (error.code(), closes)
}

#[test]
fn sequences_are_found_in_any_place() {
    let command = doc! { "insert": "c", "$db": "test" };
    let (a, b) = (doc! { "_id": 1 }, doc! { "_id": 2 });
    let mut out = Vec::new();
    let start = begin_msg(&mut out, 1, 0, 0);
    out.truncate(out.len() - 1);
    append_sequence(&mut out, "documents", [a.as_doc(), b.as_doc()]);
    out.push(0);
    out.extend_from_slice(command.as_bytes());
    append_sequence(&mut out, "none", []);
    finish_msg(&mut out, start);

    let msg = parse(&out);
    assert_eq!(msg.database().unwrap(), "test");
    let names: Vec<_> = msg.sequences().map(|s| (s.name, s.docs.count())).collect();
    assert_eq!(names, [("documents", 2), ("none", 0)]);
    let last = msg.sequence("documents").unwrap().last().unwrap();
    assert_eq!(last.get("_id"), Value::Int32(2));
}

#[test]
fn checksum_is_written_and_checked() {
    let body = doc! { "ping": 1, "$db": "admin" };
    let mut out = frame(flags::CHECKSUM_PRESENT, body.as_doc(), |_| ());
    assert!(parse(&out).has_checksum());
    *out.last_mut().unwrap() ^= 1;
    assert_eq!(fault(&out), (Code::CHECKSUM_MISMATCH, true));
}

#[test]
fn unknown_required_flags_close_and_optional_ones_do_not() {
    let body = doc! { "ping": 1 };
    assert_eq!(fault(&frame(4, body.as_doc(), |_| ())), (Code::ILLEGAL_OP_MSG_FLAG, true));
    let msg = frame(1 << 20 | flags::EXHAUST_ALLOWED, body.as_doc(), |_| ());
    assert!(parse(&msg).exhaust_allowed());
    assert_eq!(parse(&msg).database().unwrap_err().code(), Code(40571));
    let quiet = frame(flags::MORE_TO_COME, body.as_doc(), |_| ());
    assert!(!Msg::wants_reply(&quiet) && Msg::wants_reply(&msg));
}

#[test]
fn wrong_sections_are_answered() {
    let body = doc! { "insert": "c", "documents": [] };
    let body = body.as_doc();
    type More = fn(&mut Vec<u8>);
    let cases: [(More, i32); 5] = [
        (|out| append_sequence(out, "documents", []), 40433),
        (
            |out| {
                append_sequence(out, "a", []);
                append_sequence(out, "a", []);
            },
            40431,
        ),
        (|out| ["a", "b", "c"].iter().for_each(|n| append_sequence(out, n, [])), 233),
        (|out| out.push(2), 40432),
        (
            |out| {
                out.push(0);
                out.extend_from_slice(Doc::EMPTY.as_bytes());
            },
            40430,
        ),
    ];
    for (more, code) in cases {
        assert_eq!(fault(&frame(0, body, more)), (Code(code), false));
    }
    let mut empty = frame(0, body, |_| ());
    empty.truncate(20);
    empty[0] = 20;
    assert_eq!(fault(&empty), (Code(40587), false));
    let mut broken = frame(0, body, |_| ());
    let last = broken.len() - 1;
    broken[last] = 7;
    assert_eq!(fault(&broken), (Code::INVALID_BSON, false));
    assert_eq!(Header::split(&broken).unwrap().0.request_id, 7);
}
