//! Sections of PEM files (RFC 7468), with the headers of encrypted keys in the old format (RFC 1421).

use nagi_bson::json::base64_decode;
use zeroize::Zeroizing;

/// The maximum size of a file of certificates, keys or revocation lists.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

/// How much of a label messages show.
const LABEL_CHARS_MAX: usize = 64;

/// One section: `-----BEGIN label-----`, headers, base64, `-----END label-----`.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) label: String,
    /// `Name: value` lines before the base64.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) bytes: Zeroizing<Vec<u8>>,
}

impl Section {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// All sections of a text; text between them is skipped.
///
/// # Errors
/// If a section does not end, or is not base64.
pub(crate) fn sections(text: &str) -> Result<Vec<Section>, String> {
    // Editors of other systems put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().map(str::trim);
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        let Some(label) = label(line, "-----BEGIN ") else { continue };
        all.push(section(label, &mut lines)?);
    }
    Ok(all)
}

fn label<'a>(line: &'a str, beginning: &str) -> Option<&'a str> {
    line.strip_prefix(beginning)?.strip_suffix("-----")
}

fn section<'a>(label: &str, lines: &mut impl Iterator<Item = &'a str>) -> Result<Section, String> {
    let (mut headers, mut base64) = (Vec::new(), Zeroizing::new(String::new()));
    for line in lines {
        if let Some(end) = self::label(line, "-----END ") {
            if end != label {
                let (label, end) = (shown(label), shown(end));
                return Err(format!("'BEGIN {label}' is followed by 'END {end}'"));
            }
            let bytes = base64_decode(&base64)
                .ok_or_else(|| format!("the section '{}' is not base64", shown(label)))?;
            let label = label.to_owned();
            return Ok(Section { label, headers, bytes: Zeroizing::new(bytes) });
        }
        match line.split_once(": ") {
            Some((name, value)) if base64.is_empty() => {
                headers.push((name.to_owned(), value.to_owned()));
            }
            _ => base64.push_str(line),
        }
    }
    Err(format!("the section '{}' has no end", shown(label)))
}

/// The beginning of a label, for messages: what stands in a file may be as long as the file.
fn shown(label: &str) -> &str {
    label.char_indices().nth(LABEL_CHARS_MAX).map_or(label, |(end, _)| &label[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_with_headers_and_text_between() {
        let text = "subject=x\n-----BEGIN A-----\nAAEC\nAwQ=\n-----END A-----\nmore\r\n-----BEGIN B-----\r\n\
                    Proc-Type: 4,ENCRYPTED\r\nDEK-Info: AES-128-CBC,00\r\n\r\n/w==\r\n-----END B-----";
        let all = sections(text).unwrap();
        assert_eq!((all[0].label.as_str(), &all[0].bytes[..]), ("A", &[0, 1, 2, 3, 4][..]));
        assert_eq!(all[1].header("DEK-Info"), Some("AES-128-CBC,00"));
        assert_eq!((all.len(), &all[1].bytes[..]), (2, &[255][..]));
        for (bad, says) in [
            ("-----BEGIN A-----\nAA==\n", "no end"),
            ("-----BEGIN A-----\n?\n-----END A-----", "not base64"),
            ("-----BEGIN A-----\n-----END B-----", "followed by"),
        ] {
            assert!(sections(bad).unwrap_err().contains(says));
        }
        assert!(sections("").unwrap().is_empty());
        assert_eq!(sections(&format!("\u{feff}{text}")).unwrap().len(), 2);
        let long = format!("-----BEGIN {}-----\n", "\u{e9}".repeat(100_000));
        assert!(
            sections(&long).unwrap_err().len() < 200,
            "a message shows the beginning of a label"
        );
    }
}
