//! Compares a collection of the source with the target's, and makes them alike where change streams do not tell of
//! changes.

use std::cmp::Ordering;
use std::collections::VecDeque;

use nagi_bson::{Doc, DocBuf, compare, text};

use super::link::{Link, NAMESPACE_NOT_FOUND, Page, Result, Trouble, failed};
use super::listing::{Kind, Ns};
use super::write::{Docs, flush, flush_removals};

/// The most documents that are requested at once.
const BATCH_DOCUMENTS: i32 = 5000;
/// A comparison whose cursor is lost begins again so often.
const ATTEMPTS: usize = 5;

/// The documents of a collection, one after the other.
struct Reader<'l> {
    link: &'l mut Link,
    more: Option<DocBuf>,
    docs: VecDeque<DocBuf>,
}

impl<'l> Reader<'l> {
    fn open(link: &'l mut Link, ns: &Ns, kind: Kind) -> Result<Reader<'l>> {
        let command = DocBuf::build(|out| {
            out.put("find", ns.name.as_str());
            out.put("batchSize", BATCH_DOCUMENTS);
            // The order of a capped collection is a part of it.
            if kind != Kind::Capped {
                out.doc("sort", |out| out.put("_id", 1));
                out.doc("hint", |out| out.put("_id", 1));
            }
            out.put("$db", ns.db.as_str());
        });
        let mut reader = Reader { link, more: None, docs: VecDeque::new() };
        match reader.link.run(&command) {
            Ok(reply) => reader.take(&reply)?,
            Err(trouble) if trouble.code() == NAMESPACE_NOT_FOUND => {}
            Err(trouble) => return Err(trouble),
        }
        Ok(reader)
    }

    fn take(&mut self, reply: &DocBuf) -> Result<()> {
        let page = Page::of(reply)?;
        self.docs = page.docs().map(|doc| doc.to_buf()).collect();
        self.more = page.more(None);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<DocBuf>> {
        while self.docs.is_empty() {
            let Some(more) = self.more.take() else { return Ok(None) };
            let reply = self.link.once(&more)?;
            self.take(&reply)?;
        }
        Ok(self.docs.pop_front())
    }
}

/// Runs again what lost a cursor.
fn again<T>(mut run: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..ATTEMPTS {
        match run() {
            Err(Trouble::CursorLost) => {}
            other => return other,
        }
    }
    failed("cursors are lost again and again")
}

/// The first difference between two collections, byte by byte and in order; `None` if there is none. Reads both.
pub(super) fn difference(
    source: &mut Link,
    target: &mut Link,
    from: &Ns,
    to: &Ns,
    kind: Kind,
) -> Result<Option<String>> {
    again(|| {
        let mut left = Reader::open(source, from, kind)?;
        let mut right = Reader::open(target, to, kind)?;
        loop {
            match (left.next()?, right.next()?) {
                (None, None) => return Ok(None),
                (Some(one), Some(other)) if one.as_bytes() == other.as_bytes() => {}
                (one, other) => return Ok(Some(differing(one.as_ref(), other.as_ref()))),
            }
        }
    })
}

fn differing(source: Option<&DocBuf>, target: Option<&DocBuf>) -> String {
    let id = |doc: &DocBuf| text::value_text(doc.get("_id"));
    match (source, target) {
        (Some(one), Some(other)) if one.get("_id").same_bytes(&other.get("_id")) => {
            format!("the document with _id {} is another", id(one))
        }
        (Some(one), Some(other)) => {
            format!("_id {} at the source where the target has {}", id(one), id(other))
        }
        (Some(one), None) => format!("_id {} is only at the source", id(one)),
        (None, Some(other)) => format!("_id {} is only at the target", id(other)),
        (None, None) => String::new(),
    }
}

/// Makes the target's collection equal to the source's, both read in the order of `_id`. Returns the number of
/// documents that were written or removed. Only for collections without a collation.
pub(super) fn sync(source: &mut Link, target: &mut Link, from: &Ns, to: &Ns) -> Result<u64> {
    let mut total = 0;
    let mut writer = target.another();
    again(|| {
        let mut left = Reader::open(source, from, Kind::Plain)?;
        let mut right = Reader::open(target, to, Kind::Plain)?;
        let (mut puts, mut removals) = (Docs::default(), Docs::default());
        let (mut one, mut other) = (left.next()?, right.next()?);
        while one.is_some() || other.is_some() {
            let order = order(one.as_ref().map(DocBuf::as_doc), other.as_ref().map(DocBuf::as_doc));
            match (order, &one, &other) {
                (Ordering::Equal, Some(one), Some(other)) if one.as_bytes() == other.as_bytes() => {
                }
                (Ordering::Greater, _, Some(surplus)) => {
                    removals.push_removal(surplus.get("_id"));
                    total += 1;
                }
                (_, Some(one), _) => {
                    puts.push_replacement(one.as_doc());
                    total += 1;
                }
                _ => {}
            }
            if order != Ordering::Greater {
                one = left.next()?;
            }
            if order != Ordering::Less {
                other = right.next()?;
            }
            if puts.is_full() {
                flush(&mut writer, to, &mut puts)?;
            }
            if removals.is_full() {
                flush_removals(&mut writer, to, &mut removals)?;
            }
        }
        flush(&mut writer, to, &mut puts)?;
        flush_removals(&mut writer, to, &mut removals)
    })?;
    Ok(total)
}

/// Which document is first; one that is missing is the last.
fn order(one: Option<Doc<'_>>, other: Option<Doc<'_>>) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) => compare::values(one.get("_id"), other.get("_id")),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

#[test]
fn differences_are_named() {
    use nagi_bson::doc;
    let (one, same, other) = (doc! { "_id": 1 }, doc! { "_id": 1, "x": 1 }, doc! { "_id": "b" });
    let of = |a: Option<&DocBuf>, b: Option<&DocBuf>| differing(a, b);
    assert_eq!(of(Some(&one), Some(&same)), "the document with _id 1 is another");
    assert!(of(Some(&one), Some(&other)).contains("_id 1 at the source where the target has"));
    assert_eq!(of(Some(&one), None), "_id 1 is only at the source");
    assert_eq!(of(None, Some(&one)), "_id 1 is only at the target");
    let order = |a: Option<&DocBuf>, b: Option<&DocBuf>| {
        super::compare::order(a.map(DocBuf::as_doc), b.map(DocBuf::as_doc))
    };
    assert_eq!(order(Some(&one), Some(&other)), Ordering::Less);
    assert_eq!(order(Some(&one), Some(&same)), Ordering::Equal);
    assert_eq!(order(None, Some(&same)), Ordering::Greater);
    assert_eq!(order(Some(&one), None), Ordering::Less);
}
