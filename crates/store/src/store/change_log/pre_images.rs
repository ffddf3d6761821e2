//! `config.system.preimages`: the documents before changes, which the log has behind their entries, as documents.
//!
//! ```text
//!   stamp | position     entry of the log                      document
//!   (5,2) | 0            {op: "u", ui: U, ...} image           {_id: {nsUUID: U, ts: (5,2), applyOpsIndex: 0}, ...}
//!   (5,3) | 0, 1         {op: "u", ui: U, ...} image, ...      {_id: {nsUUID: U, ts: (5,3), applyOpsIndex: 0}, ...}
//! ```
//!
//! A record key is the stamp and the position in the transaction, 12 bytes in big-endian order. Reading the
//! collection reads the whole log.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, DocWriter, Value, doc};
use nagi_error::Result;
use nagi_kv::Read;

use super::LogReader;
use crate::{
    Catalog, Collection, Namespace,
    catalog::{CollectionState, ImageAge, ImageSource},
    record_key::Layout,
    store::change_log::shown_in,
};

/// The collection that shows the pre-images.
pub(crate) const PRE_IMAGES_NAMESPACE: &str = "config.system.preimages";

const KEY_BYTES: usize = 12;

/// Its options in MongoDB, where the collection is clustered.
pub(crate) fn options() -> DocBuf {
    doc! {
        "clusteredIndex": (doc! {
            "v": 2, "key": (doc! { "_id": 1 }.as_doc()), "name": "_id_", "unique": true
        }.as_doc())
    }
}

/// The collection of a catalog that shows the pre-images.
fn images_in(catalog: &Catalog) -> Option<Arc<Collection>> {
    let namespace = Namespace::parse(PRE_IMAGES_NAMESPACE).ok()?;
    let shown = catalog.collection(&namespace)?;
    (shown.layout == Layout::PreImages).then(|| Arc::clone(shown))
}

/// At the start: connects the collection of a catalog with the log.
pub(crate) fn connect(catalog: &Catalog, age: &ImageAge) {
    if let (Some(images), Some(log)) = (images_in(catalog), shown_in(catalog)) {
        let source = ImageSource { log: Arc::clone(&log.state), age: age.clone() };
        // A new collection: nothing else has set it.
        let _ = images.state.images.set(source);
    }
}

/// A cursor over the pre-images, forward or backward. Images that were removed before they were read are passed over,
/// as expired documents are.
pub(crate) struct PreImages {
    log: LogReader,
    age: ImageAge,
    forward: bool,
    /// The key of the current image.
    key: [u8; KEY_BYTES],
    /// The operation of the log's current document that comes next; none: that of the next document.
    next: Option<usize>,
    /// Images that are not beyond this key in the cursor's direction are passed over.
    beyond: Option<[u8; KEY_BYTES]>,
}

fn key_of(stamp: u64, at: usize) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&stamp.to_be_bytes());
    key[8..].copy_from_slice(&(at as u32).to_be_bytes());
    key
}

impl PreImages {
    /// `None` if there is no log.
    pub(crate) fn open(
        read: &dyn Read,
        forward: bool,
        shown: &CollectionState,
    ) -> Result<Option<PreImages>> {
        let Some(source) = shown.images.get() else { return Ok(None) };
        let log = LogReader::open(read, forward, &source.log)?.passing_over();
        let (age, key) = (source.age.clone(), [0; KEY_BYTES]);
        Ok(Some(PreImages { log, age, forward, key, next: None, beyond: None }))
    }

    pub(crate) fn begin_again(&mut self) {
        self.log.begin_again();
        (self.next, self.beyond) = (None, None);
    }

    /// Makes the next `advance` move beyond a record key.
    pub(crate) fn resume_after(&mut self, key: &[u8]) {
        let Ok(key) = <[u8; KEY_BYTES]>::try_from(key) else { return };
        let stamp = key.first_chunk().map_or(0, |stamp| u64::from_be_bytes(*stamp));
        // The document of the key itself may have others.
        self.log.resume_after(match self.forward {
            true => stamp.saturating_sub(1),
            false => stamp.saturating_add(1),
        });
        (self.next, self.beyond) = (None, Some(key));
    }

    /// The current image's record key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The operation that comes next in the log's current document.
    fn next_op(&mut self) -> Option<usize> {
        let at = self.next?;
        self.next = match self.forward {
            true => Some(at + 1).filter(|next| *next < self.log.op_count()),
            false => at.checked_sub(1),
        };
        Some(at)
    }

    /// Moves to the next image, whose document is written to `out`. Returns false at the end.
    pub(crate) fn advance(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        loop {
            let Some(at) = self.next_op() else {
                if !self.log.skip()? {
                    return Ok(false);
                }
                self.next = Some(if self.forward { 0 } else { self.log.op_count() - 1 });
                continue;
            };
            let key = key_of(self.log.stamp, at);
            let passed = self.beyond.is_some_and(|beyond| match self.forward {
                true => key <= beyond,
                false => key >= beyond,
            });
            if passed || !self.write(at, out)? {
                continue;
            }
            (self.key, self.beyond) = (key, None);
            return Ok(true);
        }
    }

    /// Writes the document of an operation's image; false if it has none, or none that is kept.
    fn write(&self, at: usize, out: &mut Vec<u8>) -> Result<bool> {
        let Some(shown) = self.log.shown_image(at)?.filter(|shown| self.age.keeps(shown.wall_ms))
        else {
            return Ok(false);
        };
        out.clear();
        let mut doc = DocWriter::new(out);
        doc.doc("_id", |id| {
            id.put("nsUUID", shown.uuid);
            id.put("ts", Value::Timestamp(self.log.stamp));
            id.put("applyOpsIndex", at as i64);
        });
        doc.put("operationTime", Value::DateTime(shown.wall_ms));
        doc.put("preImage", shown.image);
        doc.finish();
        Ok(true)
    }
}

/// A pre-image, with what its document says of the change.
pub(super) struct ShownImage<'e> {
    pub(super) uuid: Value<'e>,
    pub(super) wall_ms: i64,
    pub(super) image: Doc<'e>,
}

/// The document of a record key.
pub(crate) fn image_at(
    read: &dyn Read,
    shown: &CollectionState,
    key: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool> {
    let Some(mut images) = PreImages::open(read, true, shown)? else { return Ok(false) };
    let Ok(wanted) = <[u8; KEY_BYTES]>::try_from(key) else { return Ok(false) };
    let stamp = wanted.first_chunk().map_or(0, |stamp| u64::from_be_bytes(*stamp));
    images.log.resume_after(stamp.saturating_sub(1));
    let at = wanted.last_chunk().map_or(0, |at| u32::from_be_bytes(*at)) as usize;
    let found = images.log.skip()? && images.log.stamp == stamp && at < images.log.op_count();
    if found { images.write(at, out) } else { Ok(false) }
}
