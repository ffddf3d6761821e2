//! Shared parts of the commands on users and roles: the exclusive change, checks of names and roles, and
//! documents with changed fields.

use nagi_bson::ArrayBuf;

use crate::auth::documents::{self, Kind};
use crate::auth::{parse_privileges, parse_roles, write_privileges};
use crate::core::access;
use crate::core::command::prelude::*;
use crate::{
    auth::{Privileges, builtin, roles, users, write_roles},
    names::{RoleName, UserName},
};

/// Runs a change of users or roles exclusively, and then invalidates all resolved users.
pub(super) fn change<T>(cx: &Context<'_>, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _writing = cx.begin_write("admin")?;
    let _alone = cx.server.auth.begin_change();
    // The request was allowed when it arrived; of several that are to create the first user, only one may.
    access::check_first_user(cx.server, cx.connection, cx.command.facts.name)?;
    let done = f();
    cx.server.auth.changed();
    done
}

/// Adds the document of a user or role. A client without a login may add the first one only.
pub(super) fn add(
    cx: &Context<'_>,
    kind: Kind,
    doc: &DocBuf,
    exists: &dyn Fn() -> Error,
) -> Result<()> {
    let refused = || access::needs_login(cx.command.facts.name);
    let by_nobody = access::is_by_nobody(cx.server, cx.connection);
    let not_first = by_nobody.then_some(&refused as &dyn Fn() -> Error);
    documents::insert(&cx.connection.store, kind, doc.as_doc(), exists, not_first)
}

/// A copy of `doc` with fields replaced in place, appended, or removed (`Missing`).
pub(super) fn with_fields(doc: Doc<'_>, fields: &[(&str, Value<'_>)]) -> DocBuf {
    DocBuf::build(|out| {
        for element in doc {
            match fields.iter().find(|(name, _)| *name == element.name()) {
                Some((_, Value::Missing)) => {}
                Some((name, value)) => out.put(name, *value),
                None => out.put_element(element),
            }
        }
        for (name, value) in fields {
            if doc.element(name).is_none() && !value.is_missing() {
                out.put(name, *value);
            }
        }
    })
}

pub(super) fn roles_array(roles: &[RoleName]) -> ArrayBuf {
    ArrayBuf::build(|out| write_roles(roles, out))
}

pub(super) fn privileges_array(privileges: &Privileges) -> ArrayBuf {
    ArrayBuf::build(|out| write_privileges(privileges, out))
}

/// Parses an argument `roles` that must not be empty (2).
pub(super) fn some_roles(command: &str, roles: Array<'_>, db: &str) -> Result<Vec<RoleName>> {
    if roles.is_empty() {
        bail!(Code::BAD_VALUE, "{command} command requires a non-empty \"roles\" array");
    }
    parse_roles(roles, db)
}

/// Returns true if the client may grant all these roles.
pub(super) fn may_grant(asking: &Asking<'_>, roles: &[RoleName]) -> bool {
    roles.iter().all(|role| asking.on_database(&role.db, Action::GrantRole))
}

/// Returns true if the client may revoke all these roles.
pub(super) fn may_revoke(asking: &Asking<'_>, roles: &[RoleName]) -> bool {
    roles.iter().all(|role| asking.on_database(&role.db, Action::RevokeRole))
}

/// Returns true if the client may grant or revoke (`action`) all these privileges.
pub(super) fn may_handle(asking: &Asking<'_>, privileges: &Privileges, action: Action) -> bool {
    privileges.keys().all(|resource| asking.on_database(resource.governing_database(), action))
}

/// Replaces the document of a user.
pub(super) fn replace_user(
    cx: &Context<'_>,
    name: &UserName,
    change: &mut dyn FnMut(Doc<'_>) -> Result<DocBuf>,
) -> Result<()> {
    match documents::replace(&cx.connection.store, Kind::Users, &name.id(), change)? {
        true => Ok(()),
        false => Err(err!(Code::USER_NOT_FOUND, "User {name} not found")),
    }
}

/// Changes the roles of a user.
pub(super) fn change_roles_of_user(
    cx: &Context<'_>,
    name: &UserName,
    change: &dyn Fn(&mut Vec<RoleName>),
) -> Result<()> {
    let store = &cx.connection.store;
    let found = documents::replace(store, Kind::Users, &name.id(), &mut |doc| {
        with_roles_changed(doc, change)
    })?;
    match found {
        true => Ok(()),
        false => Err(err!(Code::USER_NOT_FOUND, "Could not find user {name}")),
    }
}

/// Changes the roles that a user-defined role contains.
pub(super) fn change_roles_of_role(
    cx: &Context<'_>,
    name: &RoleName,
    change: &dyn Fn(&mut Vec<RoleName>),
) -> Result<()> {
    replace_role(cx, name, &mut |doc| with_roles_changed(doc, change))
}

fn with_roles_changed(doc: Doc<'_>, change: &dyn Fn(&mut Vec<RoleName>)) -> Result<DocBuf> {
    let mut roles = users::roles_of(doc)?;
    change(&mut roles);
    roles.sort_unstable();
    roles.dedup();
    Ok(with_fields(doc, &[("roles", Value::Array(roles_array(&roles).as_array()))]))
}

/// Refuses built-in roles where one is to be changed (49).
pub(super) fn check_not_built_in(role: &RoleName) -> Result<()> {
    if builtin::find(&role.name, &role.db).is_some() {
        bail!(Code::INVALID_ROLE_MODIFICATION, "{role} is a built-in role and cannot be modified");
    }
    Ok(())
}

/// Replaces the document of a user-defined role.
pub(super) fn replace_role(
    cx: &Context<'_>,
    role: &RoleName,
    change: &mut dyn FnMut(Doc<'_>) -> Result<DocBuf>,
) -> Result<()> {
    check_not_built_in(role)?;
    match documents::replace(&cx.connection.store, Kind::Roles, &role.id(), change)? {
        true => Ok(()),
        false => Err(roles::not_found(role)),
    }
}

/// Changes the privileges of a role: `apply` gets its privileges and those of the request.
pub(super) fn change_privileges(
    cx: &Context<'_>,
    (command, req): (&str, &Request<'_>),
    (role, privileges): (&str, Array<'_>),
    apply: fn(&mut Privileges, &Privileges),
) -> Result<()> {
    let role = RoleName::new(role, req.db);
    check_not_built_in(&role)?;
    if privileges.is_empty() {
        bail!(Code::BAD_VALUE, "{command} command requires a non-empty \"privileges\" array");
    }
    let changed = parse_privileges(privileges)?;
    check_privileges(&role, &changed)?;
    change(cx, || {
        replace_role(cx, &role, &mut |doc| {
            let mut all = roles::privileges_of(doc)?;
            apply(&mut all, &changed);
            all.retain(|_, actions| !actions.is_empty());
            let array = privileges_array(&all);
            Ok(with_fields(doc, &[("privileges", Value::Array(array.as_array()))]))
        })
    })
}

/// Checks the roles that a role is to contain: they exist (31), the role's database may contain them, and they
/// do not contain the role itself (49).
pub(super) fn check_contained(
    cx: &Context<'_>,
    role: &RoleName,
    contained: &[RoleName],
) -> Result<()> {
    for other in contained {
        if other == role {
            bail!(Code::INVALID_ROLE_MODIFICATION, "Cannot grant role {role} to itself.");
        }
        if &*role.db != "admin" && role.db != other.db {
            bail!(
                Code::INVALID_ROLE_MODIFICATION,
                "Roles on the '{}' database cannot be granted roles from other databases",
                role.db
            );
        }
        if !roles::exists(&cx.connection.store, other)? {
            bail!(Code::ROLE_NOT_FOUND, "Cannot grant nonexistent role {other}");
        }
        let below = roles::closure(&cx.connection.store, std::slice::from_ref(other))?;
        if below.roles.contains(role) {
            bail!(
                Code::INVALID_ROLE_MODIFICATION,
                "Granting {other} to {role} would introduce a cycle in the role graph."
            );
        }
    }
    Ok(())
}

/// Checks the privileges of a role: only a role of `admin` may have privileges on other databases or the
/// cluster (49).
pub(super) fn check_privileges(role: &RoleName, privileges: &Privileges) -> Result<()> {
    if &*role.db == "admin" || privileges.keys().all(|r| r.governing_database() == &*role.db) {
        return Ok(());
    }
    bail!(
        Code::INVALID_ROLE_MODIFICATION,
        "Roles on the '{}' database cannot be granted privileges that target other databases or the \
         cluster",
        role.db
    )
}

/// Removes roles that are about to be dropped from all users and roles that have them.
pub(super) fn forget_roles(cx: &Context<'_>, gone: &[RoleName]) -> Result<()> {
    for kind in [Kind::Users, Kind::Roles] {
        let mut holders = Vec::new();
        documents::each(&cx.connection.store, kind, &mut |doc| {
            if users::roles_of(doc)?.iter().any(|role| gone.contains(role))
                && let Value::String(id) = doc.get("_id")
            {
                holders.push(id.to_owned());
            }
            Ok(true)
        })?;
        for id in holders {
            documents::replace(&cx.connection.store, kind, &id, &mut |doc| {
                let mut roles = users::roles_of(doc)?;
                roles.retain(|role| !gone.contains(role));
                Ok(with_fields(doc, &[("roles", Value::Array(roles_array(&roles).as_array()))]))
            })?;
        }
    }
    Ok(())
}
