//! Specifications of indexes of a time series collection, as its clients see them and as indexes of its buckets.
//!
//! ```text
//!   { m: 1 }     <-->  { meta: 1 }
//!   { m.x: -1 }  <-->  { meta.x: -1 }
//!   { t: 1 }     <-->  { control.min.t: 1, control.max.t: 1 }
//!   { t: -1 }    <-->  { control.max.t: -1, control.min.t: -1 }
//! ```
//!
//! Fields of measurements are treated as the time is. An index whose partial filter is on measurements, or on
//! geometries in them, has the client's specification in `originalSpec`.

use nagi_bson::{Doc, DocBuf, Value, number};
use nagi_error::{Code, Result, bail};

use crate::options::Options;

/// The option of an index of buckets that has the client's specification, if the others do not say it.
const ORIGINAL: &str = "originalSpec";

/// What the key pattern has for geometries in measurements.
const GEO_OF_BUCKETS: Value<'_> = Value::String("2dsphere_bucket");

impl Options {
    /// The specification for the buckets of an index that a client creates, without a namespace. `partial` converts a
    /// condition on measurements to one on buckets.
    ///
    /// # Errors
    /// 67, 72, 197 for indexes that a time series collection cannot have; the errors of `partial`.
    pub fn index_of_buckets(
        &self,
        spec: Doc<'_>,
        partial: &dyn Fn(Doc<'_>) -> Result<DocBuf>,
    ) -> Result<DocBuf> {
        let refused = [
            ("unique", "Unique indexes are not supported on time-series collections"),
            ("prepareUnique", "'prepareUnique' is not supported on time-series collections"),
        ];
        for (name, text) in refused {
            if spec.get(name).is_truthy() {
                bail!(Code::INVALID_OPTIONS, "{text}")
            }
        }
        if !spec.get(ORIGINAL).is_missing() {
            bail!(
                Code::INVALID_INDEX_SPECIFICATION_OPTION,
                "The field '{ORIGINAL}' is not valid for an index specification. Specification: {spec}"
            )
        }
        let Value::Doc(key) = spec.get("key") else { return Ok(spec.to_buf()) };
        if spec.get("sparse").is_truthy() && key.iter().any(|e| self.meta_path(e.name()).is_none())
        {
            bail!(
                Code::INVALID_OPTIONS,
                "Sparse indexes on time-series collections are only supported on the metaField"
            )
        }
        if !spec.get("expireAfterSeconds").is_nullish() {
            self.check_expiry(spec, key)?;
        }
        let key = self.key_of_buckets(key)?;
        let filter = match spec.get("partialFilterExpression") {
            Value::Doc(filter) => Some(partial(filter)?),
            _ => None,
        };
        // What cannot be told from the specification for buckets.
        let original = filter.is_some() || key.as_doc().iter().any(|e| e.value() == GEO_OF_BUCKETS);
        Ok(DocBuf::build(|out| {
            for element in spec {
                match (element.name(), &filter) {
                    // That of the client's collection.
                    ("ns", _) => {}
                    ("key", _) => out.put("key", &key),
                    (name @ "partialFilterExpression", Some(filter)) => out.put(name, filter),
                    _ => out.put_element(element),
                }
            }
            if original {
                out.doc(ORIGINAL, |out| {
                    spec.iter().filter(|e| e.name() != "ns").for_each(|e| out.put_element(e));
                });
            }
        }))
    }

    /// Measurements expire by an index on the time that is only of buckets of some metadata; those of all metadata do
    /// by the option of the collection.
    fn check_expiry(&self, spec: Doc<'_>, key: Doc<'_>) -> Result<()> {
        if key.count() > 1 {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: {spec}"
            )
        }
        let Value::Doc(filter) = spec.get("partialFilterExpression") else {
            bail!(
                Code::INVALID_OPTIONS,
                "TTL indexes are not supported on time-series collections without a \
                 partialFilterExpression on the metaField"
            )
        };
        if !key.iter().all(|e| e.name() == &*self.time_field && e.value().is_number()) {
            bail!(
                Code::INVALID_OPTIONS,
                "TTL indexes on time-series collections are only supported on the timeField"
            )
        }
        if !self.is_on_meta(filter) {
            bail!(
                Code::INVALID_OPTIONS,
                "The partialFilterExpression of a TTL index on a time-series collection must only \
                 refer to the metaField"
            )
        }
        Ok(())
    }

    /// True for a condition that names nothing but metadata, at least once.
    fn is_on_meta(&self, filter: Doc<'_>) -> bool {
        let all = |parts: nagi_bson::Array<'_>| {
            parts.iter().all(|part| part.as_doc().is_some_and(|part| self.is_on_meta(part)))
        };
        !filter.is_empty()
            && filter.iter().all(|element| match (element.name(), element.value()) {
                ("$and" | "$or", Value::Array(parts)) => all(parts),
                (name, _) => self.meta_path(name).is_some(),
            })
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
            if value == Value::String("2dsphere") {
                fields.push((format!("data.{name}"), GEO_OF_BUCKETS));
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
        if let Value::Doc(original) = spec.get(ORIGINAL) {
            return Some(with_changes(original, spec));
        }
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

/// The client's specification, with the options of the buckets' index that `collMod` changes, or that it has by
/// default.
fn with_changes(original: Doc<'_>, spec: Doc<'_>) -> DocBuf {
    const CHANGED: &[&str] = &["hidden", "expireAfterSeconds", "2dsphereIndexVersion", "collation"];
    DocBuf::build(|out| {
        out.put("v", spec.get("v"));
        let kept = |name| name != "v" && !CHANGED.contains(&name);
        original.iter().filter(|e| kept(e.name())).for_each(|e| out.put_element(e));
        spec.iter().filter(|e| CHANGED.contains(&e.name())).for_each(|e| out.put_element(e));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::json;

    fn options() -> Options {
        let options = json::parse("{timeField: 't', metaField: 'm'}").unwrap();
        Options::parse(options.as_doc(), "db.c").unwrap()
    }

    fn same(partial: Doc<'_>) -> Result<DocBuf> {
        Ok(partial.to_buf())
    }

    #[test]
    fn specifications_are_kept_where_buckets_do_not_tell_them() {
        let spec = json::parse(
            "{key: {t: 1}, name: 'x', expireAfterSeconds: 5, partialFilterExpression: {'m.a': 1}}",
        )
        .unwrap();
        let kept = options().index_of_buckets(spec.as_doc(), &same).unwrap();
        assert_eq!(kept.get("key").to_string(), "{ control.min.t: 1, control.max.t: 1 }");
        let hidden = nagi_bson::doc! {
            "v": 2, "key": (kept.get("key")), "hidden": true, "expireAfterSeconds": 7,
            "originalSpec": (kept.get("originalSpec"))
        };
        assert_eq!(
            options().index_of_clients(hidden.as_doc()).unwrap().as_doc().to_string(),
            "{ v: 2, key: { t: 1 }, name: \"x\", partialFilterExpression: { m.a: 1 }, hidden: true, \
             expireAfterSeconds: 7 }"
        );
        let geo = json::parse("{key: {'a.b': '2dsphere', m: 1}, name: 'y'}").unwrap();
        let geo = options().index_of_buckets(geo.as_doc(), &same).unwrap();
        assert_eq!(geo.get("key").to_string(), "{ data.a.b: \"2dsphere_bucket\", meta: 1 }");
        let back = options().index_of_clients(geo.as_doc()).unwrap();
        assert_eq!(back.get("key").to_string(), "{ a.b: \"2dsphere\", m: 1 }");
    }

    #[test]
    fn the_default_collation_of_buckets_is_told() {
        let partial = json::parse("{key: {a: 1}, name: 'x', partialFilterExpression: {a: 1}}");
        let kept = options().index_of_buckets(partial.unwrap().as_doc(), &same).unwrap();
        let collated = DocBuf::build(|out| {
            kept.as_doc().iter().for_each(|element| out.put_element(element));
            out.doc("collation", |out| out.put("locale", "en"));
        });
        let shown = options().index_of_clients(collated.as_doc()).unwrap();
        assert_eq!(shown.get("collation").to_string(), "{ locale: \"en\" }");
        assert!(options().index_of_clients(kept.as_doc()).unwrap().get("collation").is_missing());
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
            ("{key: {t: 1}, originalSpec: {}}", 197),
            ("{key: {t: 1, m: 1}, expireAfterSeconds: 5, partialFilterExpression: {m: 1}}", 67),
            ("{key: {m: 1}, expireAfterSeconds: 5, partialFilterExpression: {m: 1}}", 72),
            ("{key: {t: 1}, expireAfterSeconds: 5, partialFilterExpression: {m: 1, t: 5}}", 72),
            (
                "{key: {t: 1}, expireAfterSeconds: 5, partialFilterExpression: {$or: [{m: 1}, {a: 5}]}}",
                72,
            ),
            ("{key: {t: 1}, expireAfterSeconds: 5, partialFilterExpression: {}}", 72),
            ("{key: {a: 'text'}}", 72),
            ("{key: {t: 'hashed'}}", 67),
            ("{key: {a: '2d'}}", 67),
            ("{key: {'$**': 1}}", 67),
            ("{key: {mm: 0}}", 67),
        ];
        for (spec, code) in cases {
            let spec = json::parse(spec).unwrap();
            let error = options().index_of_buckets(spec.as_doc(), &same).unwrap_err();
            assert_eq!(error.code().0, code, "{}", spec.as_doc());
        }
        let kept =
            json::parse("{v: 2, key: {m: 1}, name: 'x', sparse: true, unique: false}").unwrap();
        let kept = options().index_of_buckets(kept.as_doc(), &same).unwrap();
        assert_eq!(
            kept.as_doc().to_string(),
            "{ v: 2, key: { meta: 1 }, name: \"x\", sparse: true, unique: false }"
        );
    }
}
