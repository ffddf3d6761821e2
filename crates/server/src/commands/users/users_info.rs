//! `usersInfo`: the documents of users. Credentials are shown only on request.

use nagi_lang::expr::ParseCx;
use nagi_lang::filter::Filter;

use crate::auth::documents::{self, Kind};
use crate::core::command::prelude::*;
use crate::limits::BSON_OBJECT_BYTES_MAX;
use crate::observe::filtering;
use crate::{
    auth::{users, write_privileges, write_roles},
    names::UserName,
};

pub(in crate::commands) static USERS_INFO: Command = Command {
    facts: Facts { name: "usersInfo", help: "Describes users.", ..Facts::ROW },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "usersInfo" => Args {
    which:             Value<'a>       = "usersInfo",
    show_credentials:  Option<bool>    = "showCredentials",
    show_custom_data:  Option<bool>    = "showCustomData",
    show_privileges:   Option<bool>    = "showPrivileges",
    show_restrictions: Option<bool>    = "showAuthenticationRestrictions",
    filter:            Option<Doc<'a>> = "filter",
}}

/// The users that are requested.
enum Which {
    Database,
    Everywhere,
    Named(Vec<UserName>),
}

impl Which {
    fn parse(value: Value<'_>, db: &str) -> Result<Which> {
        match value {
            Value::Doc(doc) if args::read::<Truthy>(doc, "usersInfo", "forAllDBs")?.0 => {
                Ok(Which::Everywhere)
            }
            Value::Array(list) => {
                let names = list.iter().map(|name| UserName::parse(name, "user", db));
                Ok(Which::Named(names.collect::<Result<_>>()?))
            }
            value if crate::number::truncate(value) == Some(1) => Ok(Which::Database),
            value => Ok(Which::Named(vec![UserName::parse(value, "user", db)?])),
        }
    }
}

/// Each user may view itself.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    Ok(match Which::parse(Args::parse(req)?.which, req.db)? {
        Which::Database => asking.on_database(req.db, Action::ViewUser),
        Which::Everywhere => asking.on_cluster(Action::ViewUser),
        Which::Named(names) => names
            .iter()
            .all(|name| asking.is_user(name) || asking.on_database(&name.db, Action::ViewUser)),
    })
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let which = Which::parse(args.which, req.db)?;
    let details = args.show_privileges == Some(true) || args.show_restrictions == Some(true);
    if details && (!matches!(which, Which::Named(_)) || args.filter.is_some()) {
        bail!(
            Code::INVALID_OPTIONS,
            "Privilege or restriction details require exact-match usersInfo queries"
        );
    }
    let filter = match args.filter {
        Some(filter) => Some(Filter::parse(filter, &mut ParseCx::new())?),
        None => None,
    };
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut add = |doc: Doc<'_>| -> Result<bool> {
        let shown = describe(cx, &args, doc)?;
        if filtering::matches(filter.as_ref(), shown.as_doc())? {
            bytes += shown.as_bytes().len();
            found.push(shown);
        }
        if bytes > BSON_OBJECT_BYTES_MAX {
            bail!(Code::BSON_OBJECT_TOO_LARGE, "the users do not fit into one reply");
        }
        Ok(true)
    };
    match which {
        Which::Named(names) => {
            for name in names {
                if let Some(doc) = documents::read(&cx.connection.store, Kind::Users, &name.id())? {
                    add(doc.as_doc())?;
                }
            }
        }
        Which::Everywhere => documents::each(&cx.connection.store, Kind::Users, &mut add)?,
        Which::Database => {
            documents::each(&cx.connection.store, Kind::Users, &mut |doc| match doc
                .get("db")
                .as_str()
                == Some(req.db)
            {
                true => add(doc),
                false => Ok(true),
            })?
        }
    }
    out.array("users", |list| found.iter().for_each(|doc| list.push_doc(doc.as_doc())));
    Ok(())
}

fn describe(cx: &Context<'_>, args: &Args<'_>, doc: Doc<'_>) -> Result<DocBuf> {
    let resolved = match (doc.get("user"), doc.get("db")) {
        (Value::String(user), Value::String(db)) if args.show_privileges == Some(true) => {
            users::resolve(&cx.connection.store, &UserName::new(user, db))?
        }
        _ => None,
    };
    Ok(DocBuf::build(|out| {
        for element in doc {
            let shown = match element.name() {
                "credentials" => args.show_credentials == Some(true),
                "customData" => args.show_custom_data != Some(false),
                "authenticationRestrictions" => args.show_restrictions == Some(true),
                _ => true,
            };
            if shown {
                out.put_element(element);
            }
        }
        out.array("mechanisms", |list| {
            let mechanisms = users::mechanisms_of(doc);
            mechanisms.iter().for_each(|mechanism| list.push(mechanism.name()));
        });
        if let Some(user) = &resolved {
            out.array("inheritedRoles", |list| write_roles(&user.closure.roles, list));
            out.array("inheritedPrivileges", |list| {
                write_privileges(&user.closure.privileges, list);
            });
        }
        let restrictions = doc.element("authenticationRestrictions").is_some();
        if args.show_restrictions == Some(true) && !restrictions {
            out.put("authenticationRestrictions", Array::EMPTY);
        }
    }))
}
