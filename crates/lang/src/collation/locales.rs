//! The locales whose rules are built in, with MongoDB's names.
//!
//! A name consists of a language, an optional script and region, and an optional variant of the order after
//! `@collation=`. Only canonical names are accepted (`en`, not `EN` or `en_GB`): a specification is stored and
//! compared as text, so two names of one order would be two collations.

/// All names, sorted.
#[rustfmt::skip]
static LOCALES: &[&str] = &[
    "af", "am", "ar", "ar@collation=compat", "ar_SA", "ar_SA@collation=compat", "as", "az", "be",
    "bg", "bn", "bn@collation=traditional", "bo", "br", "bs", "bs_Cyrl", "ca", "ceb", "chr", "cs",
    "cy", "da", "de", "de@collation=eor", "de@collation=phonebook", "de_AT",
    "de_AT@collation=phonebook", "dsb", "dz", "ee", "el", "en", "en_US", "en_US_POSIX", "eo",
    "es", "es@collation=traditional", "et", "fa", "fa_AF", "ff", "ff_Adlm", "fi",
    "fi@collation=traditional", "fil", "fo", "fr", "fr_CA", "fy", "ga", "gl", "gu", "ha", "he",
    "he_IL", "hi", "hr", "hsb", "hu", "hy", "id", "id_ID", "ig", "is", "it", "ja",
    "ja@collation=unihan", "ka", "kk", "km", "kn", "kn@collation=traditional", "ko",
    "ko@collation=unihan", "kok", "ku", "ky", "lb", "ln", "lo", "lt", "lv", "mk", "ml", "mn",
    "mr", "ms", "mt", "my", "nb", "nb_NO", "ne", "nl", "nn", "om", "or", "pa", "pa_Guru",
    "pa_Guru_IN", "pl", "ps", "pt", "ro", "ru", "sa", "si", "si@collation=dictionary", "sk", "sl",
    "sq", "sr", "sr_Cyrl", "sr_Cyrl_BA", "sr_Cyrl_ME", "sr_Cyrl_RS", "sr_Latn", "sr_Latn_BA",
    "sr_Latn_RS", "sv", "sv@collation=traditional", "sw", "ta", "te", "th", "tk", "to", "tr",
    "ug", "uk", "ur", "uz", "vi", "vi@collation=traditional", "wae", "wo", "xh", "yo", "zh",
    "zh@collation=stroke", "zh@collation=unihan", "zh@collation=zhuyin", "zh_Hans",
    "zh_Hans@collation=stroke", "zh_Hans@collation=unihan", "zh_Hans@collation=zhuyin",
    "zh_Hans_CN", "zh_Hans_CN@collation=stroke", "zh_Hans_CN@collation=unihan",
    "zh_Hans_CN@collation=zhuyin", "zh_Hans_SG", "zh_Hans_SG@collation=stroke",
    "zh_Hans_SG@collation=unihan", "zh_Hans_SG@collation=zhuyin", "zh_Hant",
    "zh_Hant@collation=pinyin", "zh_Hant@collation=unihan", "zh_Hant@collation=zhuyin",
    "zh_Hant_HK", "zh_Hant_HK@collation=pinyin", "zh_Hant_HK@collation=unihan",
    "zh_Hant_HK@collation=zhuyin", "zh_Hant_MO", "zh_Hant_MO@collation=pinyin",
    "zh_Hant_MO@collation=unihan", "zh_Hant_MO@collation=zhuyin", "zh_Hant_TW",
    "zh_Hant_TW@collation=pinyin", "zh_Hant_TW@collation=unihan", "zh_Hant_TW@collation=zhuyin",
    "zu",
];

/// The languages with normalization by default.
#[rustfmt::skip]
static NORMALIZED: &[&str] = &[
    "as", "bn", "bo", "el", "fa", "gu", "he", "hi", "ig", "km", "kn", "kok", "mr", "my", "or", "pa",
    "ps", "si", "ta", "te", "th", "vi", "wo", "yo",
];

/// The maximal length of a name for which a suggestion is made. It is longer than any known name.
const NAME_BYTES_MAX: usize = 32;

/// The variants whose Unicode key differs from their name.
static VARIANTS: &[(&str, &str)] =
    &[("dictionary", "dict"), ("phonebook", "phonebk"), ("traditional", "trad")];

/// The defaults of a locale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Defaults {
    pub(super) upper_first: bool,
    pub(super) shifted: bool,
    pub(super) normalization: bool,
    pub(super) backwards: bool,
}

/// Finds a name in the table.
pub(super) fn find(name: &str) -> Option<&'static str> {
    LOCALES.binary_search(&name).ok().map(|at| LOCALES[at])
}

/// The defaults of a known locale.
pub(super) fn defaults(name: &str) -> Defaults {
    let language = name.split(['_', '@']).next().unwrap_or(name);
    Defaults {
        upper_first: matches!(language, "da" | "mt"),
        shifted: language == "th",
        normalization: NORMALIZED.binary_search(&language).is_ok(),
        backwards: name == "fr_CA",
    }
}

/// The Unicode language tag of a known locale.
pub(super) fn tag(name: &str) -> String {
    let (place, variant) = name.split_once("@collation=").unwrap_or((name, ""));
    let mut tag = place.replace('_', "-");
    if !variant.is_empty() {
        let key = VARIANTS.iter().find(|(name, _)| *name == variant).map_or(variant, |row| row.1);
        tag.push_str("-u-co-");
        tag.push_str(key);
    }
    tag
}

/// The nearest known name to an unknown one: without its variant, in canonical case, and with trailing parts removed.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let place = name.split('@').next().unwrap_or(name);
    if place.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut parts: Vec<String> = place.split(['_', '-']).map(str::to_owned).collect();
    for (at, part) in parts.iter_mut().enumerate() {
        part.make_ascii_lowercase();
        match part.len() {
            _ if at == 0 => {}
            4 => part.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase),
            _ => part.make_ascii_uppercase(),
        }
    }
    while !parts.is_empty() {
        if let Some(known) = find(&parts.join("_")) {
            return Some(known);
        }
        parts.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted() {
        assert!(LOCALES.is_sorted());
        assert!(NORMALIZED.is_sorted());
    }

    #[test]
    fn names_become_tags_and_suggestions() {
        assert_eq!(tag("de@collation=phonebook"), "de-u-co-phonebk");
        assert_eq!(tag("zh_Hant"), "zh-Hant");
        for (given, expected) in [
            ("EN", Some("en")),
            ("en_GB", Some("en")),
            ("en@collation=foo", Some("en")),
            ("ZH_hant_xx", Some("zh_Hant")),
            ("xx_yy", None),
            ("", None),
            ("_", None),
        ] {
            assert_eq!(nearest(given), expected, "{given}");
        }
    }
}
