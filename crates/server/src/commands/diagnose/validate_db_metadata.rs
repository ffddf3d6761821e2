//! `validateDBMetadata`: lists indexes and views that a client could not create with the stable API alone.
//!
//! Only API version "1" has rules: with `strict`, it excludes text and sparse indexes, and views with stages
//! outside the API. `deprecationErrors` finds nothing, because version 1 has deprecated nothing.

use nagi_store::Collection;

use crate::auth::Target;
use crate::commands::crud::check_stages_of_api;
use crate::core::command::prelude::*;

pub(in crate::commands) static VALIDATE_DB_METADATA: Command = Command {
    facts: Facts {
        name: "validateDBMetadata",
        help: "Lists indexes and views that are outside a version of the stable API.",
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "validateDBMetadata" => Args {
    one:            Value<'a>       = "validateDBMetadata",
    api_parameters: Doc<'a>         = "apiParameters",
    db:             Option<&'a str> = "db",
    collection:     Option<&'a str> = "collection",
}}

/// The limit of findings in one reply, in bytes. `hasMoreErrors` reports that there were more.
const FINDINGS_BYTES_MAX: usize = 12 << 20;

/// Requires the action `validate` on the requested database or collection; without a database, on the normal
/// collections of all databases.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    Ok(match (args.db, args.collection) {
        (Some(db), Some(collection)) => asking.on_collection(db, collection, Action::Validate),
        (Some(db), None) => asking.on_database(db, Action::Validate),
        (None, _) => asking.allows(Target::Everywhere, Action::Validate),
    })
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let rules = Rules::parse(args.api_parameters)?;
    let catalog = cx.store().catalog();
    let asking = cx.asking();
    // Without a database in the request, the server's own databases are checked only if the user has privileges
    // on them.
    let wanted = |db: &str| match args.db {
        Some(named) => named == db,
        None => asking.on_database(db, Action::Validate),
    };
    let mut bytes = 0;
    let mut has_more = false;
    out.array("apiVersionErrors", |list| -> Result<()> {
        for db in catalog.databases().filter(|db| wanted(db)) {
            cx.check()?;
            for one in catalog.database(db) {
                let name = one.namespace.collection();
                if args.collection.is_some_and(|named| named != name) {
                    continue;
                }
                rules.check(one, &mut |error| {
                    let finding = describe(one, &error);
                    bytes += finding.as_doc().as_bytes().len();
                    has_more |= bytes > FINDINGS_BYTES_MAX;
                    if !has_more {
                        list.push_doc(finding.as_doc());
                    }
                });
                if has_more {
                    return Ok(());
                }
            }
        }
        Ok(())
    })?;
    if has_more {
        out.put("hasMoreErrors", true);
    }
    Ok(())
}

fn describe(collection: &Collection, error: &Error) -> DocBuf {
    DocBuf::build(|w| {
        w.put("ns", collection.namespace.as_str());
        w.put("code", error.code().0);
        w.put("codeName", error.code().name().as_ref());
        w.put("errmsg", error.message());
    })
}

/// The rules that metadata is checked against.
struct Rules {
    /// Only features of API version 1 are allowed.
    strict: bool,
}

impl Rules {
    fn parse(parameters: Doc<'_>) -> Result<Rules> {
        let (mut version, mut strict) = (None, false);
        for parameter in parameters {
            let (name, value) = (parameter.name(), parameter.value());
            match (name, value) {
                ("version", Value::String(text)) => version = Some(text),
                ("version", other) => return Err(wrong_type(name, other, "string")),
                ("strict", Value::Bool(on)) => strict = on,
                ("deprecationErrors", Value::Bool(_)) => {}
                ("strict" | "deprecationErrors", value) if value.is_nullish() => {}
                ("strict" | "deprecationErrors", other) => {
                    return Err(wrong_type(name, other, "bool"));
                }
                _ => bail!(
                    Code::IDL_UNKNOWN_FIELD,
                    "BSON field 'validateDBMetadata.apiParameters.{name}' is an unknown field."
                ),
            }
        }
        let Some(version) = version else {
            bail!(
                Code::IDL_FAILED_TO_PARSE,
                "BSON field 'validateDBMetadata.apiParameters.version' is missing but a required field"
            );
        };
        Ok(Rules { strict: strict && version == "1" })
    }

    fn check(&self, collection: &Collection, found: &mut dyn FnMut(Error)) {
        if !self.strict {
            return;
        }
        if let Some(view) = &collection.options.view
            && let Err(error) = check_stages_of_api(view.pipeline.as_array())
        {
            found(error);
        }
        let outside = |spec: &nagi_store::IndexSpec| spec.sparse || !spec.kind.facts().in_api;
        for index in collection.named_indexes().filter(|index| outside(&index.spec)) {
            found(err!(
                Code::API_STRICT_ERROR,
                "The index with name {} is not allowed in API version 1.",
                index.name()
            ));
        }
    }
}

fn wrong_type(name: &str, found: Value<'_>, expected: &str) -> Error {
    err!(
        Code::TYPE_MISMATCH,
        "BSON field 'validateDBMetadata.apiParameters.{name}' is the wrong type '{}', expected type \
         '{expected}'",
        found.kind().name()
    )
}
