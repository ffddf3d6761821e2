//! Formats numbers for people.

/// `512 B`, `3.5 KB`, `64 MB`, `1.5 GB`: powers of 1024, with at most one digit after the point.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (n as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 10.0 && value.fract() >= 0.05);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `85 us`, `1.5 ms`, `2.3 s`.
pub(crate) fn micros(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} us"),
        us if us < 1_000_000.0 => format!("{:.1} ms", us / 1_000.0),
        us => format!("{:.1} s", us / 1_000_000.0),
    }
}

/// `part` as a percentage of `whole`; 100 if `whole` is zero.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 100.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (3584, "3.5 KB"),
            (64 << 20, "64 MB"),
            (u64::MAX, "16384 PB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        assert_eq!([micros(85.4), micros(1500.0), micros(2.3e6)], ["85 us", "1.5 ms", "2.3 s"]);
        assert_eq!(percent(1, 0), 100.0);
    }
}
