//! The legacy opcodes.

use nagi_bson::{Value, doc};
use nagi_wire::{Message, opcode, reply_flags, reply_legacy};

fn frame(opcode: i32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [16 + body.len() as i32, 3, 0, opcode] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(body);
    out
}

#[test]
fn every_opcode_is_read() {
    let (a, b) = (doc! { "a": 1 }, doc! { "b": 2 });
    let word = |n: i32| n.to_le_bytes().to_vec();
    let name = b"db.$cmd\0".to_vec();
    let (a, b) = (a.as_bytes().to_vec(), b.as_bytes().to_vec());

    let query = [word(4), name.clone(), word(1), word(-1), a.clone(), b.clone()].concat();
    let query = frame(opcode::QUERY, &query);
    let Message::Query(query) = Message::parse(&query).unwrap().1 else { panic!() };
    assert!(query.is_command());
    assert_eq!((query.flags, query.skip, query.number_to_return), (4, 1, -1));
    assert_eq!(query.fields.unwrap().get("b"), Value::Int32(2));

    let insert = frame(opcode::INSERT, &[word(1), name.clone(), a.clone(), b.clone()].concat());
    let Message::Insert(insert) = Message::parse(&insert).unwrap().1 else { panic!() };
    assert_eq!(insert.docs.count(), 2);

    let body = [word(0), name.clone(), word(2), a.clone(), b.clone()].concat();
    let update = frame(opcode::UPDATE, &body);
    let Message::Update(update) = Message::parse(&update).unwrap().1 else { panic!() };
    assert_eq!((update.flags, update.update.get("b")), (2, Value::Int32(2)));

    let delete = frame(opcode::DELETE, &[word(0), name.clone(), word(1), a.clone()].concat());
    let Message::Delete(delete) = Message::parse(&delete).unwrap().1 else { panic!() };
    assert_eq!((delete.flags, delete.namespace), (1, "db.$cmd"));

    let more = [word(0), name, word(5), 77_i64.to_le_bytes().to_vec()].concat();
    let more = frame(opcode::GET_MORE, &more);
    let Message::GetMore(more) = Message::parse(&more).unwrap().1 else { panic!() };
    assert_eq!((more.number_to_return, more.cursor_id), (5, 77));

    let body = [word(0), word(1), 9_i64.to_le_bytes().to_vec()].concat();
    let kill = frame(opcode::KILL_CURSORS, &body);
    let Message::KillCursors(kill) = Message::parse(&kill).unwrap().1 else { panic!() };
    assert_eq!(kill.ids.collect::<Vec<_>>(), [9]);
    let lie = [word(0), word(i32::MAX), 9_i64.to_le_bytes().to_vec()].concat();
    assert!(Message::parse(&frame(opcode::KILL_CURSORS, &lie)).unwrap_err().closes);
    assert!(Message::parse(&frame(2010, &[])).unwrap_err().closes);
}

#[test]
fn a_reply_states_its_documents() {
    let mut out = Vec::new();
    reply_legacy(&mut out, 1, 3, reply_flags::AWAIT_CAPABLE, |w| w.put("ok", 1.0));
    assert_eq!(out.len(), u32::from_le_bytes(*out.first_chunk().unwrap()) as usize);
    assert_eq!(out[12..20], [1, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(out[32..36], [1, 0, 0, 0]);
    assert_eq!(nagi_bson::Doc::parse(&out[36..]).unwrap().get("ok"), Value::Double(1.0));
}
