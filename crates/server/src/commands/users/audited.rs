//! The details of audit messages about users and roles: the arguments of their commands, without passwords.

use crate::auth::{parse_roles, write_roles};
use crate::core::command::prelude::*;

/// `{user, db, ...}` of a command whose first argument is the name of a user.
pub(super) fn user(request: &Request<'_>, out: &mut DocWriter<'_>) {
    named("user", request, out);
    arguments(request, out);
}

/// The same for `updateUser`.
pub(super) fn updated_user(request: &Request<'_>, out: &mut DocWriter<'_>) {
    named("user", request, out);
    out.put("passwordChanged", !request.body.get("pwd").is_missing());
    arguments(request, out);
}

/// `{role, db, ...}` of a command whose first argument is the name of a role.
pub(super) fn role(request: &Request<'_>, out: &mut DocWriter<'_>) {
    named("role", request, out);
    arguments(request, out);
}

/// `{db}` of a command on all users or roles of a database.
pub(super) fn database(request: &Request<'_>, out: &mut DocWriter<'_>) {
    out.put("db", request.db);
}

fn named(field: &str, request: &Request<'_>, out: &mut DocWriter<'_>) {
    out.put(field, request.body.first().map_or(Value::Missing, |first| first.value()));
    out.put("db", request.db);
}

fn arguments(request: &Request<'_>, out: &mut DocWriter<'_>) {
    let body = request.body;
    if let Value::Doc(data) = body.get("customData") {
        out.put("customData", data);
    }
    if let Value::Array(given) = body.get("roles") {
        match parse_roles(given, request.db) {
            Ok(roles) => out.array("roles", |out| write_roles(&roles, out)),
            Err(_) => out.put("roles", given),
        }
    }
    for name in ["privileges", "authenticationRestrictions"] {
        if let Value::Array(given) = body.get(name) {
            out.put(name, given);
        }
    }
}
