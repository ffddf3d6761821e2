//! `compactStructuredEncryptionData`: shortens the state collections of an encrypted collection.
//!
//! Drivers send it with tokens by which the server reads what writes have left there: for each encrypted field its
//! token, or `{ecoc: <token>, anchorPaddingToken: <token>}` if it has a range or text index.

use nagi_query::{Compacted, Compaction, Encryption, EncryptionOptions, Env, FieldTokens};

use crate::commands::common::{namespace, refuse_view};
use crate::core::command::prelude::*;
use crate::random::random_bytes;

pub(in crate::commands) static COMPACT_STRUCTURED_ENCRYPTION_DATA: Command = Command {
    facts: Facts {
        name: "compactStructuredEncryptionData",
        help: "Shortens the state collections of an encrypted collection.",
        write: true,
        on_collection: true,
        secret: Secret::Yes,
        encrypted: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::CompactStructuredEncryptionData]),
    run,
    ..Command::ROW
};

args! { "compactStructuredEncryptionData" => Args {
    collection: Name<'a>        = "compactStructuredEncryptionData",
    tokens:     Doc<'a>         = "compactionTokens",
    encryption: Value<'a>       = "encryptionInformation",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if !args.encryption.is_nullish() {
        let ns = namespace(req.db, args.collection.0)?;
        let options = EncryptionOptions::new(random_bytes);
        Encryption::parse(cx.store(), Some(&ns), args.encryption, options)?;
    }
    let done = compact(cx, req, args.collection.0, args.tokens, false)?;
    write(&done, out);
    Ok(())
}

/// Runs one of the two commands.
///
/// # Errors
/// 6346807 if the collection has no encrypted fields; those of the tokens and of [`nagi_query::compact`].
pub(super) fn compact(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    name: &str,
    tokens: Doc<'_>,
    cleanup: bool,
) -> Result<Compacted> {
    let ns = namespace(req.db, name)?;
    refuse_view(cx, &ns)?;
    let tokens = read_tokens(tokens)?;
    let concern = cx.write_concern(req);
    drop(cx.begin_write(req.db)?);
    let cx = &*cx;
    let write = &|txn: &mut dyn FnMut() -> Result<()>| {
        let _writing = cx.begin_write(req.db)?;
        txn()
    };
    let of = Compaction { namespace: &ns, tokens, cleanup, random: random_bytes, write };
    let watch = cx.watch();
    let env = Env::new(&watch, crate::clock::wall_ms());
    let done = nagi_query::compact(cx.store(), &of, &env)?;
    if concern.is_synced() {
        cx.store().sync()?;
    }
    Ok(done)
}

fn read_tokens(tokens: Doc<'_>) -> Result<Vec<FieldTokens>> {
    let mut fields = Vec::new();
    for element in tokens {
        let path = element.name();
        let token = match element.value() {
            Value::Doc(tokens) => tokens.get("ecoc"),
            value => value,
        };
        let Value::Binary(data) = token else {
            bail!(
                Code::TYPE_MISMATCH,
                "The compaction token of '{path}' is the wrong type '{}', expected type 'binData'",
                token.kind().name()
            );
        };
        let Ok(ecoc) = data.bytes.try_into() else {
            bail!(Code::Location(6_373_501), "Invalid prf length");
        };
        fields.push(FieldTokens { path: path.to_owned(), ecoc });
    }
    Ok(fields)
}

/// Writes the figures of the reply.
pub(super) fn write(done: &Compacted, out: &mut DocWriter<'_>) {
    out.doc("stats", |out| {
        out.doc("ecoc", |out| {
            out.put("read", done.ecoc_read as i64);
            out.put("deleted", done.ecoc_deleted as i64);
        });
        out.doc("esc", |out| {
            out.put("read", done.esc_read as i64);
            out.put("inserted", done.esc_inserted as i64);
            out.put("updated", done.esc_updated as i64);
            out.put("deleted", done.esc_deleted as i64);
        });
    });
}
