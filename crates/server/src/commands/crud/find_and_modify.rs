//! `findAndModify`: changes or removes one document and returns it.

use nagi_lang::collation::Asked;
use nagi_query::{Explained, FindAndModifyRequest, FoundAndModified, Hint, Searched, Verbosity};
use nagi_store::{Durability, Namespace};

use super::encryption;
use super::update::{array_filters, note_update};
use super::writes::{in_env, make_durable, refuse_series_in_transaction};
use crate::commands::common::{check_writable, namespace};
use crate::core::command::prelude::*;
use crate::core::txn_number::{self, Codec};

pub(in crate::commands) static FIND_AND_MODIFY: Command = Command {
    facts: Facts {
        name: "findAndModify",
        aliases: &["findandmodify"],
        help: "Changes or removes one document and returns it.",
        write: true,
        api_v1: true,
        on_collection: true,
        latency: LatencyKind::Write,
        in_transaction: true,
        retryable: true,
        operators: &[
            ("query", Holds::ChangeFilter),
            ("update", Holds::Pipeline),
            ("fields", Holds::Projection),
        ],
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    explain: Some(explain),
    ..Command::ROW
};

args! { "findAndModify" => Args {
    collection:      Option<Name<'a>>  = "findAndModify",
    old_name:        Option<Name<'a>>  = "findandmodify",
    query:           Option<Doc<'a>>   = "query",
    sort:            Option<Doc<'a>>   = "sort",
    remove:          Option<bool>      = "remove",
    update:          Value<'a>         = "update",
    new:             Option<bool>      = "new",
    fields:          Option<Doc<'a>>   = "fields",
    upsert:          Option<bool>      = "upsert",
    bypass:          Option<bool>      = "bypassDocumentValidation",
    bypass_ts:       Option<bool>      = "bypassEmptyTsReplacement",
    collation:       Option<Doc<'a>>   = "collation",
    array_filters:   Option<Array<'a>> = "arrayFilters",
    hint:            Value<'a>         = "hint",
    let_vars:        Option<Doc<'a>>   = "let",
    sample_id:       Value<'a>         = "sampleId",
    encryption:      Value<'a>         = "encryptionInformation",
}}

impl<'a> Args<'a> {
    pub(super) fn name(&self) -> &'a str {
        self.collection.or(self.old_name).map_or("", |name| name.0)
    }
}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let may = |action| asking.on_collection(req.db, args.name(), action);
    let changes = match args.remove {
        Some(true) => may(Action::Remove),
        _ => may(Action::Update) && (args.upsert != Some(true) || may(Action::Insert)),
    };
    let bypasses = args.bypass != Some(true) || may(Action::BypassDocumentValidation);
    Ok(may(Action::Find) && changes && bypasses)
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.name())?;
    check_writable(cx, &ns)?;
    refuse_series_in_transaction(cx, &ns)?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    txn_number::check_statements(req, 1)?;
    let _writing = cx.begin_write(req.db)?;
    let concern = cx.write_concern(req);
    let filters = array_filters(args.array_filters)?;
    encryption::prepare(cx, encryption.as_ref(), &ns)?;
    let request = to_request(&args, &ns, &filters)?;
    let encryption = encryption.as_ref();
    let id = txn_number::statement_id(req, 0);
    let found = txn_number::once(cx, id, &FOUND, &mut |cx| {
        let searched = Searched::Filter(request.filter);
        let nothing = |found: &FoundAndModified| found.n == 0;
        let modify_in = &mut |cx: &mut Context<'_>, searched: Searched<'_>| {
            let filter = encryption::filter_of(searched);
            let request = FindAndModifyRequest { filter, encryption, ..request };
            in_env(cx, |store, env| {
                nagi_query::find_and_modify(store, &request, Durability::Buffered, env)
            })
        };
        encryption::with_upsert(cx, (encryption, request.upsert), &mut |cx| {
            encryption::search(cx, (encryption, &ns), searched, &nothing, modify_in)
        })
    })?;
    let removed = args.remove == Some(true);
    out.doc("lastErrorObject", |doc| {
        doc.put("n", found.n as i32);
        if !removed {
            doc.put("updatedExisting", found.updated_existing);
        }
        if let Some(id) = &found.upserted {
            doc.put("upserted", id.value());
        }
    });
    out.put("value", found.value.as_ref().map_or(Value::Null, |doc| Value::Doc(doc.as_doc())));
    match removed {
        true => cx.done.deleted = Some(found.n),
        false => {
            let upserted = u64::from(found.upserted.is_some());
            let modified = u64::from(found.modified);
            note_update(&mut cx.done, found.n - upserted, modified, upserted);
        }
    }
    make_durable(cx, &concern)?;
    txn_number::write_retried_one(cx, out);
    Ok(())
}

/// How the result of a statement is stored in the session's records: with the returned document.
static FOUND: Codec<FoundAndModified> = Codec {
    write: |found| {
        (found.n > 0).then(|| {
            DocBuf::build(|w| {
                w.put("n", found.n as i64);
                w.put("updatedExisting", found.updated_existing);
                if let Some(id) = &found.upserted {
                    w.put("upserted", id.value());
                }
                if let Some(value) = &found.value {
                    w.put("value", value);
                }
            })
        })
    },
    read: |doc| {
        let upserted = doc.get("upserted");
        FoundAndModified {
            n: crate::number::truncate(doc.get("n")).unwrap_or(0) as u64,
            updated_existing: doc.get("updatedExisting") == Value::Bool(true),
            modified: doc.get("updatedExisting") == Value::Bool(true),
            upserted: (!upserted.is_missing()).then(|| nagi_bson::ValueBuf::new(upserted)),
            value: doc.get("value").as_doc().map(|doc| doc.to_buf()),
        }
    },
};

pub(super) fn to_request<'a>(
    args: &Args<'a>,
    ns: &'a Namespace,
    array_filters: &'a [Doc<'a>],
) -> Result<FindAndModifyRequest<'a>> {
    Ok(FindAndModifyRequest {
        filter: args.query.unwrap_or(Doc::EMPTY),
        sort: args.sort.unwrap_or(Doc::EMPTY),
        remove: args.remove == Some(true),
        update: if args.update.is_nullish() { Value::Missing } else { args.update },
        array_filters,
        new: args.new == Some(true),
        fields: args.fields.unwrap_or(Doc::EMPTY),
        upsert: args.upsert == Some(true),
        bypass_validation: args.bypass == Some(true),
        keep_empty_timestamps: args.bypass_ts == Some(true),
        collation: Asked::parse(args.collation)?,
        hint: Hint::parse(args.hint)?,
        let_vars: args.let_vars.unwrap_or(Doc::EMPTY),
        ..FindAndModifyRequest::new(ns)
    })
}

/// Writes the `explain` reply.
fn explain(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    verbosity: Verbosity,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.name())?;
    let filters = array_filters(args.array_filters)?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    let filter =
        encryption::filter(cx, encryption.as_ref(), &ns, args.query.unwrap_or(Doc::EMPTY))?;
    let mut request = to_request(&args, &ns, &filters)?;
    request.filter = filter.as_ref().map_or(request.filter, |filter| filter.as_doc());
    super::explain::write(cx, req, &Explained::FindAndModify(request), verbosity, out)
}
