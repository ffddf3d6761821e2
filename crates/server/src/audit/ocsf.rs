//! Messages with the fields of OCSF, the Open Cybersecurity Schema Framework (version 1.2).
//!
//! `type_uid` is `class_uid * 100 + activity_id`, and the thousands of `class_uid` are `category_uid`.

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value};
use nagi_error::Code;

/// Each kind of message with its `type_uid`, sorted by name.
static TYPES: &[(&str, i32)] = &[
    ("applicationMessage", 100_799),
    ("auditConfigure", 500_203),
    ("authCheck", 600_300),
    ("authenticate", 300_201),
    ("clientMetadata", 400_101),
    ("createCollection", 300_401),
    ("createDatabase", 300_401),
    ("createIndex", 300_401),
    ("createRole", 300_101),
    ("createUser", 300_101),
    ("directAuthMutation", 300_100),
    ("dropAllRolesFromDatabase", 300_106),
    ("dropAllUsersFromDatabase", 300_106),
    ("dropCollection", 300_404),
    ("dropDatabase", 300_404),
    ("dropIndex", 300_404),
    ("dropRole", 300_106),
    ("dropUser", 300_106),
    ("getClusterParameter", 600_302),
    ("grantPrivilegesToRole", 300_107),
    ("grantRolesToRole", 300_107),
    ("grantRolesToUser", 300_107),
    ("logout", 300_202),
    ("renameCollection", 300_403),
    ("replSetReconfig", 500_201),
    ("revokePrivilegesFromRole", 300_108),
    ("revokeRolesFromRole", 300_108),
    ("revokeRolesFromUser", 300_108),
    ("rotateEncryptionKey", 500_201),
    ("rotateLog", 100_799),
    ("setClusterParameter", 500_201),
    ("shutdown", 100_702),
    ("startup", 100_701),
    ("updateRole", 300_199),
    ("updateUser", 300_199),
];

const INFORMATIONAL: i32 = 1;
const MEDIUM: i32 = 3;
/// `type_id` of a user of the product, and of one that is not known.
const USER: i32 = 1;
const UNKNOWN: i32 = 0;
/// `status_id`.
const SUCCESS: i32 = 1;
const FAILURE: i32 = 2;

/// Translates a message of MongoDB's schema.
pub(super) fn translate(message: Doc<'_>) -> DocBuf {
    let atype = message.get("atype").as_str().unwrap_or("");
    let known = TYPES.binary_search_by(|row| row.0.cmp(atype));
    let type_uid = known.ok().and_then(|at| TYPES.get(at)).map_or(0, |row| row.1);
    let (class, activity) = (type_uid / 100, type_uid % 100);
    let result = match message.get("result") {
        Value::Int32(code) => code,
        _ => 0,
    };
    let param = message.get("param").as_doc().unwrap_or(Doc::EMPTY);
    DocBuf::build(|out| {
        out.put("activity_id", activity);
        out.put("category_uid", class / 1000);
        out.put("class_uid", class);
        match message.get("ts") {
            Value::DateTime(ms) => out.put("time", ms),
            _ => out.put("time", 0_i64),
        }
        out.put("severity_id", if result == 0 { INFORMATIONAL } else { MEDIUM });
        out.put("type_uid", type_uid);
        out.put("status_id", if result == 0 { SUCCESS } else { FAILURE });
        if result != 0 {
            out.put("status_code", result.to_string().as_str());
        }
        out.doc("metadata", |out| metadata(message, out));
        out.doc("actor", |out| actor(message, out));
        endpoint("src_endpoint", message.get("remote"), out);
        endpoint("dst_endpoint", message.get("local"), out);
        if let (Value::String(user), Value::String(db)) = (param.get("user"), param.get("db")) {
            out.doc("user", |out| person(user, db, out));
        }
        if let Value::String(mechanism) = param.get("mechanism") {
            out.put("auth_protocol", mechanism);
        }
        if let Value::String(command) = param.get("command") {
            out.doc("api", |out| api(command, param, result, out));
        }
        out.doc("unmapped", |out| {
            out.put("atype", atype);
            out.put("param", param);
        });
    })
}

fn metadata(message: Doc<'_>, out: &mut DocWriter<'_>) {
    if let Value::Binary(Binary { bytes, .. }) = message.get("uuid") {
        let mut text = String::new();
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        out.put("correlation_uid", text.as_str());
    }
    out.put("product", "Nagi");
    out.put("version", "1.2.0");
}

/// The users and roles of the connection; without a login the actor is empty.
fn actor(message: Doc<'_>, out: &mut DocWriter<'_>) {
    let user = message.get("users").as_array().and_then(|users| users.iter().next()?.as_doc());
    let Some(user) = user else { return };
    let text = |name: &str| user.get(name).as_str().unwrap_or("");
    out.doc("user", |out| {
        person(text("user"), text("db"), out);
        out.array("groups", |out| {
            let roles = message.get("roles").as_array();
            for role in roles.iter().flat_map(|roles| roles.iter()).filter_map(|role| role.as_doc())
            {
                let text = |name: &str| role.get(name).as_str().unwrap_or("");
                let name = format!("{}.{}", text("db"), text("role"));
                out.doc(|out| out.put("name", name.as_str()));
            }
        });
    });
}

fn person(user: &str, db: &str, out: &mut DocWriter<'_>) {
    out.put("type_id", if user.is_empty() { UNKNOWN } else { USER });
    out.put("name", format!("{db}.{user}").as_str());
}

fn endpoint(name: &str, value: Value<'_>, out: &mut DocWriter<'_>) {
    let Some(address) = value.as_doc() else { return };
    match (address.get("ip"), address.get("unix")) {
        (Value::String(ip), _) => out.doc(name, |out| {
            out.put("ip", ip);
            out.put("port", address.get("port"));
        }),
        (_, Value::String(path)) => out.doc(name, |out| out.put("name", path)),
        _ => {}
    }
}

fn api(command: &str, param: Doc<'_>, result: i32, out: &mut DocWriter<'_>) {
    out.put("operation", command);
    out.doc("request", |out| out.put("uid", param.get("ns")));
    out.doc("response", |out| {
        out.put("code", result);
        if result != 0 {
            out.put("error", Code(result).name().as_ref());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sorted() {
        assert!(TYPES.is_sorted_by(|a, b| a.0 < b.0));
    }
}
