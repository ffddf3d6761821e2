//! WiredTiger's configuration strings: `block_compressor=zstd,log=(enabled=true),...`.
//!
//! Tools and applications choose a collection's compressor with such a string. It is parsed strictly: a key that
//! WiredTiger does not know is an error with WiredTiger's text; a known key is accepted only with the value that
//! describes what this server does in any case, and otherwise refused by name. So no requested setting is silently
//! ignored.
//!
//!   string   pair, pair, ...          separators may be repeated and surrounded by blanks
//!   pair     key [= or : value]       a key alone is `true`
//!   value    word | "quoted" | ( ... ) or [ ... ] or { ... }, nested

use nagi_bson::Value;
use nagi_error::{Code, Error, Result, bail};
use nagi_kv::Compressor;

/// Limit of the string's length.
const BYTES_MAX: usize = 16 << 10;
const DEPTH_MAX: usize = 16;

/// The settings in a table's string.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableConfig {
    pub compressor: Option<Compressor>,
}

/// The settings in the server's string.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EngineConfig {
    pub cache_bytes: Option<u64>,
    pub journal_compressor: Option<Compressor>,
    pub zstd_level: Option<i32>,
}

/// The values that a key accepts.
enum Says {
    Compressor,
    /// Only these values, because they describe the actual behaviour.
    Only(&'static [&'static str]),
    /// No value: the feature does not exist here.
    Nothing,
}

const OFF: Says = Says::Only(&["false", "0", "", "none"]);
const ZERO: Says = Says::Only(&["0", "0B", "0KB", "0MB"]);

/// Keys of WiredTiger's `WT_SESSION.create`, sorted.
static TABLE_KEYS: &[(&str, Says)] = &[
    ("access_pattern_hint", Says::Only(&["none"])),
    ("allocation_size", Says::Only(&["4KB", "4K", "4096"])),
    ("app_metadata", Says::Only(&["", "formatVersion=1"])),
    ("assert", OFF),
    ("block_allocation", Says::Only(&["best"])),
    ("block_compressor", Says::Compressor),
    ("block_manager", Says::Only(&["default"])),
    ("cache_resident", OFF),
    ("checksum", Says::Only(&["on"])),
    ("colgroups", OFF),
    ("collator", OFF),
    ("columns", OFF),
    ("dictionary", ZERO),
    ("disaggregated", OFF),
    ("encryption", OFF),
    ("exclusive", OFF),
    ("extractor", OFF),
    ("format", Says::Only(&["btree"])),
    ("huffman_key", OFF),
    ("huffman_value", OFF),
    ("ignore_in_memory_cache_size", OFF),
    ("immutable", OFF),
    ("import", OFF),
    ("in_memory", OFF),
    ("internal_item_max", ZERO),
    ("internal_key_max", ZERO),
    ("internal_key_truncate", Says::Nothing),
    ("internal_page_max", Says::Nothing),
    ("key_format", Says::Only(&["q", "u"])),
    ("key_gap", Says::Nothing),
    ("leaf_item_max", ZERO),
    ("leaf_key_max", ZERO),
    ("leaf_page_max", Says::Nothing),
    ("leaf_value_max", ZERO),
    ("log", Says::Only(&["enabled=true", "enabled"])),
    ("lsm", OFF),
    ("memory_page_image_max", ZERO),
    ("memory_page_max", Says::Nothing),
    ("os_cache_dirty_max", ZERO),
    ("os_cache_max", ZERO),
    ("prefix_compression", Says::Only(&["true", "1"])),
    ("prefix_compression_min", Says::Nothing),
    ("readonly", OFF),
    ("source", OFF),
    ("split_deepen_min_child", Says::Nothing),
    ("split_deepen_per_child", Says::Nothing),
    ("split_pct", Says::Nothing),
    ("tiered_storage", OFF),
    ("type", Says::Only(&["file"])),
    ("value_format", Says::Only(&["u"])),
    ("verbose", OFF),
    ("write_timestamp_usage", Says::Only(&["none"])),
];

/// Parses the string of a collection or an index.
///
/// # Errors
/// 2 with WiredTiger's text for an invalid string; 115 for a setting that this server does not support.
pub fn table_config(text: &str) -> Result<TableConfig> {
    let mut config = TableConfig::default();
    for (key, value) in pairs(text)? {
        let Ok(row) = TABLE_KEYS.binary_search_by(|row| row.0.cmp(key)) else {
            return Err(invalid(format!("unknown configuration key: '{key}'")));
        };
        match TABLE_KEYS[row].1 {
            Says::Compressor => config.compressor = Some(compressor(value)?),
            Says::Only(values) if values.contains(&value) => {}
            Says::Only(_) | Says::Nothing => return Err(useless(key, value)),
        }
    }
    Ok(config)
}

/// Parses `storage.wiredTiger.engineConfig.configString`.
///
/// # Errors
/// The same as for [`table_config`].
pub fn engine_config(text: &str) -> Result<EngineConfig> {
    let mut config = EngineConfig::default();
    for (key, value) in pairs(text)? {
        match key {
            "cache_size" => config.cache_bytes = Some(size(value)?),
            "log" => {
                for (key, value) in pairs(value)? {
                    match (key, value) {
                        ("enabled", "true" | "1") => {}
                        ("compressor", name) => config.journal_compressor = Some(compressor(name)?),
                        _ => return Err(useless(&format!("log.{key}"), value)),
                    }
                }
            }
            "builtin_extension_config" => {
                for (key, value) in pairs(value)? {
                    let "zstd" = key else { return Err(useless(key, value)) };
                    for (key, value) in pairs(value)? {
                        match (key, value.parse::<i32>()) {
                            ("compression_level", Ok(level)) if (-7..=22).contains(&level) => {
                                config.zstd_level = Some(level);
                            }
                            _ => return Err(useless(&format!("zstd.{key}"), value)),
                        }
                    }
                }
            }
            _ => return Err(useless(key, value)),
        }
    }
    Ok(config)
}

/// An empty name means none.
fn compressor(name: &str) -> Result<Compressor> {
    let name = if name.is_empty() { "none" } else { name };
    Compressor::by_name(name).ok_or_else(|| invalid(format!("unknown compressor '{name}'")))
}

/// Parses bytes: a number with an optional unit, in powers of 1024.
fn size(value: &str) -> Result<u64> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match value[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        "T" | "TB" => 40,
        _ => 64,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| {
        let bytes = number.checked_shl(shift)?;
        (bytes >> shift == number).then_some(bytes)
    });
    bytes.ok_or_else(|| invalid(format!("Value '{value}' is not a size")))
}

#[cold]
fn invalid(why: String) -> Error {
    Error::new(Code::BAD_VALUE, format!("22: Invalid argument. {why}."))
}

#[cold]
fn useless(key: &str, value: &str) -> Error {
    Error::new(
        Code::COMMAND_NOT_SUPPORTED,
        format!("configString '{key}={value}' is not supported by this server's storage engine"),
    )
}

/// Splits the string at its top level, without copying.
fn pairs(text: &str) -> Result<Vec<(&str, &str)>> {
    if text.len() > BYTES_MAX {
        bail!(Code::BAD_VALUE, "22: Invalid argument. configString is longer than {BYTES_MAX}.");
    }
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
        if rest.is_empty() {
            return Ok(found);
        }
        let at = text.len() - rest.len();
        let broken = |why: &str| invalid(format!("Error parsing '{text}' at offset {at}: {why}"));
        let (key, after) = word(rest).ok_or_else(|| broken("Unbalanced brackets"))?;
        if key.is_empty() {
            return Err(broken("Unexpected character"));
        }
        let after = after.trim_start();
        rest = match after.strip_prefix(['=', ':']) {
            None => {
                found.push((key, "true"));
                after
            }
            Some(after) => {
                let after = after.trim_start();
                let (value, after) = word(after).ok_or_else(|| broken("Unbalanced brackets"))?;
                found.push((key, value));
                after
            }
        };
        if !rest.is_empty() && !rest.starts_with(|c: char| c == ',' || c.is_ascii_whitespace()) {
            return Err(broken("Unexpected character"));
        }
    }
}

/// The word, quoted text or bracketed text at the beginning of `text`, without quotes, and the rest; none if it is
/// not terminated.
fn word(text: &str) -> Option<(&str, &str)> {
    match text.as_bytes().first() {
        Some(b'"') => {
            let end = text[1..].find('"')? + 1;
            Some((&text[1..end], &text[end + 1..]))
        }
        Some(b'(' | b'[' | b'{') => {
            let mut open = Vec::new();
            for (at, byte) in text.bytes().enumerate() {
                match byte {
                    b'(' => open.push(b')'),
                    b'[' => open.push(b']'),
                    b'{' => open.push(b'}'),
                    b')' | b']' | b'}' if open.pop() != Some(byte) => return None,
                    _ => {}
                }
                if open.is_empty() {
                    return Some((&text[1..at], &text[at + 1..]));
                }
                if open.len() > DEPTH_MAX {
                    return None;
                }
            }
            None
        }
        _ => {
            let ends = |c: char| ",=:()[]{}\"".contains(c) || c.is_ascii_whitespace();
            Some(text.split_at(text.find(ends).unwrap_or(text.len())))
        }
    }
}

/// Checks the `storageEngine` of a collection or an index.
pub(crate) fn check_engine(value: Value<'_>) -> Result<()> {
    let Value::Doc(engines) = value else {
        bail!(Code::BAD_VALUE, "'storageEngine' has to be a document.");
    };
    if engines.is_empty() {
        bail!(
            Code::BAD_VALUE,
            "Empty 'storageEngine' options are invalid. Please remove the field or include valid \
             options."
        );
    }
    for element in engines {
        if element.value().as_doc().is_none() {
            bail!(
                Code::BAD_VALUE,
                "'storageEngine.{}' has to be an embedded document.",
                element.name()
            );
        }
        // Its content is parsed when the collection is created: see `space`.
        if element.name() != "wiredTiger" {
            bail!(
                Code::INVALID_OPTIONS,
                "{} is not a registered storage engine for this server",
                element.name()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (i32, String) {
        let error = table_config(text).unwrap_err();
        (error.code().0, error.message().to_owned())
    }

    #[test]
    fn the_compressor_is_found_and_the_last_one_counts() {
        for (text, wanted) in [
            ("", None),
            (" , block_compressor = zstd , ", Some(Compressor::Zstd)),
            ("block_compressor:\"lz4\"", Some(Compressor::Lz4)),
            ("block_compressor=", Some(Compressor::None)),
            (
                "block_compressor=zlib,log=(enabled=true),block_compressor=snappy",
                Some(Compressor::Snappy),
            ),
            ("type=file,key_format=q,checksum=on,prefix_compression", None),
        ] {
            assert_eq!(table_config(text).unwrap().compressor, wanted, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let (code, text) = error("foo=bar");
        assert_eq!((code, &*text), (2, "22: Invalid argument. unknown configuration key: 'foo'."));
        let (code, text) = error("block_compressor=lzo");
        assert_eq!((code, &*text), (2, "22: Invalid argument. unknown compressor 'lzo'."));
        assert_eq!(error("leaf_page_max=64KB").0, 115);
        assert_eq!(error("prefix_compression=false").0, 115);
        for text in ["log=(enabled", "=", "a=(]", "a=\"b", "x)", "log=(enabled=true)x"] {
            assert_eq!(error(text).0, 2, "{text}");
        }
        assert_eq!(error(&"(".repeat(1000)).0, 2);
        assert_eq!(error(&",".repeat(BYTES_MAX + 1)).0, 2);
    }

    #[test]
    fn the_servers_own() {
        let text = "cache_size=2GB,log=(compressor=zstd),builtin_extension_config={zstd={compression_level=9}}";
        let config = engine_config(text).unwrap();
        assert_eq!(config.cache_bytes, Some(2 << 30));
        assert_eq!(
            (config.journal_compressor, config.zstd_level),
            (Some(Compressor::Zstd), Some(9))
        );
        for text in
            ["cache_size=x", "cache_size=99999999999T", "eviction=(threads_max=4)", "log=(a=b)"]
        {
            assert!(engine_config(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_keys_are_sorted() {
        assert!(TABLE_KEYS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
