//! `/proc/self/mountinfo`: the mount that contains a path, and the block device below it.
//!
//!   36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//!         dev  root  point options   optional... - type source     super options

use std::path::Path;

/// The table of mounts.
pub const PATH: &str = "/proc/self/mountinfo";

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor`; major 0 stands for no block device of its own.
    pub device: String,
    /// The folder of the file system that is mounted.
    pub root: String,
    pub point: String,
    /// Type of the file system.
    pub kind: String,
    /// What is mounted: `/dev/sda1`, `server:/export`, `tmpfs`.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Whether it has an option, of its own or of its file system.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|o| o == option)
    }

    /// Where the settings of the block device may stand: for a whole disk, then for a partition of one.
    pub fn queue_folders(&self) -> Vec<String> {
        let mut devices = Vec::new();
        if !self.device.starts_with("0:") {
            devices.push(format!("/sys/dev/block/{}", self.device));
        } else if let Some(name) = self.source.strip_prefix("/dev/").filter(|n| !n.contains('/')) {
            // Btrfs has a device number of its own, but names the disk.
            devices.push(format!("/sys/class/block/{name}"));
        }
        devices.iter().flat_map(|d| [format!("{d}/queue"), format!("{d}/../queue")]).collect()
    }
}

/// All mounts of a table; lines of another form are left out.
pub fn all(table: &str) -> impl Iterator<Item = Mount> {
    table.lines().filter_map(parse)
}

/// The mount that holds an absolute path: the longest one, and of those the last.
pub fn holding(table: &str, path: &str) -> Option<Mount> {
    let holds = |mount: &Mount| match path.strip_prefix(mount.point.trim_end_matches('/')) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    };
    all(table).filter(holds).max_by_key(|mount| mount.point.len())
}

/// The mount that holds an absolute path, by the table of this process.
pub fn of(path: &Path) -> Option<Mount> {
    holding(&crate::text(PATH)?, path.to_str()?)
}

fn parse(line: &str) -> Option<Mount> {
    let (own, file_system) = line.split_once(" - ")?;
    let mut own = own.split(' ').skip(2);
    let (device, root, point) = (own.next()?, own.next()?, own.next()?);
    let options = own.next()?;
    let mut file_system = file_system.split(' ');
    let (kind, source) = (file_system.next()?, file_system.next()?);
    let of_file_system = file_system.next().unwrap_or("");
    Some(Mount {
        device: device.to_owned(),
        root: unescape(root),
        point: unescape(point),
        kind: kind.to_owned(),
        source: unescape(source),
        options: options.split(',').chain(of_file_system.split(',')).map(str::to_owned).collect(),
    })
}

/// Decodes spaces and other special characters, which are written as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:1 / / rw,relatime shared:1 master:2 - ext4 /dev/vda1 rw,discard
28 27 0:40 / /my\\040data rw - btrfs /dev/sdb1 rw
29 27 8:16 / /my\\040data rw,noatime - xfs /dev/sdb rw
not a mount
";

    #[test]
    fn finds_the_mount_of_a_path() {
        let root = holding(SAMPLE, "/my").unwrap();
        assert_eq!((root.kind.as_str(), root.point.as_str()), ("ext4", "/"));
        assert!(root.has("relatime") && root.has("discard") && !root.has("noatime"));
        let queues = ["/sys/dev/block/254:1/queue", "/sys/dev/block/254:1/../queue"];
        assert_eq!(root.queue_folders(), queues);
        let last = holding(SAMPLE, "/my data/x").unwrap();
        assert_eq!((last.kind.as_str(), last.point.as_str()), ("xfs", "/my data"));
        let btrfs = all(SAMPLE).find(|m| m.kind == "btrfs").unwrap();
        assert_eq!(btrfs.queue_folders()[0], "/sys/class/block/sdb1/queue");
        assert_eq!(holding("", "/"), None);
        assert_eq!(unescape("a\\0x\\"), "a\\0x\\");
        assert_eq!(unescape("a\\777\\04"), "a\\777\\04", "no byte");
        // Not `/`: the root of a chroot need not be a mount.
        assert!(of(Path::new("/proc/self")).is_some_and(|mount| mount.kind == "proc"));
    }
}
