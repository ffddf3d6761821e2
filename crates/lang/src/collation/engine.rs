//! Creates a collator of the library ICU4X from a specification.
//!
//! The library's options cover every field of a specification except `backwards` (accents compare from the end),
//! which is part of a locale's metadata. [`Source`] provides the built-in data with that bit changed.

use icu_collator::{
    Collator, CollatorBorrowed, CollatorPreferences,
    options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength},
    preferences::{CollationCaseFirst, CollationNumericOrdering},
    provider as data,
};
use icu_locale_core::Locale;
use icu_normalizer::provider as normal;
use icu_provider::prelude::{DataError, DataPayload, DataProvider, DataRequest, DataResponse};

use super::{locales, spec::CaseFirst, spec::Spec};

/// The bit of the metadata for backwards accents.
const BACKWARDS: u32 = 1 << 7;

/// The built-in data with a given value of the `backwards` bit.
struct Source {
    backwards: bool,
}

macro_rules! built_in {
    ($from:path: $($marker:path),* $(,)?) => {
        $(impl DataProvider<$marker> for Source {
            fn load(&self, request: DataRequest<'_>) -> Result<DataResponse<$marker>, DataError> {
                DataProvider::<$marker>::load(&$from, request)
            }
        })*
    };
}

built_in!(data::Baked:
    data::CollationDiacriticsV1,
    data::CollationJamoV1,
    data::CollationReorderingV1,
    data::CollationRootV1,
    data::CollationSpecialPrimariesV1,
    data::CollationTailoringV1,
);
built_in!(normal::Baked: normal::NormalizerNfdDataV1, normal::NormalizerNfdTablesV1);

impl DataProvider<data::CollationMetadataV1> for Source {
    fn load(
        &self,
        request: DataRequest<'_>,
    ) -> Result<DataResponse<data::CollationMetadataV1>, DataError> {
        let mut found = DataProvider::<data::CollationMetadataV1>::load(&data::Baked, request)?;
        let mut metadata = *found.payload.get();
        metadata.bits &= !BACKWARDS;
        if self.backwards {
            metadata.bits |= BACKWARDS;
        }
        found.payload = DataPayload::from_owned(metadata);
        Ok(found)
    }
}

/// The collator of a specification. It lives as long as the process, so the caller must create only one per
/// specification.
///
/// # Errors
/// The errors of the library. They do not occur for the locales of the table.
pub(super) fn collator(spec: &Spec) -> Result<CollatorBorrowed<'static>, String> {
    let locale: Locale = locales::tag(spec.locale).parse().map_err(|e| format!("{e:?}"))?;
    let mut preferences = CollatorPreferences::from(&locale);
    preferences.case_first = Some(match spec.case_first {
        CaseFirst::Off => CollationCaseFirst::False,
        CaseFirst::Upper => CollationCaseFirst::Upper,
        CaseFirst::Lower => CollationCaseFirst::Lower,
    });
    preferences.numeric_ordering = Some(match spec.numeric_ordering {
        true => CollationNumericOrdering::True,
        false => CollationNumericOrdering::False,
    });
    let mut options = CollatorOptions::default();
    options.strength = Some(match spec.strength {
        1 => Strength::Primary,
        2 => Strength::Secondary,
        3 => Strength::Tertiary,
        4 => Strength::Quaternary,
        _ => Strength::Identical,
    });
    options.case_level = Some(if spec.case_level { CaseLevel::On } else { CaseLevel::Off });
    options.alternate_handling = Some(match spec.shifted {
        true => AlternateHandling::Shifted,
        false => AlternateHandling::NonIgnorable,
    });
    options.max_variable = Some(match spec.only_space {
        true => MaxVariable::Space,
        false => MaxVariable::Punctuation,
    });
    if spec.backwards == locales::defaults(spec.locale).backwards {
        return CollatorBorrowed::try_new(preferences, options).map_err(|e| e.to_string());
    }
    let source = Source { backwards: spec.backwards };
    let made = Collator::try_new_unstable(&source, preferences, options);
    let made: &'static Collator = Box::leak(Box::new(made.map_err(|e| e.to_string())?));
    Ok(made.as_borrowed())
}
