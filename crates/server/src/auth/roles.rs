//! Roles: what a list of roles comes to, and the documents of user-defined ones.

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

/// Roles that one user may have through others; a limit on the work of a login.
const CONTAINED_COUNT_MAX: usize = 10_000;

/// Everything that a list of roles comes to.
#[derive(Default)]
pub(crate) struct Closure {
    /// The roles and all that they contain, sorted.
    pub(crate) roles: BTreeSet<RoleName>,
    pub(crate) privileges: Privileges,
    pub(crate) restrictions: Vec<Restrictions>,
}

/// Follows the roles down to the last. A role that is not there grants nothing.
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

/// The privileges that a role's document names itself.
pub(crate) fn privileges_of(doc: Doc<'_>) -> Result<Privileges> {
    match doc.get("privileges") {
        Value::Array(list) => privilege::parse_all(list),
        _ => Ok(Privileges::new()),
    }
}

/// Whether there is such a role, built-in or not.
pub(crate) fn exists(store: &Store, role: &RoleName) -> Result<bool> {
    Ok(builtin::find(&role.name, &role.db).is_some()
        || documents::read(store, Kind::Roles, &role.id())?.is_some())
}

/// The error of a role that is not there.
pub(crate) fn not_found(role: &RoleName) -> Error {
    err!(Code::ROLE_NOT_FOUND, "No role named {role}")
}

/// Checks that all roles are there (31).
pub(crate) fn check_all_exist(store: &Store, roles: &[RoleName]) -> Result<()> {
    for role in roles {
        if !exists(store, role)? {
            return Err(not_found(role));
        }
    }
    Ok(())
}
