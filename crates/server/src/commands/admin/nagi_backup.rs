//! `nagiBackup`: the requests of the program `nagi backup` to a running server.
//!
//!   {nagiBackup: "begin"}                                     id and files of a consistent copy
//!   {nagiBackup: "read", backupId, file, offset, length}      some of a file's bytes
//!   {nagiBackup: "end", backupId}                             removes the copy

use nagi_bson::Binary;

use crate::auth::Target;
use crate::backup::READ_BYTES_MAX;
use crate::core::command::prelude::*;

pub(in crate::commands) static NAGI_BACKUP: Command = Command {
    facts: Facts {
        name: "nagiBackup",
        help: "Returns a consistent copy of the data files.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "nagiBackup" => Args {
    what:      &'a str             = "nagiBackup",
    backup_id: Option<&'a str>     = "backupId",
    file:      Option<&'a str>     = "file",
    offset:    Option<NonNegative> = "offset",
    length:    Option<NonNegative> = "length",
}}

/// Requires the privileges to read all data, including users, as the role `backup` has them, because the files
/// hold all data. The action `fsync`, which suffices for the file names of MongoDB's `$backupCursor`, is not
/// enough here.
fn access(asking: &Asking<'_>, _: &Request<'_>) -> Result<bool> {
    Ok(asking.allows(Target::Everywhere, Action::Find)
        && asking.on_collection("admin", "system.users", Action::Find)
        && asking.on_cluster(Action::ListDatabases))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let backups = &cx.server.upkeep.backups;
    let id = || {
        let missing =
            || err!(Code::IDL_FAILED_TO_PARSE, "BSON field 'nagiBackup.backupId' is missing");
        args.backup_id.ok_or_else(missing)
    };
    match args.what {
        "begin" => {
            cx.end_with_client();
            let _writing = cx.begin_write("admin")?;
            backups.begin(&cx.server.store, &mut |id, files| {
                out.put("backupId", id);
                out.put("engine", cx.connection.store.engine().name());
                out.put("nagiVersion", cx.server.config.nagi_version);
                out.array("files", |list| {
                    for file in files {
                        list.doc(|doc| {
                            doc.put("name", file.name.as_str());
                            doc.put("bytes", file.byte_count as i64);
                        });
                    }
                });
            })
        }
        "read" => {
            let offset = args.offset.map_or(0, |n| n.0) as u64;
            let length = args.length.map_or(READ_BYTES_MAX as i64, |n| n.0);
            let length = usize::try_from(length).unwrap_or(READ_BYTES_MAX);
            let bytes = backups.read(id()?, args.file.unwrap_or(""), offset, length)?;
            out.put("data", Value::Binary(Binary { subtype: 0, bytes: &bytes }));
            Ok(())
        }
        "end" => {
            if let Some(complete) = backups.end(id()?)? {
                cx.server.record_backup(&complete);
            }
            Ok(())
        }
        other => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{other}' for field 'nagiBackup' is not a valid value."
        ),
    }
}
