//! The specification of a text index: the indexed strings of a document, their weights and their languages.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

use super::Language;

/// The properties of a text index, without its other key fields.
#[derive(Debug, Clone, PartialEq)]
pub struct TextSpec {
    /// The indexed paths with their weights, sorted.
    pub fields: Box<[(Box<str>, f64)]>,
    /// The weight of all other strings, for an index on all fields.
    pub wildcard: Option<f64>,
    pub default_language: Language,
    /// The name of the field that sets the language of its document.
    pub language_override: Box<str>,
    /// The version, 1 to 3.
    pub version: u8,
}

/// An indexed string of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indexed<'d> {
    pub(super) text: &'d str,
    pub(super) language: Language,
    pub(super) weight: f64,
}

impl TextSpec {
    /// Calls `visit` with every indexed string of `doc`, until it returns false.
    ///
    /// # Errors
    /// 17261 and 17262 for a language that is not a string or not known.
    pub(super) fn for_each<'d>(
        &self,
        doc: Doc<'d>,
        visit: &mut dyn FnMut(Indexed<'d>) -> bool,
    ) -> Result<()> {
        let mut walk = Walk { spec: self, path: String::new(), visit, open: true };
        walk.doc(doc, self.default_language, true)
    }

    fn weight(&self, path: &str) -> Option<f64> {
        match self.fields.binary_search_by(|(field, _)| (**field).cmp(path)) {
            Ok(at) => Some(self.fields[at].1),
            Err(_) => self.wildcard,
        }
    }

    /// Returns true if strings below `path` may be indexed.
    fn leads(&self, path: &str) -> bool {
        let below = |field: &str| field.strip_prefix(path).is_some_and(|r| r.starts_with('.'));
        self.wildcard.is_some() || self.fields.iter().any(|(field, _)| below(field))
    }

    fn language_of(&self, doc: Doc<'_>, around: Language) -> Result<Language> {
        match doc.get(&self.language_override) {
            Value::Missing => Ok(around),
            Value::String(name) => match Language::of_version(name, self.version) {
                Some(language) => Ok(language),
                None => bail!(Code::Location(17262), "language override unsupported: {name}"),
            },
            _ if self.version == 1 => Ok(around),
            _ => bail!(
                Code::Location(17261),
                "found language override field in document with non-string type"
            ),
        }
    }
}

struct Walk<'s, 'd, 'v> {
    spec: &'s TextSpec,
    path: String,
    visit: &'v mut dyn FnMut(Indexed<'d>) -> bool,
    /// False if the visitor has stopped the walk.
    open: bool,
}

impl<'d> Walk<'_, 'd, '_> {
    fn doc(&mut self, doc: Doc<'d>, around: Language, is_root: bool) -> Result<()> {
        // In version 1 only the root document sets a language.
        let own = is_root || self.spec.version > 1;
        let language = if own { self.spec.language_of(doc, around)? } else { around };
        for element in doc {
            if *element.name() == *self.spec.language_override {
                continue;
            }
            let length = self.path.len();
            if !is_root {
                self.path.push('.');
            }
            self.path.push_str(element.name());
            self.value(element.value(), language)?;
            self.path.truncate(length);
            if !self.open {
                break;
            }
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'d>, language: Language) -> Result<()> {
        match value {
            Value::String(text) => {
                if let Some(weight) = self.spec.weight(&self.path) {
                    self.open = (self.visit)(Indexed { text, language, weight });
                }
                Ok(())
            }
            Value::Doc(doc) if self.spec.leads(&self.path) => self.doc(doc, language, false),
            Value::Array(array) => {
                for item in array.iter() {
                    if !self.open {
                        break;
                    }
                    self.value(item, language)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
