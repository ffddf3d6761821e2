//! Lines of the form `name: value`, as `/proc/meminfo` and `/proc/PID/status` have them.

/// The value behind `name:`, without white space around it. The first line of that name counts.
pub fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field.trim() == name).then(|| value.trim())
    })
}

/// The first word behind `name:` as a number, in the file's unit.
pub fn number(text: &str, name: &str) -> Option<u64> {
    value(text, name)?.split_whitespace().next()?.parse().ok()
}

/// `name: 123 kB` in bytes.
pub fn bytes(text: &str, name: &str) -> Option<u64> {
    Some(number(text, name)?.saturating_mul(1024))
}

/// The number behind a name and a blank, as `memory.stat` of a control group has it.
pub(crate) fn spaced_number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_lines_and_huge_numbers() {
        let text = "MemTotalX: 1 kB\n:\nMemTotal\n  MemTotal :\t 12 kB\nMemTotal: 13 kB\n\
                    A: 18446744073709551616\nB: 18446744073709551615 kB\nC:\nD: -1\nE: 7";
        assert_eq!(value(text, "MemTotal"), Some("12 kB"));
        assert_eq!(bytes(text, "MemTotal"), Some(12_288));
        assert_eq!((number(text, "A"), bytes(text, "A")), (None, None));
        assert_eq!((number(text, "B"), bytes(text, "B")), (Some(u64::MAX), Some(u64::MAX)));
        assert_eq!((value(text, "C"), number(text, "C")), (Some(""), None));
        assert_eq!(
            (number(text, "D"), number(text, "E"), number(text, "F")),
            (None, Some(7), None)
        );
        assert_eq!(spaced_number("total_cache 5\ncache x\ncache 7\n", "cache"), Some(7));
        assert_eq!(spaced_number("cache7\n", "cache"), None);
    }
}
