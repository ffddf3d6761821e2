//! Reads the pages of `data.mdb` without LMDB.
//!
//! LMDB trusts its pages: an overwritten page, or a file shorter than its map, makes it fail with an assertion or a
//! wild pointer. So a repair first walks the trees itself. Every number from the file is checked before it is used.
//! An inconsistency becomes a finding, and the walk continues with the next page.
//!
//! ```text
//!   page:   number 8 | - 2 | kind 2 | lower 2, upper 2 (or pages 4) | offsets of nodes 2 each ... nodes
//!   node:   low 2 | high 2 | flags 2 | key bytes 2 | key | value, or the number of its first page
//!   branch: the child is low, high and flags; its least key is the node's, that of the first node is empty
//!   meta (pages 0 and 1, behind 16 bytes): magic 4 | version 4 | - 16 | free tree 48 | main tree 48 |
//!           last page 8 | transaction 8
//!   tree:   page bytes (of the free tree) 4 | flags 2 | depth 2 | - 24 | entries 8 | root 8
//! ```

use std::{cmp::Ordering, fs::File, os::unix::fs::FileExt, path::Path};

use nagi_kv::{Error, Result};

const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
const HEAD: usize = 16;
const NODE_HEAD: usize = 8;
const TREE_BYTES: usize = 48;
const META_BYTES: usize = HEAD + 24 + 2 * TREE_BYTES + 16;
/// The root of a tree without pages.
const NO_ROOT: u64 = u64::MAX;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const BIG: u16 = 1;
const SUBTREE: u16 = 2;
/// LMDB's own limit of a cursor's depth.
const DEPTH_MAX: usize = 32;
const FINDINGS_MAX: usize = 1000;

/// A tree, as its record describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    root: u64,
    entries: u64,
}

/// The callback of a walk, called with each key and value.
type Each<'e> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'e;

/// The file, and the damage found so far.
pub(super) struct Pages {
    file: File,
    name: String,
    page_bytes: usize,
    /// Pages with lower numbers may be used.
    end: u64,
    free: Tree,
    main: Tree,
    /// One bit per page: set if the page belongs to a tree or to a value.
    seen: Vec<u64>,
    pub(super) findings: Vec<String>,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}

fn tree(bytes: &[u8]) -> Tree {
    Tree { entries: u64_at(bytes, 32), root: u64_at(bytes, 40) }
}

/// A parsed node of a page.
struct Node<'p> {
    key: &'p [u8],
    flags: u16,
    /// For a branch, the child's page; for a leaf, the length of the value.
    number: u64,
    rest: &'p [u8],
}

fn node(page: &[u8], offset: usize) -> Option<Node<'_>> {
    let bytes = page.get(offset..)?;
    let head = bytes.get(..NODE_HEAD)?;
    let key_bytes = usize::from(u16_at(head, 6));
    Some(Node {
        key: bytes.get(NODE_HEAD..NODE_HEAD + key_bytes)?,
        flags: u16_at(head, 4),
        number: u64::from(u32_at(head, 0)),
        rest: &bytes[NODE_HEAD + key_bytes..],
    })
}

/// State of a walk through one tree.
struct Walk {
    order: fn(&[u8], &[u8]) -> Ordering,
    last: Option<Vec<u8>>,
    entries: u64,
}

impl Pages {
    /// Opens the file and reads the newer of its two meta pages.
    ///
    /// # Errors
    /// `Corrupt` if neither is usable.
    pub(super) fn open(path: &Path) -> Result<Pages> {
        let file = File::open(path)?;
        let name = path.display().to_string();
        let length = file.metadata()?.len();
        let mut first = [0; META_BYTES];
        let meta = |at: u64, into: &mut [u8; META_BYTES]| {
            let read = file.read_exact_at(into, at).is_ok();
            let free = HEAD + 24;
            let page_bytes = u32_at(into, free);
            let fine = read
                && (u32_at(into, HEAD), u32_at(into, HEAD + 4)) == (MAGIC, VERSION)
                && (512..=65_536).contains(&page_bytes)
                && page_bytes.is_power_of_two();
            fine.then_some(u64::from(page_bytes))
        };
        // The second meta page follows a page of the size that the first one gives; without the first, all sizes
        // are tried.
        let found = meta(0, &mut first);
        let sizes =
            found.map_or_else(|| (9..=16).map(|bits| 1 << bits).collect(), |size| vec![size]);
        let mut newest = found.map(|_| first);
        for size in sizes {
            let mut second = [0; META_BYTES];
            let stamp = |meta: &[u8; META_BYTES]| u64_at(meta, META_BYTES - 8);
            if meta(size, &mut second) == Some(size)
                && newest.is_none_or(|first| stamp(&second) > stamp(&first))
            {
                newest = Some(second);
            }
        }
        let Some(meta) = newest else {
            return Err(Error::Corrupt(format!("{name}: neither of its first pages can be used")));
        };
        let page_bytes = u32_at(&meta, HEAD + 24);
        let in_file = length / u64::from(page_bytes);
        let last = u64_at(&meta, META_BYTES - 16);
        let end = last.saturating_add(1).min(in_file);
        Ok(Pages {
            file,
            name,
            page_bytes: page_bytes as usize,
            end,
            free: tree(&meta[HEAD + 24..]),
            main: tree(&meta[HEAD + 24 + TREE_BYTES..]),
            seen: vec![0; usize::try_from(end / 64 + 1).unwrap_or(0)],
            findings: Vec::new(),
        })
    }

    fn note(&mut self, what: impl std::fmt::Display) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(format!("{}: {what}", self.name));
        }
    }

    /// Marks a page as used. Returns false if it does not exist or belongs to something else.
    fn take(&mut self, number: u64) -> bool {
        if number < 2 || number >= self.end {
            return false;
        }
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let taken = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        !taken
    }

    /// Returns the named trees.
    pub(super) fn trees(&mut self) -> Result<Vec<(Vec<u8>, Tree)>> {
        let mut found = Vec::new();
        let mut each = |name: &[u8], record: &[u8]| {
            if record.len() == TREE_BYTES {
                found.push((name.to_vec(), tree(record)));
            }
            Ok(())
        };
        self.walk(self.main, <[u8]>::cmp, &mut each)?;
        Ok(found)
    }

    /// Checks that the roots of all named trees exist: a file that is much too short is noticed at once.
    pub(super) fn check_roots(&mut self) -> Result<()> {
        for (_, tree) in self.trees()? {
            let mut head = [0; HEAD];
            let place = tree.root.saturating_mul(self.page_bytes as u64);
            let there = tree.root == NO_ROOT
                || tree.root < self.end
                    && self.file.read_exact_at(&mut head, place).is_ok()
                    && u64_at(&head, 0) == tree.root;
            if !there {
                self.note(format!("page {}, the root of a tree, is missing", tree.root));
            }
        }
        Ok(())
    }

    /// Calls `each` with every readable entry of a tree, in the tree's order.
    pub(super) fn entries(&mut self, tree: Tree, each: &mut Each<'_>) -> Result<()> {
        self.walk(tree, <[u8]>::cmp, each)
    }

    /// Checks the list of free pages after all trees were walked: a page in use must not be in it.
    pub(super) fn check_free(&mut self) -> Result<()> {
        let mut lists = Vec::new();
        let mut each = |_: &[u8], list: &[u8]| {
            lists.push(list.to_vec());
            Ok(())
        };
        self.walk(self.free, |a, b| u64_at(a, 0).cmp(&u64_at(b, 0)), &mut each)?;
        for list in lists {
            let count = u64_at(&list, 0);
            if count.checked_mul(8).and_then(|n| n.checked_add(8)) != Some(list.len() as u64) {
                self.note("a list of free pages does not have the length it states");
                continue;
            }
            for number in list[8..].chunks_exact(8).map(|id| u64_at(id, 0)) {
                let in_use = self.seen.get((number / 64) as usize);
                if number < 2 || in_use.is_some_and(|word| word & (1 << (number % 64)) != 0) {
                    self.note(format!("page {number} is in use and in the list of free pages"));
                }
            }
        }
        Ok(())
    }

    fn walk(
        &mut self,
        tree: Tree,
        order: fn(&[u8], &[u8]) -> Ordering,
        each: &mut Each<'_>,
    ) -> Result<()> {
        if tree.root == NO_ROOT {
            return Ok(());
        }
        let mut walk = Walk { order, last: None, entries: 0 };
        self.visit(tree.root, DEPTH_MAX, (None, None), &mut walk, each)?;
        let entries = walk.entries;
        if entries != tree.entries {
            self.note(format!("a tree has {entries} entries, should have {}", tree.entries));
        }
        Ok(())
    }

    fn visit(
        &mut self,
        number: u64,
        depth: usize,
        (low, high): (Option<&[u8]>, Option<&[u8]>),
        walk: &mut Walk,
        each: &mut Each<'_>,
    ) -> Result<()> {
        let mut page = vec![0; self.page_bytes];
        let place = number.saturating_mul(self.page_bytes as u64);
        if depth == 0 || !self.take(number) || self.file.read_exact_at(&mut page, place).is_err() {
            self.note(format!("page {number} is referenced by a tree and does not belong to it"));
            return Ok(());
        }
        let kind = u16_at(&page, 10);
        let (lower, upper) = (usize::from(u16_at(&page, 12)), usize::from(u16_at(&page, 14)));
        let fine = u64_at(&page, 0) == number
            && matches!(kind, BRANCH | LEAF)
            && (HEAD..=upper).contains(&lower)
            && lower.is_multiple_of(2)
            && upper <= self.page_bytes;
        let offsets = (HEAD..lower).step_by(2).map(|at| usize::from(u16_at(&page, at)));
        let nodes: Option<Vec<Node<'_>>> = offsets
            .map(|offset| (offset >= upper).then(|| node(&page, offset)).flatten())
            .collect();
        let Some(nodes) = nodes.filter(|nodes| fine && !nodes.is_empty()) else {
            self.note(format!("page {number} is damaged"));
            return Ok(());
        };
        if kind == BRANCH {
            for (index, node) in nodes.iter().enumerate() {
                let low = if index == 0 { low } else { Some(node.key) };
                let high = nodes.get(index + 1).map_or(high, |next| Some(next.key));
                let child = node.number | u64::from(node.flags) << 32;
                self.visit(child, depth - 1, (low, high), walk, each)?;
            }
            return Ok(());
        }
        for node in nodes {
            let order = walk.order;
            let before = |a: &[u8], b: &[u8]| order(a, b) == Ordering::Less;
            let in_place = low.is_none_or(|low| !before(node.key, low))
                && high.is_none_or(|high| before(node.key, high))
                && walk.last.as_deref().is_none_or(|last| before(last, node.key));
            if !in_place {
                self.note(format!("page {number} has a key that belongs elsewhere"));
            }
            let Some(value) = self.value(&node)? else {
                self.note(format!("page {number} has an entry whose value is missing"));
                continue;
            };
            walk.last = Some(node.key.to_vec());
            walk.entries += 1;
            each(node.key, &value)?;
        }
        Ok(())
    }

    /// The value of a leaf's node: in the node itself, or in overflow pages.
    fn value<'p>(&mut self, node: &Node<'p>) -> Result<Option<std::borrow::Cow<'p, [u8]>>> {
        let length = node.number as usize;
        if node.flags & !(BIG | SUBTREE) != 0 {
            return Ok(None);
        }
        if node.flags & BIG == 0 {
            return Ok(node.rest.get(..length).map(Into::into));
        }
        let Some(first) = node.rest.get(..8).map(|bytes| u64_at(bytes, 0)) else { return Ok(None) };
        let place = first.saturating_mul(self.page_bytes as u64);
        let mut head = [0; HEAD];
        let count = (HEAD + length).div_ceil(self.page_bytes) as u64;
        let fits = first.checked_add(count).is_some_and(|end| end <= self.end);
        if !fits || self.file.read_exact_at(&mut head, place).is_err() {
            return Ok(None);
        }
        let fine = u64_at(&head, 0) == first
            && u16_at(&head, 10) == OVERFLOW
            && u64::from(u32_at(&head, 12)) >= count;
        if !fine || !(first..first + count).all(|number| self.take(number)) {
            return Ok(None);
        }
        let mut value = vec![0; length];
        let read = self.file.read_exact_at(&mut value, place + HEAD as u64);
        Ok(read.is_ok().then(|| value.into()))
    }
}
