//! `updateDescription`: the difference of two documents, as dotted paths.
//!
//! ```text
//!   {u: {a: 1}, d: {b: false}, sc: {i: {d: 2}}, se: {a: true, l: 3, u0: 5}}
//!   {updatedFields: {a: 1, "c.d": 2, "e.0": 5}, removedFields: ["b"], truncatedArrays: [{field: "e", newSize: 3}]}
//! ```

use nagi_bson::{Doc, DocWriter, Value};

/// A component of a path: a field, or a position in an array.
#[derive(Clone, Copy)]
enum Step<'d> {
    Field(&'d str),
    Index(i32),
}

/// A path with its components.
struct Path<'d> {
    dotted: String,
    steps: Vec<Step<'d>>,
}

/// What has changed, by path.
#[derive(Default)]
struct Changes<'d> {
    updated: Vec<(Path<'d>, Value<'d>)>,
    removed: Vec<Path<'d>>,
    truncated: Vec<(Path<'d>, Value<'d>)>,
}

/// Writes the field `updateDescription` for a difference of version 2. `expanded`: with `disambiguatedPaths`.
pub(super) fn put(diff: Doc<'_>, expanded: bool, out: &mut DocWriter<'_>) {
    let mut changes = Changes::default();
    changes.of_doc(diff, &mut Vec::new());
    out.doc("updateDescription", |out| {
        out.doc("updatedFields", |out| {
            changes.updated.iter().for_each(|(path, value)| out.put(&path.dotted, *value));
        });
        out.array("removedFields", |out| {
            changes.removed.iter().for_each(|path| out.push(&*path.dotted));
        });
        out.array("truncatedArrays", |out| {
            for (path, length) in &changes.truncated {
                out.doc(|out| {
                    out.put("field", &*path.dotted);
                    out.put("newSize", *length);
                });
            }
        });
        if expanded {
            out.doc("disambiguatedPaths", |out| changes.put_ambiguous(out));
        }
    });
}

impl<'d> Path<'d> {
    fn of(around: &[Step<'d>], last: Option<Step<'d>>) -> Path<'d> {
        let steps: Vec<Step<'d>> = around.iter().copied().chain(last).collect();
        let texts = steps.iter().map(|step| match step {
            Step::Field(name) => (*name).to_owned(),
            Step::Index(at) => at.to_string(),
        });
        let dotted = texts.collect::<Vec<_>>().join(".");
        Path { dotted, steps }
    }

    /// True if the dotted path could also mean another place.
    fn is_ambiguous(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Field(name) => {
                name.contains('.')
                    || !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
            }
            Step::Index(_) => true,
        })
    }
}

impl<'d> Changes<'d> {
    /// Recursion is as deep as the difference, which is no deeper than documents.
    fn of_doc(&mut self, diff: Doc<'d>, around: &mut Vec<Step<'d>>) {
        for section in diff {
            let Value::Doc(inner) = section.value() else { continue };
            match section.name() {
                "d" => {
                    let gone = inner.iter().map(|e| Path::of(around, Some(Step::Field(e.name()))));
                    self.removed.extend(gone);
                }
                "u" | "i" => {
                    for element in inner {
                        let path = Path::of(around, Some(Step::Field(element.name())));
                        self.updated.push((path, element.value()));
                    }
                }
                name => {
                    if let Some(name) = name.strip_prefix('s') {
                        around.push(Step::Field(name));
                        self.inside(inner, around);
                        around.pop();
                    }
                }
            }
        }
    }

    fn inside(&mut self, diff: Doc<'d>, around: &mut Vec<Step<'d>>) {
        match diff.get("a") == Value::Bool(true) {
            true => self.of_array(diff, around),
            false => self.of_doc(diff, around),
        }
    }

    fn of_array(&mut self, diff: Doc<'d>, around: &mut Vec<Step<'d>>) {
        for element in diff {
            let name = element.name();
            if name == "l" {
                self.truncated.push((Path::of(around, None), element.value()));
                continue;
            }
            let Some(at) = name.get(1..).and_then(|digits| digits.parse().ok()) else { continue };
            match (name.as_bytes().first(), element.value()) {
                (Some(b'u'), value) => {
                    self.updated.push((Path::of(around, Some(Step::Index(at))), value));
                }
                (Some(b's'), Value::Doc(inner)) => {
                    around.push(Step::Index(at));
                    self.inside(inner, around);
                    around.pop();
                }
                _ => {}
            }
        }
    }

    fn put_ambiguous(&self, out: &mut DocWriter<'_>) {
        let updated = self.updated.iter().map(|(path, _)| path);
        let truncated = self.truncated.iter().map(|(path, _)| path);
        for path in updated.chain(&self.removed).chain(truncated) {
            if !path.is_ambiguous() {
                continue;
            }
            out.array(&path.dotted, |out| {
                for step in &path.steps {
                    match step {
                        Step::Field(name) => out.push(*name),
                        Step::Index(at) => out.push(*at),
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, json};

    use super::*;

    fn check(diff: &str, expanded: bool, expect: &str) {
        let diff = json::parse(diff).unwrap();
        let made = DocBuf::build(|out| put(diff.as_doc(), expanded, out));
        assert_eq!(made.as_doc().get("updateDescription").as_doc().unwrap().to_string(), expect);
    }

    #[test]
    fn differences_become_paths() {
        check(
            "{d: {b: false}, u: {a: 1}, i: {n: 2}, sc: {i: {d: 2}, d: {x: false}}, \
              se: {a: true, l: 3, u0: 5, s1: {u: {f: 1}}}}",
            false,
            "{ updatedFields: { a: 1, n: 2, c.d: 2, e.0: 5, e.1.f: 1 }, removedFields: [ \"b\", \
             \"c.x\" ], truncatedArrays: [ { field: \"e\", newSize: 3 } ] }",
        );
        check("{}", false, "{ updatedFields: {}, removedFields: [], truncatedArrays: [] }");
    }

    #[test]
    fn ambiguous_paths_are_listed() {
        check(
            "{u: {\"a.b\": 1, c: 2}, s0: {d: {x: false}}, se: {a: true, u7: 5}}",
            true,
            "{ updatedFields: { a.b: 1, c: 2, e.7: 5 }, removedFields: [ \"0.x\" ], truncatedArrays: [], \
             disambiguatedPaths: { a.b: [ \"a.b\" ], e.7: [ \"e\", 7 ], 0.x: [ \"0\", \"x\" ] } }",
        );
    }
}
