//! Answers of LDAP servers: those of a directory with changes in their bytes or in their structure, and any bytes.
//!
//! ```text
//!   kind % 4    0   a login: the answer to the bind is changed
//!               1   a login: the answer to the query that maps the user's name is changed
//!               2   the groups of a user: the answer to the query that finds them is changed
//!               3   any bytes; 0xFF 0xFE separates the answers to the query and to what follows it
//!   kind & 4    names are attributes of entries, instead of the names of entries
//!   kind & 8    the answer changed in its structure: elements are lost, doubled, moved, of other types or empty,
//!               and all lengths fit; else its bytes are changed
//!   kind / 16   what the directory answers: several entries, references, results that are refusals, pieces
//! ```
//! The server is the other end of a socket pair, in the same thread: its answers are packets that wait to be read. A
//! user is logged in only if the answer says so, by a name that the directory gave; a password is sent in a bind only.
#![no_main]

mod ber;
mod edits;
mod growth;

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use ber::Element;
use libfuzzer_sys::fuzz_target;
use nagi_ldap::{Ldap, LdapOptions};
use nagi_server::{Directory, DirectoryError};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};

const USER: &str = "ann";
const PASSWORD: &str = "correct horse battery";
const SEPARATOR: &[u8] = &[0xFF, 0xFE];
/// The client reads this much at a time; what a packet has beyond it would be lost.
const PACKET_BYTES_MAX: usize = 16 * 1024;

const BIND_RESPONSE: u8 = 0x61;
const ENTRY: u8 = 0x64;
const DONE: u8 = 0x65;
const REFERENCE: u8 = 0x73;

/// Directories whose queries return names of entries, and values of attributes.
static DIRECTORIES: LazyLock<[Ldap; 2]> = LazyLock::new(|| ["", "dn"].map(directory));

fn directory(attribute: &str) -> Ldap {
    let groups = if attribute.is_empty() { "" } else { "memberOf" };
    Ldap::new(LdapOptions {
        // Nothing listens there: a connection that fails is not replaced.
        servers: "127.0.0.1:1".to_owned(),
        tls: false,
        user_to_dn_mapping: format!(
            r#"[{{match: "(.+)", ldapQuery: "dc=example,dc=org?{attribute}?sub?(uid={{0}})"}}]"#
        ),
        query_template: format!("dc=example,dc=org?{groups}?sub?(member={{USER}})"),
        ..LdapOptions::default()
    })
    .expect("good options")
}

/// The server's end of a connection.
struct Peer(OwnedFd);

impl Peer {
    /// A connection whose server sends these packets, and then nothing.
    fn keep(ldap: &Ldap, is_for_queries: bool, answers: &[Vec<u8>]) -> Peer {
        let (own, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a pair of sockets");
        for piece in answers.iter().flat_map(|answer| answer.chunks(PACKET_BYTES_MAX)) {
            // What does not fit into the socket's buffer is as if the server had stopped.
            if send(&own, piece, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_err() {
                break;
            }
        }
        shutdown(&own, Shutdown::Write).expect("an open socket");
        ldap.keep_socket(TcpStream::from(theirs), is_for_queries).expect("a connection");
        Peer(own)
    }

    /// The requests that the client has sent.
    fn requests(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut place = vec![0; 64 * 1024];
        while let Ok((length @ 1.., _)) = recv(&self.0, &mut place[..], RecvFlags::DONTWAIT) {
            all.push(place[..length].to_vec());
        }
        all
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, input)) = data.split_first() else { return };
    let directory = usize::from(*kind >> 2) % 2;
    match kind % 4 {
        0 => login(*kind, directory, true, input),
        1 => login(*kind, directory, false, input),
        2 => groups(*kind, directory, input),
        _ => any_bytes(directory, *kind & 8 != 0, input),
    }
    growth::check();
});

/// An answer to request `id`: whether it is the changed one decides if `input` applies.
fn bytes_of(kind: u8, messages: Vec<Element>, changes: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut messages = messages;
    let Some(input) = changes else { return messages.iter().map(Element::bytes).collect() };
    if kind & 8 != 0 {
        let Some((at, input)) = input.split_first() else { return bytes_of(kind, messages, None) };
        let at = usize::from(*at) % messages.len();
        ber::change(&mut messages[at], input);
        return bytes_of(kind, messages, None);
    }
    let mut all: Vec<u8> = messages.iter().flat_map(Element::bytes).collect();
    edits::apply(input, &mut all);
    match kind & 0x80 {
        0 => vec![all],
        // In pieces, as a slow network delivers them.
        _ => all.chunks(7).map(<[u8]>::to_vec).collect(),
    }
}

fn result(id: u8, tag: u8, code: u8) -> Element {
    let outcome = [ber::enumerated(code), ber::text(b"dc=org"), ber::text(b"the reason")];
    ber::message(id, ber::parent(tag, outcome.into()))
}

fn entry(id: u8, name: &str, attribute: &str, values: &[&str]) -> Element {
    let values = values.iter().map(|value| ber::text(value.as_bytes())).collect();
    let attribute = vec![ber::text(attribute.as_bytes()), ber::parent(0x31, values)];
    let attributes = ber::parent(0x30, vec![ber::parent(0x30, attribute)]);
    ber::message(id, ber::parent(ENTRY, vec![ber::text(name.as_bytes()), attributes]))
}

/// The answer to the query that finds the user.
fn found_user(kind: u8) -> Vec<Element> {
    let name = "uid=ann,ou=people,dc=example,dc=org";
    let mut all = vec![entry(1, name, "dn", &[name])];
    if kind & 16 != 0 {
        all.push(ber::message(1, ber::parent(REFERENCE, vec![ber::text(b"ldap://b/dc=org")])));
    }
    all.push(result(1, DONE, 0));
    all
}

fn found_groups(kind: u8) -> Vec<Element> {
    let names = ["cn=admins,dc=example,dc=org", "cn=readers,dc=example,dc=org", "root"];
    let count = 1 + usize::from(kind >> 4) % 3;
    let mut all: Vec<Element> =
        names[..count].iter().map(|name| entry(2, name, "memberOf", &names[..count])).collect();
    all.push(result(2, DONE, if kind & 0x60 == 0x60 { 32 } else { 0 }));
    all
}

/// A login; its answer to the bind, or else to the query, is changed.
fn login(kind: u8, directory: usize, is_bind: bool, input: &[u8]) {
    let code = [0, 49, 0, 51][usize::from(kind >> 5) % 4];
    let found = bytes_of(kind, found_user(kind), (!is_bind).then_some(input));
    let bound = bytes_of(kind, vec![result(1, BIND_RESPONSE, code)], is_bind.then_some(input));
    let good = result(1, BIND_RESPONSE, 0).bytes();
    let is_valid =
        code == 0 && bound.concat() == good && found == bytes_of(kind, found_user(kind), None);
    let is_logged_in = authenticate(directory, &found, &bound);
    assert!(is_logged_in || !is_valid, "a good directory's user is refused");
}

fn any_bytes(directory: usize, is_login: bool, input: &[u8]) {
    let at = input.windows(2).position(|pair| pair == SEPARATOR);
    let (first, rest) = at.map_or((input, &b""[..]), |at| (&input[..at], &input[at + 2..]));
    let (first, rest) = ([first.to_vec()], [rest.to_vec()]);
    match is_login {
        true => drop(authenticate(directory, &first, &rest)),
        false => drop(groups_of(directory, &[&first[..], &rest[..]].concat())),
    }
}

/// Returns true if the user is logged in with these answers to the query and to the bind.
fn authenticate(directory: usize, found: &[Vec<u8>], bound: &[Vec<u8>]) -> bool {
    let ldap = &DIRECTORIES[directory];
    let queries = Peer::keep(ldap, true, found);
    let binds = Peer::keep(ldap, false, bound);
    let done = ldap.authenticate(USER, PASSWORD);
    for request in queries.requests() {
        assert!(!holds(&request, PASSWORD.as_bytes()), "a password in a query");
    }
    let sent = binds.requests();
    match &done {
        Ok(()) => {
            assert!(ber::is_success(&bound.concat(), 1, BIND_RESPONSE), "logged in by {bound:?}");
            let name = ber::bound_name(&sent[0]).expect("a bind with a name");
            assert!(!name.is_empty() && holds(&found.concat(), name), "a name from nowhere");
        }
        Err(DirectoryError::Refused(why) | DirectoryError::Unavailable(why)) => check_text(why),
    }
    assert!(sent.len() <= 1, "{} binds for a login", sent.len());
    done.is_ok()
}

fn groups(kind: u8, directory: usize, input: &[u8]) {
    let mut answers = bytes_of(kind, found_user(kind), None);
    let found = bytes_of(kind, found_groups(kind), Some(input));
    let is_valid = kind & 0x60 != 0x60 && found == bytes_of(kind, found_groups(kind), None);
    answers.extend(found);
    let read = groups_of(directory, &answers);
    assert!(read || !is_valid, "a good directory's groups are refused");
}

/// Returns true if the directory answers with groups of the user.
fn groups_of(directory: usize, answers: &[Vec<u8>]) -> bool {
    let ldap = &DIRECTORIES[directory];
    let queries = Peer::keep(ldap, true, answers);
    let found = ldap.groups(USER);
    assert!(queries.requests().iter().all(|request| !holds(request, PASSWORD.as_bytes())));
    match found {
        Ok(Some(groups)) => {
            let all = answers.concat();
            assert!(groups.len() <= 10_000 && groups.is_sorted());
            for group in groups {
                assert!(group.contains('='), "{group:?} is no distinguished name");
                assert!(holds(&all, group.as_bytes()), "{group:?} is not from the server");
            }
            true
        }
        Ok(None) => false,
        Err(DirectoryError::Refused(why) | DirectoryError::Unavailable(why)) => {
            check_text(&why);
            false
        }
    }
}

/// What goes to the log and to `validate`'s caller.
fn check_text(why: &str) {
    assert!(!why.is_empty() && why.len() < 1200 && !why.contains(PASSWORD), "{}: {why}", why.len());
    assert!(!why.contains(char::is_control), "{why:?}");
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}
