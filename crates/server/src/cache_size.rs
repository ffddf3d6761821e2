//! The parameter `internalQueryStatsCacheSize`: `1%`, `100MB`.

use nagi_budget::Budget;

/// The default of the parameter.
pub(crate) const DEFAULT_SIZE: &str = "1%";
/// The largest size, in bytes, and as a percentage of the memory budget.
const BYTES_MAX: u64 = 1 << 30;
const PERCENT_MAX: f64 = 25.0;

/// A size in bytes, or in percent of the memory budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CacheSize {
    Bytes(f64),
    Percent(f64),
}

impl CacheSize {
    /// Reads a number and its unit: `%`, `KB`, `MB` or `GB`.
    pub(crate) fn parse(text: &str) -> Option<CacheSize> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..digits].parse().ok()?;
        match text[digits..].trim().to_ascii_uppercase().as_str() {
            "%" if number <= 100.0 => Some(CacheSize::Percent(number)),
            "KB" => Some(CacheSize::Bytes(number * 1024.0)),
            "MB" => Some(CacheSize::Bytes(number * (1 << 20) as f64)),
            "GB" => Some(CacheSize::Bytes(number * (1 << 30) as f64)),
            _ => None,
        }
    }

    /// The bytes; without a budget there is no more than the largest size.
    pub(crate) fn bytes(self, budget: &Budget) -> u64 {
        let all = budget.bytes().unwrap_or(BYTES_MAX) as f64;
        let bytes = match self {
            CacheSize::Bytes(bytes) => bytes,
            CacheSize::Percent(percent) => all * percent / 100.0,
        };
        (bytes.min(all * PERCENT_MAX / 100.0) as u64).min(BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_limits() {
        let budget = Budget::new(1 << 30);
        let bytes = |text: &str| CacheSize::parse(text).map(|size| size.bytes(&budget));
        assert_eq!(bytes("1%"), Some((1 << 30) / 100));
        assert_eq!(bytes("100 MB"), Some(100 << 20));
        assert_eq!(bytes("1.5kb"), Some(1536));
        assert_eq!(bytes("7GB"), Some(1 << 28));
        assert_eq!(bytes("90%"), Some(1 << 28));
        for bad in ["", "5", "-1%", "101%", "MB", "1TB", "1.2.3MB", "1%MB"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
        assert!(CacheSize::parse(DEFAULT_SIZE).is_some());
    }
}
