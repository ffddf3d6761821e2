//! `/proc/PID/stat` and `/proc/stat`: times in ticks of the kernel.

/// Length of a tick in these files, whatever the kernel's own clock is.
pub const TICK_US: u64 = 10_000;

/// State, faults and times of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// `R` runs, `S` sleeps, `Z` has ended and its parent has not fetched its status.
    pub state: char,
    /// Faults that needed no disk.
    pub minor_faults: u64,
    /// Faults for which a page was read from disk.
    pub major_faults: u64,
    pub user_ticks: u64,
    pub system_ticks: u64,
}

impl Stat {
    /// User and system time.
    pub fn ticks(self) -> u64 {
        self.user_ticks.saturating_add(self.system_ticks)
    }

    /// The same in microseconds.
    pub fn cpu_us(self) -> u64 {
        self.ticks().saturating_mul(TICK_US)
    }
}

/// Reads the line of `/proc/PID/stat`.
pub fn parse(text: &str) -> Option<Stat> {
    // The name stands in parentheses and may hold anything, also a parenthesis.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let mut number = |skipped: usize| fields.nth(skipped)?.parse::<u64>().ok();
    Some(Stat {
        state,
        minor_faults: number(6)?,
        major_faults: number(1)?,
        user_ticks: number(1)?,
        system_ticks: number(0)?,
    })
}

/// Ticks of all processors since the machine was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineTicks {
    /// Of everything, idleness too.
    pub all: u64,
    /// In which any code ran, or the host ran something else.
    pub used: u64,
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, waiting for a disk, and others.
pub fn parse_machine(text: &str) -> Option<MachineTicks> {
    let fields = text.lines().next()?.split_whitespace().skip(1).take(8);
    let fields: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    let [_, _, _, idle, waiting, _, _, _] = fields[..] else { return None };
    let all = fields.iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
    Some(MachineTicks { all, used: all.saturating_sub(idle).saturating_sub(waiting) })
}

/// The same of this machine.
pub fn machine() -> Option<MachineTicks> {
    parse_machine(&crate::text("/proc/stat")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_after_any_name() {
        let stat = parse("12 (a) b (c) S 1 2 3 4 5 6 7 8 99 10 11 12 13\n").unwrap();
        let wanted = Stat {
            state: 'S',
            minor_faults: 7,
            major_faults: 99,
            user_ticks: 11,
            system_ticks: 12,
        };
        assert_eq!((stat, stat.ticks(), stat.cpu_us()), (wanted, 23, 230_000));
        assert_eq!(parse("1 (x) Z 1 2 3 4 5 6 7 8 0 0 0 0").map(|stat| stat.state), Some('Z'));
        let huge = parse(&format!("1 (x) R 1 2 3 4 5 6 7 8 9 10 {} 7", u64::MAX)).unwrap();
        assert_eq!(huge.cpu_us(), u64::MAX);
        for odd in ["", "12 (a", "12 (a) S 1 2", "12 (a) S 1 2 3 4 5 6 7 8 x 10 11 12", "1 (a)"] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn ticks_of_the_machine() {
        let text = "cpu  10 1 5 100 20 2 3 4 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(parse_machine(text), Some(MachineTicks { all: 145, used: 25 }));
        assert_eq!((parse_machine("cpu 1 2 3"), parse_machine("")), (None, None));
        assert!(machine().is_some_and(|ticks| ticks.all > 0));
    }
}
