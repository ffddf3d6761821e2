//! `renameCollection`: within a database a change of the catalog, across databases a copy.

use nagi_lang::filter::EncryptedFields;
use nagi_store::{Namespace, Rename, Uuid};

use crate::core::command::prelude::*;

pub(in crate::commands) static RENAME_COLLECTION: Command = Command {
    facts: Facts {
        name: "renameCollection",
        help: "Renames a collection.",
        admin_only: true,
        write: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "renameCollection" => Args {
    from:            &'a str      = "renameCollection",
    to:              &'a str      = "to",
    drop_target:     Value<'a>    = "dropTarget",
    stay_temp:       Option<bool> = "stayTemp",
    collection_uuid: Value<'a>    = "collectionUUID",
}}

/// Within a database one action suffices. Across databases the client needs the privileges for each step of the
/// copy.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let (Ok(from), Ok(to)) = (Namespace::parse(args.from), Namespace::parse(args.to)) else {
        // `run` refuses invalid names.
        return Ok(true);
    };
    let may = |ns: &Namespace, action| asking.on_collection(ns.database(), ns.collection(), action);
    let keeps = matches!(args.drop_target, Value::Missing | Value::Null | Value::Bool(false));
    let drops = keeps || may(&to, Action::DropCollection);
    let is_system = |ns: &Namespace| ns.collection().starts_with("system.");
    // A rename must not expose the documents: a client that may not read the old name may not read the new one.
    let within = from.database() == to.database()
        && !is_system(&from)
        && !is_system(&to)
        && asking.on_database(from.database(), Action::RenameCollectionSameDB)
        && (may(&from, Action::Find) || !may(&to, Action::Find));
    let moves = || {
        may(&from, Action::Find)
            && may(&from, Action::DropCollection)
            && may(&to, Action::CreateIndex)
            && may(&to, Action::Insert)
    };
    Ok(drops && (within || moves()))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let parse = |text: &str, which: &str| {
        Namespace::parse(text)
            .map_err(|_| err!(Code::INVALID_NAMESPACE, "Invalid {which} namespace: {text}"))
    };
    let (from, to) = (parse(args.from, "source")?, parse(args.to, "target")?);
    if from == to {
        bail!(Code::ILLEGAL_OPERATION, "Can't rename a collection to itself");
    }
    if from.is_system() != to.is_system() || (from.is_system() && from != to) {
        bail!(Code::ILLEGAL_OPERATION, "error renaming a system collection: {from} to {to}");
    }
    let expected = match args.collection_uuid {
        value if value.is_nullish() => None,
        value => Some(crate::commands::common::uuid("renameCollection.collectionUUID", value)?),
    };
    crate::commands::common::check_uuid(cx, &from, expected)?;
    let (drop_target, target) = drop_target(args.drop_target)?;
    crate::commands::common::check_uuid(cx, &to, target)?;
    refuse_encrypted(cx, &from)?;
    refuse_encrypted(cx, &to)?;
    let _writing = cx.begin_write(from.database())?;
    cx.check_write_block(to.database())?;
    let how =
        Rename { drop_target, target, source: expected, stay_temp: args.stay_temp == Some(true) };
    cx.store().rename_collection(&from, &to, how, &|| cx.check())
}

/// Refuses a collection with encrypted fields, because its state collections belong to its name, and these state
/// collections.
fn refuse_encrypted(cx: &Context<'_>, ns: &Namespace) -> Result<()> {
    let is_encrypted = |ns: &Namespace| {
        let found = cx.store().collection(ns);
        found.is_some_and(|found| found.options.encrypted_fields.is_some())
    };
    if is_encrypted(ns) {
        bail!(Code::ILLEGAL_OPERATION, "Cannot rename an encrypted collection");
    }
    let owner = EncryptedFields::owner_of_state(ns.collection());
    let owner = owner.and_then(|name| Namespace::new(ns.database(), name).ok());
    if owner.is_some_and(|owner| is_encrypted(&owner)) {
        bail!(
            Code::ILLEGAL_OPERATION,
            "Cannot rename a state collection of an encrypted collection"
        );
    }
    Ok(())
}

/// Returns true if the target may be replaced. A UUID restricts this to the collection that has it.
fn drop_target(given: Value<'_>) -> Result<(bool, Option<Uuid>)> {
    const NAME: &str = "renameCollection.dropTarget";
    match given {
        value if value.is_nullish() => Ok((false, None)),
        Value::Bool(drops) => Ok((drops, None)),
        Value::Binary(_) => Ok((true, Some(crate::commands::common::uuid(NAME, given)?))),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{NAME}' is the wrong type '{}', expected types '[bool, binData]'",
            other.kind().name()
        ),
    }
}
