//! Roles: the closure of a list of roles, and the documents of user-defined roles.

use std::collections::BTreeSet;

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_store::Store;

use super::builtin;
use super::documents::{self, Kind};
use super::privilege::{self, Privileges};
use super::restrictions::Restrictions;
use super::users::roles_of;
use crate::names::RoleName;

/// The number of roles that a user may have, directly or through other roles. It limits the work of a login.
const CONTAINED_COUNT_MAX: usize = 10_000;

/// All roles, privileges and restrictions that follow from a list of roles.
#[derive(Default)]
pub(crate) struct Closure {
    /// The roles and all roles that they contain, sorted.
    pub(crate) roles: BTreeSet<RoleName>,
    pub(crate) privileges: Privileges,
    pub(crate) restrictions: Vec<Restrictions>,
}

/// Follows contained roles transitively. A role that does not exist grants nothing.
pub(crate) fn closure(store: &Store, roles: &[RoleName]) -> Result<Closure> {
    let mut all = Closure::default();
    let mut next = roles.to_vec();
    while let Some(role) = next.pop() {
        if all.roles.contains(&role) {
            continue;
        }
        if all.roles.len() >= CONTAINED_COUNT_MAX {
            bail!(Code::BAD_VALUE, "a user may have at most {CONTAINED_COUNT_MAX} roles");
        }
        if let Some(built_in) = builtin::find(&role.name, &role.db) {
            built_in.grant(&role.db, &mut all.privileges);
        } else if let Some(doc) = documents::read(store, Kind::Roles, &role.id())? {
            let doc = doc.as_doc();
            for (resource, actions) in privileges_of(doc)? {
                all.privileges.entry(resource).or_default().add(actions);
            }
            if let Value::Array(list) = doc.get("authenticationRestrictions") {
                all.restrictions.push(Restrictions::parse(list)?);
            }
            next.extend(roles_of(doc)?);
        } else {
            continue;
        }
        all.roles.insert(role);
    }
    Ok(all)
}

/// The privileges in the document of a role itself, without those of contained roles.
pub(crate) fn privileges_of(doc: Doc<'_>) -> Result<Privileges> {
    match doc.get("privileges") {
        Value::Array(list) => privilege::parse_all(list),
        _ => Ok(Privileges::new()),
    }
}

/// Returns true if the role exists, built-in or user-defined.
pub(crate) fn exists(store: &Store, role: &RoleName) -> Result<bool> {
    Ok(builtin::find(&role.name, &role.db).is_some()
        || documents::read(store, Kind::Roles, &role.id())?.is_some())
}

/// The error for a role that does not exist.
pub(crate) fn not_found(role: &RoleName) -> Error {
    err!(Code::ROLE_NOT_FOUND, "No role named {role}")
}

/// Checks that all roles exist (31).
pub(crate) fn check_all_exist(store: &Store, roles: &[RoleName]) -> Result<()> {
    for role in roles {
        if !exists(store, role)? {
            return Err(not_found(role));
        }
    }
    Ok(())
}
