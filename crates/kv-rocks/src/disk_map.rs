//! Where reads and writes of table files land.
//!
//! ```text
//!   | catalog | records L0 | records L6                  | index L6    | being written |
//!   0                    column 120                              240 ........... 256
//! ```
//!
//! The files stand in a row, by space, level and first key, as wide as they are large. Files that are being written are
//! not part of the database yet; they share the last columns, each from its beginning. Nothing is recorded unless
//! someone has asked within the last seconds, so a server without watchers pays for one comparison per read of a file.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use nagi_kv::{DiskActivity, DiskSegment, Space};
use parking_lot::Mutex;

/// Columns of the files, and those of files that are being written.
const LIVE_COLUMNS: u32 = 240;
const NEW_COLUMNS: u32 = 16;
/// A file that is being written fills its columns with so many bytes.
const NEW_FILE_BYTES: u64 = 64 << 20;
/// Reads and writes between two questions that are kept; more are left out.
const LANDED_MAX: usize = 8192;
const WANTED_MS: u64 = 3000;
/// Segments that are listed at most.
const SEGMENTS_MAX: usize = 100;

/// A table file of the database.
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) space: Space,
    pub(crate) level: i32,
    pub(crate) bytes: u64,
    pub(crate) first: Vec<u8>,
}

struct Landed {
    file: u64,
    offset: u64,
    bytes: u64,
    is_write: bool,
}

#[derive(Default)]
struct Layout {
    number: u64,
    /// What the files were read for; none before the first time.
    version: Option<u64>,
    /// The place of a file in the row, and its size.
    places: HashMap<u64, (u64, u64)>,
    total: u64,
    segments: Vec<DiskSegment>,
}

pub(crate) struct DiskMap {
    /// The folder of the database's files, and a slash.
    folder: Vec<u8>,
    landed: Mutex<Vec<Landed>>,
    layout: Mutex<Layout>,
}

/// The maps that someone has asked for. The layer below RocksDB, which calls [`used`], is one for all databases.
static ASKED: Mutex<Vec<Weak<DiskMap>>> = Mutex::new(Vec::new());
/// Reads and writes are recorded until then, in milliseconds of this process.
static WANTED_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Records a read or a write of a file.
pub(crate) fn used(path: &[u8], offset: u64, bytes: u64, is_write: bool) {
    let until = WANTED_UNTIL.load(Relaxed);
    if until == 0 || now_ms() > until {
        return;
    }
    let asked = ASKED.lock();
    let mut maps = asked.iter().filter_map(Weak::upgrade);
    if let Some(map) = maps.find(|map| path.starts_with(&map.folder)) {
        map.note(path, offset, bytes, is_write);
    }
}

fn now_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

impl DiskMap {
    /// The map of the database with its files in `folder`.
    pub(crate) fn new(folder: &Path) -> Arc<DiskMap> {
        let mut folder = folder.as_os_str().as_bytes().to_vec();
        folder.push(b'/');
        Arc::new(DiskMap { folder, landed: Mutex::default(), layout: Mutex::default() })
    }

    fn note(&self, path: &[u8], offset: u64, bytes: u64, is_write: bool) {
        let Some(file) = number_of(path) else { return };
        let mut landed = self.landed.lock();
        if landed.len() < LANDED_MAX {
            landed.push(Landed { file, offset, bytes, is_write });
        }
    }

    /// What has landed since the previous call. `version` changes with the files; they are read with `files` only then.
    pub(crate) fn take(
        self: &Arc<DiskMap>,
        version: u64,
        files: impl FnOnce() -> Vec<Placed>,
    ) -> DiskActivity {
        WANTED_UNTIL.fetch_max(now_ms() + WANTED_MS, Relaxed);
        let mut layout = self.layout.lock();
        if layout.version.is_none() {
            let mut asked = ASKED.lock();
            asked.retain(|map| map.strong_count() > 0);
            asked.push(Arc::downgrade(self));
        }
        if layout.version != Some(version) {
            *layout = Layout::of(files(), layout.number + 1, version);
        }
        let landed = std::mem::take(&mut *self.landed.lock());
        let mut sums = [HashMap::new(), HashMap::new()];
        for one in &landed {
            *sums[usize::from(one.is_write)].entry(layout.column(one)).or_insert(0) += one.bytes;
        }
        let [reads, writes] = sums.map(|sums| {
            let mut list: Vec<(u32, u64)> = sums.into_iter().collect();
            list.sort_unstable();
            list
        });
        DiskActivity {
            columns: LIVE_COLUMNS + NEW_COLUMNS,
            layout: layout.number,
            segments: layout.segments.clone(),
            reads,
            writes,
        }
    }
}

impl Layout {
    fn of(mut files: Vec<Placed>, number: u64, version: u64) -> Layout {
        files.sort_by(|a, b| {
            let of = |file: &Placed| (file.space as usize, file.level);
            of(a).cmp(&of(b)).then_with(|| a.first.cmp(&b.first))
        });
        let total = files.iter().map(|file| file.bytes).sum::<u64>().max(1);
        let mut layout = Layout { number, version: Some(version), total, ..Layout::default() };
        let mut place = 0;
        let mut last: Option<(Space, i32)> = None;
        for file in &files {
            if let Some(number) = number_of(file.name.as_bytes()) {
                layout.places.insert(number, (place, file.bytes));
            }
            let from = layout.live_column(place);
            place += file.bytes;
            let to = layout.live_column(place - 1.min(file.bytes)) + 1;
            if last != Some((file.space, file.level)) && layout.segments.len() < SEGMENTS_MAX {
                layout.segments.push(DiskSegment {
                    space: file.space.name(),
                    level: u32::try_from(file.level).unwrap_or(0),
                    from,
                    to,
                    files: 0,
                    bytes: 0,
                });
            }
            last = Some((file.space, file.level));
            if let Some(segment) = layout.segments.last_mut() {
                segment.to = to;
                segment.files += 1;
                segment.bytes += file.bytes;
            }
        }
        let (from, to) = (LIVE_COLUMNS, LIVE_COLUMNS + NEW_COLUMNS);
        layout.segments.push(DiskSegment { space: "", level: 0, from, to, files: 0, bytes: 0 });
        layout
    }

    fn live_column(&self, place: u64) -> u32 {
        let column = u128::from(place) * u128::from(LIVE_COLUMNS) / u128::from(self.total);
        (column as u32).min(LIVE_COLUMNS - 1)
    }

    fn column(&self, landed: &Landed) -> u32 {
        match self.places.get(&landed.file) {
            Some((place, size)) => {
                self.live_column(place + landed.offset.min(size.saturating_sub(1)))
            }
            None => {
                let part = landed.offset.min(NEW_FILE_BYTES - 1) * u64::from(NEW_COLUMNS);
                LIVE_COLUMNS + (part / NEW_FILE_BYTES) as u32
            }
        }
    }
}

/// The number in the name of a table file, `.../000123.sst`.
fn number_of(path: &[u8]) -> Option<u64> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let digits = name.strip_suffix(b".sst")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64, space: Space, level: i32, first: u8, bytes: u64) -> Placed {
        Placed { name: format!("{number:06}.sst"), space, level, bytes, first: vec![first] }
    }

    fn files() -> Vec<Placed> {
        vec![
            file(9, Space::Index, 6, 0, 40),
            file(7, Space::Records, 6, 5, 100),
            file(8, Space::Records, 6, 1, 60),
            file(5, Space::Records, 0, 0, 40),
        ]
    }

    #[test]
    fn files_stand_in_order_and_what_lands_has_a_column() {
        let map = DiskMap::new(Path::new("/x"));
        used(b"/x/000008.sst", 0, 10, false);
        let first = map.take(1, files);
        assert_eq!((first.reads.len(), first.columns, first.layout), (0, 256, 1), "nobody asked");
        let names: Vec<_> =
            first.segments.iter().map(|s| (s.space, s.level, s.from, s.to, s.files)).collect();
        let records = Space::Records.name();
        assert_eq!(
            names,
            [
                (records, 0, 0, 40, 1),
                (records, 6, 40, 200, 2),
                (Space::Index.name(), 6, 200, 240, 1),
                ("", 0, 240, 256, 0)
            ]
        );
        for (name, offset, is_write) in [
            ("/x/000008.sst", 0, false),
            ("/x/000008.sst", 59, false),
            ("/x/000007.sst", 0, false),
            ("/x/000007.sst", 0, false),
            ("/x/000009.sst", 1_000_000, false),
            ("/other/000007.sst", 0, false),
            ("000007.sst", 0, false),
            ("/x/000077.sst", 0, true),
            ("/x/000077.sst", 63 << 20, true),
            ("/x/000012.log", 0, true),
            ("/x/MANIFEST-1", 0, true),
        ] {
            used(name.as_bytes(), offset, 10, is_write);
        }
        let second = map.take(1, || panic!("the files are known"));
        assert_eq!(second.reads, [(40, 10), (99, 10), (100, 20), (239, 10)]);
        assert_eq!(second.writes, [(240, 10), (255, 10)]);
        let third = map.take(2, Vec::new);
        assert_eq!((third.layout, third.segments.len(), third.reads.len()), (2, 1, 0));
    }

    #[test]
    fn it_is_bounded() {
        let map = DiskMap::new(Path::new("/bounded"));
        map.take(1, files);
        (0..100_000).for_each(|_| map.note(b"/bounded/000007.sst", 0, 1, false));
        assert_eq!(map.take(1, files).reads, [(100, LANDED_MAX as u64)]);
        let many = (0..1000).map(|n| file(n, Space::Records, n as i32, 0, 10)).collect();
        assert_eq!(map.take(2, || many).segments.len(), SEGMENTS_MAX + 1);
    }
}
