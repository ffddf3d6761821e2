//! `createUser`: creates a user with credentials and roles.

use crate::auth::documents::Kind;
use crate::auth::restrictions::Restrictions;
use crate::auth::users::Password;
use crate::core::command::prelude::*;
use crate::core::login_by_certificate::is_members;
use crate::names::EXTERNAL;
use crate::{
    auth::{parse_roles, roles},
    names::UserName,
};

use super::audited;
use super::common::{add, change, may_grant, roles_array};

pub(in crate::commands) static CREATE_USER: Command = Command {
    facts: Facts {
        name: "createUser",
        help: "Creates a user.",
        write: true,
        secret: Secret::Password,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    audited: Some(audited::user),
    ..Command::ROW
};

args! { "createUser" => Args {
    name:         &'a str           = "createUser",
    pwd:          Option<&'a str>   = "pwd",
    custom_data:  Option<Doc<'a>>   = "customData",
    roles:        Array<'a>         = "roles",
    digest:       Option<bool>      = "digestPassword",
    mechanisms:   Option<Array<'a>> = "mechanisms",
    restrictions: Option<Array<'a>> = "authenticationRestrictions",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    Ok(asking.on_database(req.db, Action::CreateUser)
        && may_grant(asking, &parse_roles(args.roles, req.db)?)
        && (args.restrictions.is_none()
            || asking.on_database(req.db, Action::SetAuthenticationRestriction)))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let name = UserName::new(args.name, req.db);
    check_name(&name)?;
    if &*name.db == EXTERNAL && is_members(cx.server, &name.name) {
        bail!(
            Code::BAD_VALUE,
            "Cannot create an x.509 user with a subjectname that would be recognized as an internal \
             cluster member"
        );
    }
    if let Some(list) = args.restrictions {
        Restrictions::parse(list)?;
    }
    let granted = parse_roles(args.roles, req.db)?;
    let credentials = credentials(cx, &args, req.db)?;
    let uuid = crate::random::random_uuid()?;
    let doc = DocBuf::build(|doc| {
        doc.put("_id", name.id().as_str());
        let bytes = &uuid;
        doc.put("userId", Value::Binary(nagi_bson::Binary { subtype: 4, bytes }));
        name.write("user", doc);
        doc.put("credentials", &credentials);
        if let Some(data) = args.custom_data {
            doc.put("customData", data);
        }
        doc.put("roles", Value::Array(roles_array(&granted).as_array()));
        if let Some(list) = args.restrictions {
            doc.put("authenticationRestrictions", list);
        }
    });
    change(cx, || {
        roles::check_all_exist(&cx.connection.store, &granted)?;
        let exists = || err!(Code::Location(51003), "User \"{name}\" already exists");
        add(cx, Kind::Users, &doc, &exists)
    })
}

fn check_name(name: &UserName) -> Result<()> {
    if name.name.is_empty() {
        bail!(Code::BAD_VALUE, "User document needs 'user' field to be non-empty");
    }
    if name.name.contains('\0') {
        bail!(Code::BAD_VALUE, "Username cannot contain NULL characters");
    }
    if &*name.db == "local" {
        bail!(Code::BAD_VALUE, "Cannot create users in the local database");
    }
    Ok(())
}

fn credentials(cx: &Context<'_>, args: &Args<'_>, db: &str) -> Result<DocBuf> {
    match (args.pwd, db == EXTERNAL) {
        (Some(_), true) => bail!(
            Code::BAD_VALUE,
            "Cannot set the password for users defined on the '$external' database"
        ),
        (None, true) => Ok(nagi_bson::doc! { "external": true }),
        (None, false) => bail!(
            Code::BAD_VALUE,
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the \
             user's source db"
        ),
        (Some(text), false) => {
            Password::parse(&cx.server.auth, text, args.mechanisms, args.digest)?
                .credentials(&cx.server.auth, args.name)
        }
    }
}
