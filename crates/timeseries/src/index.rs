//! Specifications of indexes of a time series collection, as its clients see them and as indexes of its buckets.
//!
//! ```text
//!   { m: 1 }     <-->  { meta: 1 }
//!   { m.x: -1 }  <-->  { meta.x: -1 }
//!   { t: 1 }     <-->  { control.min.t: 1, control.max.t: 1 }
//!   { t: -1 }    <-->  { control.max.t: -1, control.min.t: -1 }
//! ```
//!
//! Fields of measurements are treated as the time is.

use nagi_bson::{Doc, DocBuf, Value, number};
use nagi_error::{Code, Result, bail};

use crate::options::Options;

impl Options {
    /// The specification for the buckets of an index that a client creates.
    ///
    /// # Errors
    /// 67, 72 for indexes that a time series collection cannot have.
    pub fn index_of_buckets(&self, spec: Doc<'_>) -> Result<DocBuf> {
        let refused = [
            ("unique", "Unique indexes are not supported on time-series collections"),
            ("prepareUnique", "'prepareUnique' is not supported on time-series collections"),
            ("expireAfterSeconds", "TTL indexes are not supported on time-series collections"),
            (
                "partialFilterExpression",
                "Partial indexes are not supported on time-series collections by this server",
            ),
        ];
        for (name, text) in refused {
            let value = spec.get(name);
            // An expiry of zero seconds is one, too.
            if value.is_truthy() || (name == "expireAfterSeconds" && !value.is_nullish()) {
                bail!(Code::INVALID_OPTIONS, "{text}")
            }
        }
        let Value::Doc(key) = spec.get("key") else { return Ok(spec.to_buf()) };
        if spec.get("sparse").is_truthy() && key.iter().any(|e| self.meta_path(e.name()).is_none())
        {
            bail!(
                Code::INVALID_OPTIONS,
                "Sparse indexes on time-series collections are only supported on the metaField"
            )
        }
        let key = self.key_of_buckets(key)?;
        Ok(DocBuf::build(|out| {
            for element in spec {
                match element.name() {
                    "key" => out.put("key", &key),
                    _ => out.put_element(element),
                }
            }
        }))
    }

    /// The key pattern for the buckets of a client's key pattern.
    ///
    /// # Errors
    /// 67 if a field other than the metadata is not ascending or descending; 72 for a text index.
    pub fn key_of_buckets(&self, key: Doc<'_>) -> Result<DocBuf> {
        let mut fields: Vec<(String, Value<'_>)> = Vec::new();
        for element in key {
            let (name, value) = (element.name(), element.value());
            if value.as_str() == Some("text") {
                bail!(
                    Code::INVALID_OPTIONS,
                    "Text indexes are not supported on time-series collections"
                )
            }
            if let Some(path) = self.meta_path(name) {
                fields.push((path, value));
                continue;
            }
            let direction = number::as_f64(value).filter(|n| *n != 0.0 && !n.is_nan());
            let Some(direction) = direction.filter(|_| !name.contains("$**")) else {
                bail!(
                    Code::CANNOT_CREATE_INDEX,
                    "Invalid index spec for time-series collection: {key}. Indexes are supported on \
                     the '{}' field in ascending or descending order, and on the metaField",
                    self.time_field
                )
            };
            let ends = if direction > 0.0 { ["min", "max"] } else { ["max", "min"] };
            fields.extend(ends.map(|end| (format!("control.{end}.{name}"), value)));
        }
        Ok(DocBuf::build(|out| fields.iter().for_each(|(name, value)| out.put(name, *value))))
    }

    /// The specification that clients see; none for an index of the buckets that no client's specification creates.
    pub fn index_of_clients(&self, spec: Doc<'_>) -> Option<DocBuf> {
        let key = self.key_of_clients(spec.get("key").as_doc()?)?;
        Some(DocBuf::build(|out| {
            for element in spec {
                match element.name() {
                    "key" => out.put("key", &key),
                    _ => out.put_element(element),
                }
            }
        }))
    }

    fn key_of_clients(&self, key: Doc<'_>) -> Option<DocBuf> {
        let mut fields: Vec<(String, Value<'_>)> = Vec::new();
        let mut elements = key.iter();
        while let Some(element) = elements.next() {
            let (name, value) = (element.name(), element.value());
            if let Some(rest) = name.strip_prefix("meta")
                && (rest.is_empty() || rest.starts_with('.'))
            {
                fields.push((format!("{}{rest}", self.meta_field.as_deref()?), value));
                continue;
            }
            let (first, second) = match number::as_f64(value)? {
                n if n > 0.0 => ("control.min.", "control.max."),
                _ => ("control.max.", "control.min."),
            };
            let field = name.strip_prefix(first)?;
            let other = elements.next()?;
            if other.name().strip_prefix(second) != Some(field) || other.value() != value {
                return None;
            }
            fields.push((field.to_owned(), value));
        }
        Some(DocBuf::build(|out| fields.iter().for_each(|(name, value)| out.put(name, *value))))
    }

    /// The path in a bucket of a path into the metadata of a measurement.
    pub fn meta_path(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(self.meta_field.as_deref()?)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| format!("meta{rest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::json;

    fn options() -> Options {
        let options = json::parse("{timeField: 't', metaField: 'm'}").unwrap();
        Options::parse(options.as_doc(), "db.c").unwrap()
    }

    #[test]
    fn keys_are_converted_both_ways() {
        let cases = [
            ("{ m: 1 }", "{ meta: 1 }"),
            ("{ m.x: -1, t: 1 }", "{ meta.x: -1, control.min.t: 1, control.max.t: 1 }"),
            ("{ t: -1 }", "{ control.max.t: -1, control.min.t: -1 }"),
            (
                "{ a.b: 1, m: \"hashed\" }",
                "{ control.min.a.b: 1, control.max.a.b: 1, meta: \"hashed\" }",
            ),
            ("{ m.$**: 1 }", "{ meta.$**: 1 }"),
        ];
        for (given, expected) in cases {
            let quoted =
                given.replace("m.$**", "'m.$**'").replace("m.x", "'m.x'").replace("a.b", "'a.b'");
            let key = json::parse(&quoted).unwrap();
            let converted = options().key_of_buckets(key.as_doc()).unwrap();
            assert_eq!(converted.as_doc().to_string(), expected);
            let spec = nagi_bson::doc! { "key": (&converted), "name": "n" };
            let back = options().index_of_clients(spec.as_doc()).unwrap();
            assert_eq!(back.get("key").to_string(), given);
            assert_eq!(back.get("name"), Value::String("n"));
        }
        for own in ["{_id: 1}", "{'control.min.t': 1}", "{'control.min.t': 1, 'control.max.u': 1}"]
        {
            let spec = json::parse(&format!("{{key: {own}}}")).unwrap();
            assert!(options().index_of_clients(spec.as_doc()).is_none(), "{own}");
        }
    }

    #[test]
    fn other_indexes_are_refused() {
        let cases = [
            ("{key: {t: 1}, unique: true}", 72),
            ("{key: {t: 1}, expireAfterSeconds: 0}", 72),
            ("{key: {t: 1}, sparse: true}", 72),
            ("{key: {m: 1}, partialFilterExpression: {m: 1}}", 72),
            ("{key: {a: 'text'}}", 72),
            ("{key: {t: 'hashed'}}", 67),
            ("{key: {a: '2dsphere'}}", 67),
            ("{key: {'$**': 1}}", 67),
            ("{key: {mm: 0}}", 67),
        ];
        for (spec, code) in cases {
            let spec = json::parse(spec).unwrap();
            let error = options().index_of_buckets(spec.as_doc()).unwrap_err();
            assert_eq!(error.code().0, code, "{}", spec.as_doc());
        }
        let kept =
            json::parse("{v: 2, key: {m: 1}, name: 'x', sparse: true, unique: false}").unwrap();
        let kept = options().index_of_buckets(kept.as_doc()).unwrap();
        assert_eq!(
            kept.as_doc().to_string(),
            "{ v: 2, key: { meta: 1 }, name: \"x\", sparse: true, unique: false }"
        );
    }
}
