//! `updateUser`: replaces the password, roles or other data of a user.

use crate::auth::restrictions::Restrictions;
use crate::auth::users::{self, Password};
use crate::core::command::prelude::*;
use crate::{
    auth::{Target, parse_roles, roles},
    names::UserName,
};

use super::audited;
use super::common::{change, may_grant, replace_user, roles_array, with_fields};

pub(in crate::commands) static UPDATE_USER: Command = Command {
    facts: Facts {
        name: "updateUser",
        help: "Changes a user.",
        write: true,
        secret: Secret::Password,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    audited: Some(audited::updated_user),
    ..Command::ROW
};

args! { "updateUser" => Args {
    name:         &'a str           = "updateUser",
    pwd:          Option<&'a str>   = "pwd",
    custom_data:  Option<Doc<'a>>   = "customData",
    roles:        Option<Array<'a>> = "roles",
    digest:       Option<bool>      = "digestPassword",
    mechanisms:   Option<Array<'a>> = "mechanisms",
    restrictions: Option<Array<'a>> = "authenticationRestrictions",
}}

/// A user may change its own password and data if it has the action for it. Roles require the privileges to
/// revoke and to grant them.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let own = asking.is_user(&UserName::new(args.name, req.db));
    let may = |action| asking.on_database(req.db, action);
    let password = args.pwd.is_none() && args.mechanisms.is_none()
        || may(Action::ChangePassword)
        || (own && may(Action::ChangeOwnPassword));
    let data = args.custom_data.is_none()
        || may(Action::ChangeCustomData)
        || (own && may(Action::ChangeOwnCustomData));
    let granted = args.roles.map(|list| parse_roles(list, req.db)).transpose()?;
    let roles = granted.is_none_or(|granted| {
        asking.allows(Target::Everywhere, Action::RevokeRole) && may_grant(asking, &granted)
    });
    let restrictions = args.restrictions.is_none() || may(Action::SetAuthenticationRestriction);
    Ok(password && data && roles && restrictions)
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let name = UserName::new(args.name, req.db);
    let given = args.pwd.is_some()
        || args.custom_data.is_some()
        || args.roles.is_some()
        || args.mechanisms.is_some()
        || args.restrictions.is_some();
    if !given {
        bail!(Code::BAD_VALUE, "Must specify at least one field to update in updateUser");
    }
    if let Some(list) = args.restrictions {
        Restrictions::parse(list)?;
    }
    if args.pwd.is_some() && req.db == "$external" {
        bail!(
            Code::BAD_VALUE,
            "Cannot set the password for users defined on the '$external' database"
        );
    }
    let granted = args.roles.map(|list| parse_roles(list, req.db)).transpose()?;
    let credentials = match args.pwd {
        Some(text) => Some(
            Password::parse(&cx.server.auth, text, args.mechanisms, args.digest)?
                .credentials(&cx.server.auth, args.name)?,
        ),
        None => None,
    };
    change(cx, || {
        if let Some(granted) = &granted {
            roles::check_all_exist(&cx.connection.store, granted)?;
        }
        replace_user(cx, &name, &mut |doc| {
            let kept = match (&credentials, args.mechanisms) {
                (None, Some(list)) => Some(keep_mechanisms(doc, list)?),
                _ => None,
            };
            let array = granted.as_ref().map(|granted| roles_array(granted));
            let mut fields = Vec::new();
            if let Some(credentials) = credentials.as_ref().or(kept.as_ref()) {
                fields.push(("credentials", Value::Doc(credentials.as_doc())));
            }
            if let Some(data) = args.custom_data {
                fields.push(("customData", Value::Doc(data)));
            }
            if let Some(array) = &array {
                fields.push(("roles", Value::Array(array.as_array())));
            }
            if let Some(list) = args.restrictions {
                fields.push(("authenticationRestrictions", Value::Array(list)));
            }
            Ok(with_fields(doc, &fields))
        })
    })
}

/// The credentials of the document, restricted to the requested mechanisms.
fn keep_mechanisms(doc: Doc<'_>, list: Array<'_>) -> Result<DocBuf> {
    let wanted = users::parse_mechanisms(list)?;
    let has = users::mechanisms_of(doc);
    if wanted.iter().any(|mechanism| !has.contains(mechanism)) {
        bail!(Code::BAD_VALUE, "mechanisms field must be a subset of previously set mechanisms");
    }
    let credentials = doc.get("credentials").as_doc().unwrap_or(Doc::EMPTY);
    Ok(DocBuf::build(|out| {
        for element in credentials {
            if wanted.iter().any(|mechanism| mechanism.name() == element.name()) {
                out.put_element(element);
            }
        }
    }))
}
