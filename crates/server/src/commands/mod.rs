//! The command table: one row per command, sorted by name. Each command is one file in the folder of its area.
//!
//! A row (`crate::core::command::Command`) declares everything that other code must know of a command: name and
//! aliases, required privileges, how it is counted, and the function that runs it. `crate::transport::dispatch`
//! is the caller: it finds the row by the name of the first field of a request, makes the checks that all
//! commands share (API version, access, session, concerns, deadline), and calls `run`. `listCommands`,
//! `explain` and `applyOps` look up rows as well.
//!
//! Commands that only a router has are in a table of their own ([`shard::ROUTER_COMMANDS`]).
//!
//! To add a command, write its file with a `static NAME: Command`, name it in [`COMMANDS`], and add golden
//! cases; the tests below refuse a row without them.
//!
//! Invariants
//! - Rows are sorted by name without regard to case. No name or alias occurs twice.
//! - Each row declares its access, unless the command works before login.

mod admin;
mod auth;
mod collection;
pub(crate) mod common;
mod crud;
mod diagnose;
mod handshake;
mod index;
mod legacy;
mod replicate;
mod session;
mod shard;
mod users;

use std::collections::HashMap;
use std::sync::OnceLock;

use foldhash::fast::RandomState;
use nagi_bson::{Doc, DocBuf, Value};

use crate::core::command::Command;
use crate::core::server::Server;
use crate::request::Facts;
pub(crate) use crud::{may_kill, opens_change_stream};
pub(crate) use diagnose::{record_diagnostic_data, write_build_info};

/// All commands, sorted by name.
pub(crate) static COMMANDS: &[&Command] = &[
    &users::MERGE_AUTHZ_COLLECTIONS,
    &session::ABORT_TRANSACTION,
    &crud::AGGREGATE,
    &replicate::APPEND_OPLOG_NOTE,
    &replicate::APPLY_OPS,
    &auth::AUTHENTICATE,
    &admin::AUTO_COMPACT,
    &diagnose::BUILD_INFO,
    &crud::BULK_WRITE,
    &collection::CAPTRUNC,
    &collection::CLEANUP_STRUCTURED_ENCRYPTION_DATA,
    &collection::CLONE_COLLECTION_AS_CAPPED,
    &collection::COLL_MOD,
    &diagnose::COLL_STATS,
    &session::COMMIT_TRANSACTION,
    &admin::COMPACT,
    &collection::COMPACT_STRUCTURED_ENCRYPTION_DATA,
    &admin::CONFIGURE_FAIL_POINT,
    &diagnose::CONNECTION_STATUS,
    &diagnose::CONN_POOL_STATS,
    &collection::CONVERT_TO_CAPPED,
    &crud::COUNT,
    &collection::CREATE,
    &index::CREATE_INDEXES,
    &users::CREATE_ROLE,
    &index::CREATE_SEARCH_INDEXES,
    &users::CREATE_USER,
    &diagnose::CURRENT_OP,
    &diagnose::DATA_SIZE,
    &diagnose::DB_HASH,
    &diagnose::DB_STATS,
    &crud::DELETE,
    &crud::DISTINCT,
    &collection::DROP,
    &users::DROP_ALL_ROLES_FROM_DATABASE,
    &users::DROP_ALL_USERS_FROM_DATABASE,
    &admin::DROP_CONNECTIONS,
    &collection::DROP_DATABASE,
    &index::DROP_INDEXES,
    &users::DROP_ROLE,
    &index::DROP_SEARCH_INDEX,
    &users::DROP_USER,
    &collection::EMPTYCAPPED,
    &session::END_SESSIONS,
    &crud::EXPLAIN,
    &diagnose::FEATURES,
    &diagnose::FILEMD5,
    &crud::FIND,
    &crud::FIND_AND_MODIFY,
    &admin::FSYNC,
    &admin::FSYNC_UNLOCK,
    &admin::GET_AUDIT_CONFIG,
    &admin::GET_CLUSTER_PARAMETER,
    &diagnose::GET_CMD_LINE_OPTS,
    &admin::GET_DEFAULT_RW_CONCERN,
    &diagnose::GET_DIAGNOSTIC_DATA,
    &diagnose::GET_FREE_MONITORING_STATUS,
    &legacy::GET_LAST_ERROR,
    &diagnose::GET_LOG,
    &crud::GET_MORE,
    &auth::GETNONCE,
    &admin::GET_PARAMETER,
    &legacy::GET_PREV_ERROR,
    &collection::GODINSERT,
    &users::GRANT_PRIVILEGES_TO_ROLE,
    &users::GRANT_ROLES_TO_ROLE,
    &users::GRANT_ROLES_TO_USER,
    &handshake::HELLO,
    &diagnose::HOST_INFO,
    &crud::INSERT,
    &users::INVALIDATE_USER_CACHE,
    &handshake::IS_MASTER,
    &session::KILL_ALL_SESSIONS,
    &session::KILL_ALL_SESSIONS_BY_PATTERN,
    &crud::KILL_CURSORS,
    &diagnose::KILL_OP,
    &session::KILL_SESSIONS,
    &collection::LIST_COLLECTIONS,
    &diagnose::LIST_COMMANDS,
    &collection::LIST_DATABASES,
    &index::LIST_INDEXES,
    &index::LIST_SEARCH_INDEXES,
    &diagnose::LOCK_INFO,
    &admin::LOG_APPLICATION_MESSAGE,
    &auth::LOGOUT,
    &admin::LOG_ROTATE,
    &crud::MAP_REDUCE,
    &diagnose::NAGI_ADVISE,
    &admin::NAGI_BACKUP,
    &auth::OIDC_LIST_KEYS,
    &auth::OIDC_REFRESH_KEYS,
    &diagnose::PING,
    &admin::PLAN_CACHE_CLEAR,
    &admin::PLAN_CACHE_CLEAR_FILTERS,
    &admin::PLAN_CACHE_LIST_FILTERS,
    &admin::PLAN_CACHE_SET_FILTER,
    &diagnose::PROFILE,
    &session::REFRESH_SESSIONS,
    &index::RE_INDEX,
    &admin::REMOVE_QUERY_SETTINGS,
    &collection::RENAME_COLLECTION,
    &replicate::REPL_SET_FREEZE,
    &replicate::REPL_SET_GET_CONFIG,
    &replicate::REPL_SET_GET_STATUS,
    &replicate::REPL_SET_INITIATE,
    &replicate::REPL_SET_RECONFIG,
    &replicate::REPL_SET_RESIZE_OPLOG,
    &replicate::REPL_SET_STEP_DOWN,
    &legacy::RESET_ERROR,
    &users::REVOKE_PRIVILEGES_FROM_ROLE,
    &users::REVOKE_ROLES_FROM_ROLE,
    &users::REVOKE_ROLES_FROM_USER,
    &users::ROLES_INFO,
    &admin::ROTATE_CERTIFICATES,
    &admin::ROTATE_ENCRYPTION_KEY,
    &auth::SASL_CONTINUE,
    &auth::SASL_START,
    &diagnose::SERVER_STATUS,
    &admin::SET_AUDIT_CONFIG,
    &admin::SET_CLUSTER_PARAMETER,
    &admin::SET_DEFAULT_RW_CONCERN,
    &admin::SET_FEATURE_COMPATIBILITY_VERSION,
    &index::SET_INDEX_COMMIT_QUORUM,
    &admin::SET_PARAMETER,
    &admin::SET_QUERY_SETTINGS,
    &admin::SET_USER_WRITE_BLOCK_MODE,
    &admin::SHUTDOWN,
    &admin::SLEEP,
    &session::START_SESSION,
    &admin::TEST_VERSION2,
    &diagnose::TOP,
    &crud::UPDATE,
    &users::UPDATE_ROLE,
    &index::UPDATE_SEARCH_INDEX,
    &users::UPDATE_USER,
    &users::USERS_INFO,
    &diagnose::VALIDATE,
    &diagnose::VALIDATE_DB_METADATA,
    &diagnose::WHATSMYURI,
];

/// Answers a question of another server.
type Answers = fn(&Server, Value<'_>) -> DocBuf;

/// What other servers that share the data may ask of this one: the field of the question, and what answers it.
static QUESTIONS: &[(&str, Answers)] = &[
    ("currentOp", diagnose::tell_ops),
    ("killOp", diagnose::kill_told_op),
    ("killSessions", session::end_told_sessions),
];

/// Answers a question of another server ([`crate::core::peers`]). Nothing if it is none of those.
pub(crate) fn answer(server: &Server, question: Doc<'_>) -> DocBuf {
    let row = QUESTIONS.iter().find(|(name, _)| !question.get(name).is_missing());
    row.map_or_else(DocBuf::new, |(name, answer)| answer(server, question.get(name)))
}

type Names = HashMap<&'static str, (usize, &'static Command), RandomState>;

/// All commands, with those that only a router has.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().chain(shard::ROUTER_COMMANDS.iter()).copied()
}

/// The position in [`all`] and the row of each name and alias. The map is built at the first call.
fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Names::default();
        for (index, command) in all().enumerate() {
            names.insert(command.name, (index, command));
            for alias in command.aliases {
                names.insert(alias, (index, command));
            }
        }
        names
    })
}

/// The row of a command, by name or alias. One hash lookup. Not every server has it ([`Facts::is_of`]).
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    names().get(name).map(|(_, command)| *command)
}

/// The position of a row in [`all`].
pub(crate) fn index_of(command: &Facts) -> Option<usize> {
    names().get(command.name).map(|(index, _)| *index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::access::Access;

    #[test]
    fn rows_have_golden_cases() {
        let files = nagi_testkit::rows::Files::default();
        nagi_testkit::rows::check("commands", COMMANDS.iter().map(|row| row.name), &files);
    }

    #[test]
    fn commands_of_routers_are_in_the_golden_cases() {
        let cases = nagi_testkit::golden::dir("commands").join("sharding.txt");
        let cases = std::fs::read_to_string(cases).unwrap();
        for row in shard::ROUTER_COMMANDS.iter() {
            assert!(cases.contains(&format!("{{{}:", row.name)), "{}", row.name);
        }
    }

    #[test]
    fn rows_are_sorted_and_complete() {
        let key = |c: &&Command| c.name.to_lowercase();
        for pair in COMMANDS.windows(2) {
            assert!(key(&pair[0]) < key(&pair[1]), "{} {}", pair[0].name, pair[1].name);
        }
        for command in all() {
            assert!(!command.help.is_empty(), "{}", command.name);
            let says = command.before_login || !matches!(command.access, Access::Undeclared);
            assert!(says, "the row of {} does not say what it needs: access", command.name);
            assert!(std::ptr::eq(find(command.name).unwrap(), command));
            for alias in command.aliases {
                assert!(std::ptr::eq(find(alias).unwrap(), command));
            }
        }
    }
}
