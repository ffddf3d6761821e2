//! A prototype of a column of one field, as decision 053 designs it: how fast a count by value could be.
//!
//! A segment has the values of 4,096 records in the order of their ids: the different values, then one byte a record.
use super::data::document;
use nagi_kv::{Durability, Engine, Result, Space, TxnOptions};
use std::collections::HashMap;

const ROWS: u64 = 4096;
const FIELD: &str = "city";
/// No collection or index has this number.
const PREFIX: [u8; 4] = u32::MAX.to_be_bytes();

fn key(segment: u64) -> Vec<u8> {
    [&PREFIX[..], &segment.to_be_bytes()].concat()
}

/// Writes the column of `FIELD` for the first `count` documents.
pub(super) fn write(engine: &dyn Engine, count: u64) -> Result<()> {
    for segment in 0..count.div_ceil(ROWS) {
        let (mut values, mut codes) = (Vec::<String>::new(), Vec::new());
        for id in segment * ROWS..((segment + 1) * ROWS).min(count) {
            let doc = document(id);
            let value = doc.get(FIELD).as_str().unwrap_or("");
            let code = values.iter().position(|known| known == value).unwrap_or_else(|| {
                values.push(value.to_owned());
                values.len() - 1
            });
            codes.push(code as u8);
        }
        let mut bytes = vec![values.len() as u8];
        for value in &values {
            bytes.push(value.len() as u8);
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes.extend_from_slice(&codes);
        let mut txn = engine.begin(TxnOptions::default())?;
        txn.put(Space::Index, &key(segment), &bytes)?;
        txn.commit(Durability::Buffered)?;
    }
    Ok(())
}

/// Counts the records of each value, as `{$group: {_id: "$city", n: {$sum: 1}}}`.
pub(super) fn count(engine: &dyn Engine, count: u64) -> Result<()> {
    let counts = counts(engine)?;
    assert_eq!(counts.values().sum::<u64>(), count, "each record is counted once");
    Ok(())
}

fn counts(engine: &dyn Engine) -> Result<HashMap<String, u64>> {
    let mut all: HashMap<String, u64> = HashMap::new();
    let mut cursor = engine.latest().cursor(Space::Index, &PREFIX, &[])?;
    let mut found = cursor.seek(&PREFIX)?;
    while found {
        let (values, codes) = parse(cursor.value());
        let mut counts = [0_u64; 256];
        codes.iter().for_each(|code| counts[usize::from(*code)] += 1);
        for (value, count) in values.iter().zip(counts) {
            *all.entry((*value).to_owned()).or_default() += count;
        }
        found = cursor.next()?;
    }
    Ok(all)
}

fn parse(segment: &[u8]) -> (Vec<&str>, &[u8]) {
    let (mut values, mut rest) = (Vec::new(), &segment[1..]);
    for _ in 0..segment[0] {
        let (value, behind) = rest[1..].split_at(usize::from(rest[0]));
        values.push(std::str::from_utf8(value).unwrap_or(""));
        rest = behind;
    }
    (values, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_counted() {
        let engine = nagi_kv::Memory::new();
        write(&engine, 10_000).expect("writes");
        let mut expected: HashMap<String, u64> = HashMap::new();
        for id in 0..10_000 {
            *expected
                .entry(document(id).get(FIELD).as_str().unwrap_or("").to_owned())
                .or_default() += 1;
        }
        assert_eq!(counts(&engine).expect("reads"), expected);
    }
}
