//! Users of a directory (LDAP): which of them have the roles of their groups, and where they are shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use nagi_bson::{Binary, DocBuf, Value, doc, json};
use nagi_server::{Directory, DirectoryError, DirectorySetting, DirectoryStatus};

use crate::client::{Client, is_ok};
use crate::tokens::{PROVIDER, find, show, start_with, token};

/// A directory with the users "ann" and "corp/job", who are readers.
#[derive(Default)]
struct Fake {
    /// The number of questions for groups.
    asked: AtomicUsize,
}

impl Directory for Fake {
    fn authenticate(&self, _: &str, password: &str) -> Result<(), DirectoryError> {
        match password {
            "right" => Ok(()),
            _ => Err(DirectoryError::Refused("wrong".to_owned())),
        }
    }

    fn gives_roles(&self) -> bool {
        true
    }

    fn groups(&self, user: &str) -> Result<Option<Vec<String>>, DirectoryError> {
        self.asked.fetch_add(1, SeqCst);
        let known = ["ann", "corp/job"].contains(&user);
        Ok(known.then(|| vec!["cn=readers".to_owned()]))
    }

    fn set(&self, _: DirectorySetting, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn shown(&self, _: DirectorySetting) -> String {
        String::new()
    }

    fn close_unused(&self) {}

    fn status(&self) -> DirectoryStatus {
        DirectoryStatus::default()
    }
}

/// A server with this directory and a provider of tokens, and its root.
fn start() -> (Arc<nagi_server::Server>, Arc<Fake>, Client) {
    let directory = Arc::new(Fake::default());
    let providers = ("oidcIdentityProviders", &*format!("[{PROVIDER}]"));
    let (server, _, mut root) = start_with(&[providers], Some(directory.clone()));
    for command in [
        "{createRole: 'cn=readers', privileges: [], roles: [{role: 'read', db: 'test'}]}",
        "{createRole: 'corp/r', privileges: [], roles: [{role: 'read', db: 'other'}]}",
    ] {
        assert!(is_ok(&run(&mut root, "admin", command)), "{command}");
    }
    (server, directory, root)
}

fn run(client: &mut Client, db: &str, text: &str) -> DocBuf {
    client.run(db, json::parse(text).unwrap().as_doc())
}

fn plain(client: &mut Client, user: &str, password: &str) -> DocBuf {
    let message = format!("\0{user}\0{password}");
    let payload = Value::Binary(Binary { subtype: 0, bytes: message.as_bytes() });
    client.run(
        "$external",
        doc! { "saslStart": 1, "mechanism": "PLAIN", "payload": (payload) }.as_doc(),
    )
}

fn roles(client: &mut Client) -> String {
    let status = run(client, "admin", "{connectionStatus: 1}");
    let info = status.get("authInfo").as_doc().unwrap();
    info.get("authenticatedUserRoles").to_string()
}

#[test]
fn users_of_the_directory_are_not_stored_and_not_listed() {
    let (server, _, mut root) = start();
    let mut ann = Client::new(&server);
    assert!(!is_ok(&plain(&mut ann, "ann", "wrong")));
    assert!(is_ok(&plain(&mut ann, "ann", "right")));
    assert_eq!((find(&mut ann, "test"), find(&mut ann, "other")), (0, 13));
    assert!(roles(&mut ann).contains("cn=readers"), "{}", roles(&mut ann));
    for who in [&mut root, &mut ann] {
        for (query, is_ones_own) in [
            ("{usersInfo: 'ann'}", true),
            ("{usersInfo: {user: 'ann', db: '$external'}, showPrivileges: true}", true),
            ("{usersInfo: {user: 'ann', db: '$external'}, showCredentials: true}", true),
            ("{usersInfo: 1}", false),
            ("{usersInfo: {forAllDBs: true}}", false),
        ] {
            let reply = run(who, "$external", query);
            if is_ones_own || is_ok(&reply) {
                let users = reply.get("users").as_array().unwrap();
                let found = users
                    .iter()
                    .any(|user| user.as_doc().unwrap().get("user").as_str() == Some("ann"));
                assert!(is_ok(&reply) && !found, "{query}: {reply:?}");
            }
        }
    }
    // A document of the same name is listed, but its roles are not those of the user.
    assert!(is_ok(&run(
        &mut root,
        "$external",
        "{createUser: 'ann', roles: [{role: 'root', db: 'admin'}]}"
    )));
    let listed = run(&mut root, "$external", "{usersInfo: 'ann'}");
    assert_eq!(listed.get("users").as_array().unwrap().count(), 1, "{listed:?}");
    let mut again = Client::new(&server);
    assert!(is_ok(&plain(&mut again, "ann", "right")));
    assert!(!roles(&mut again).contains("root"), "{}", roles(&mut again));
}

/// MongoDB's manual: OIDC uses LDAP authorization, if it is enabled, when `useAuthorizationClaim` is false.
#[test]
fn tokens_without_a_claim_of_roles_have_the_groups_of_their_user() {
    let (server, directory, mut root) = start();
    let mut job = Client::new(&server);
    assert!(is_ok(&show(&mut job, &token("corp/job", "-", 60))));
    assert_eq!((find(&mut job, "test"), find(&mut job, "other")), (0, 13));
    assert!(roles(&mut job).contains("cn=readers"), "{}", roles(&mut job));
    // Who is not in the directory does not log in, even with a document.
    let create = "{createUser: 'corp/other', roles: [{role: 'root', db: 'admin'}]}";
    assert!(is_ok(&run(&mut root, "$external", create)));
    assert!(!is_ok(&show(&mut Client::new(&server), &token("corp/other", "-", 60))));
    // With a claim the directory is not asked.
    let asked = directory.asked.load(SeqCst);
    let mut claimed = Client::new(&server);
    assert!(is_ok(&show(&mut claimed, &token("corp/job", "corp/r", 60))));
    assert_eq!((find(&mut claimed, "test"), find(&mut claimed, "other")), (13, 0));
    assert!(!roles(&mut claimed).contains("cn=readers"), "{}", roles(&mut claimed));
    assert_eq!(directory.asked.load(SeqCst), asked);
}
