//! The machine: its name, its kernel, its distribution, its processors.

/// The host's name; none if it is not known or empty.
pub fn host_name() -> Option<String> {
    line("/proc/sys/kernel/hostname")
}

/// Release of the kernel: `6.1.0-18-amd64`.
pub fn kernel_release() -> Option<String> {
    line("/proc/sys/kernel/osrelease")
}

/// The kernel with its compiler and the time of its build.
pub fn kernel_version() -> Option<String> {
    line("/proc/version")
}

fn line(path: &str) -> Option<String> {
    let text = crate::text(path)?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Processors that are on line; at least one.
pub fn processor_count() -> usize {
    crate::text("/proc/cpuinfo").map_or(1, |text| count_processors(&text))
}

fn count_processors(cpuinfo: &str) -> usize {
    cpuinfo.lines().filter(|line| line.starts_with("processor")).count().max(1)
}

/// Name and version of the distribution; empty where it does not say.
pub fn distribution() -> (String, String) {
    let text = crate::text("/etc/os-release").unwrap_or_default();
    (release_value(&text, "NAME").to_owned(), release_value(&text, "VERSION_ID").to_owned())
}

fn release_value<'t>(text: &'t str, name: &str) -> &'t str {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or("").trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_other_forms() {
        let text = "PRETTY_NAME=\"X 1\"\nNAME=\"X\"\nVERSION_ID=12\n=\nID\n";
        assert_eq!((release_value(text, "NAME"), release_value(text, "VERSION_ID")), ("X", "12"));
        assert_eq!((release_value(text, "ID"), release_value("", "NAME")), ("", ""));
        assert_eq!(count_processors("processor\t: 0\nmodel: x\n\nprocessor\t: 1\n"), 2);
        assert_eq!((count_processors(""), count_processors("cpu: 5")), (1, 1));
        assert_eq!(line("/proc/no such file"), None);
        assert!(kernel_release().is_some() && kernel_version().is_some());
        assert!(host_name().is_none_or(|name| !name.is_empty() && name.trim() == name));
        assert!(processor_count() >= 1);
    }
}
