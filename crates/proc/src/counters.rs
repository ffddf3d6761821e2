//! Tables of counters: `/proc/vmstat`, `/proc/net/netstat`, `/proc/diskstats`, `/proc/pressure`.

/// Pairs of lines `name value`, as in `/proc/vmstat`. Other lines are left out.
pub fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

/// Sizes in KiB of lines `Name: value kB`, as in `/proc/meminfo`. Other lines are left out.
pub fn sizes_kib(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name, value.trim().strip_suffix(" kB")?.parse().ok()?))
    })
}

/// Table, name and value of `/proc/net/netstat` and `/proc/net/snmp`, in which a line of names is followed by a line of
/// values: `TcpExt: a b`, `TcpExt: 1 2`. Values may be -1. Lines of another form are left out.
pub fn columns(text: &str) -> impl Iterator<Item = (&str, &str, i64)> {
    let mut lines = text.lines();
    let tables = std::iter::from_fn(move || {
        let (names, values) = (lines.next()?, lines.next()?);
        Some((names.split_once(':'), values.split_once(':')))
    });
    tables.filter_map(|(names, values)| names.zip(values)).flat_map(
        |((table, names), (of, values))| {
            let same = if table == of { values } else { "" };
            let pairs = names.split_whitespace().zip(same.split_whitespace());
            pairs.filter_map(move |(name, value)| Some((table, name, value.parse().ok()?)))
        },
    )
}

/// What a disk has done since the machine was started, by `/proc/diskstats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disk<'t> {
    pub name: &'t str,
    pub reads: u64,
    pub reads_merged: u64,
    pub read_sectors: u64,
    pub read_time_ms: u64,
    pub writes: u64,
    pub writes_merged: u64,
    pub write_sectors: u64,
    pub write_time_ms: u64,
    pub io_in_progress: u64,
    pub io_time_ms: u64,
    pub io_queued_ms: u64,
}

/// The block devices of `/proc/diskstats`, partitions too. Lines of another form are left out.
pub fn disks(text: &str) -> impl Iterator<Item = Disk<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(2);
        let name = fields.next()?;
        let mut number = || fields.next()?.parse().ok();
        Some(Disk {
            name,
            reads: number()?,
            reads_merged: number()?,
            read_sectors: number()?,
            read_time_ms: number()?,
            writes: number()?,
            writes_merged: number()?,
            write_sectors: number()?,
            write_time_ms: number()?,
            io_in_progress: number()?,
            io_time_ms: number()?,
            io_queued_ms: number()?,
        })
    })
}

/// Microseconds for which some, and for which all tasks waited, by a file of `/proc/pressure`.
pub fn stalled_us(text: &str) -> (Option<u64>, Option<u64>) {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        line.rsplit_once("total=")?.1.trim().parse().ok()
    };
    (total("some "), total("full "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_names_and_values() {
        let text = "nr_free_pages 12\nodd\nx -1\npgfault 7\n";
        assert_eq!(pairs(text).collect::<Vec<_>>(), [("nr_free_pages", 12), ("pgfault", 7)]);
        let text = "MemTotal:       2048 kB\nHugePages_Total:       0\nActive(anon): 5 kB\n";
        assert_eq!(sizes_kib(text).collect::<Vec<_>>(), [("MemTotal", 2048), ("Active(anon)", 5)]);
    }

    #[test]
    fn tables_of_two_lines() {
        let text = "Tcp: A MaxConn\nTcp: 5 -1\nIp: X\nUdp: 3\nIp: Y Z\nIp: 4\nTcp: A";
        let wanted = [("Tcp", "A", 5), ("Tcp", "MaxConn", -1), ("Ip", "Y", 4)];
        assert_eq!(columns(text).collect::<Vec<_>>(), wanted);
        assert_eq!(columns("nonsense\n\n:\n:").count(), 0);
    }

    #[test]
    fn disks_with_and_without_newer_columns() {
        let text = " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 0 0 0 0 0 0\n   8 0 sda 1 2\n";
        let found: Vec<_> = disks(text).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name, found[0].reads, found[0].io_queued_ms), ("vda", 1, 11));
    }

    #[test]
    fn pressure_of_processors_and_memory() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 total=3\n";
        assert_eq!(stalled_us(text), (Some(12), Some(3)));
        assert_eq!(stalled_us("some avg10=0.00 total=x"), (None, None));
    }

    #[test]
    fn this_machine() {
        assert!(crate::text("/proc/vmstat").is_some_and(|text| pairs(&text).count() > 10));
        assert!(crate::text("/proc/meminfo").is_some_and(|text| sizes_kib(&text).count() > 10));
    }
}
