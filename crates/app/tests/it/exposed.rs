//! Who may reach a server: the protected mode, the localhost exception, warnings about open doors.

use std::os::unix::fs::PermissionsExt;

use nagi_bson::{DocBuf, Value, number};

use crate::process::{Client, Folder, Server, ended};

fn code(reply: &DocBuf) -> i64 {
    number::as_i64_exact(reply.get("code")).unwrap_or(0)
}

/// The ids of the warnings that a shell shows.
fn warnings(client: &mut Client) -> Vec<i64> {
    let reply = client.try_run_on("admin", "{getLog: 'startupWarnings'}").unwrap();
    let Value::Array(lines) = reply.get("log") else { panic!("{reply:?}") };
    let id = |line: &str| {
        let line = nagi_bson::json::parse(line).unwrap();
        number::as_i64_exact(line.get("id")).unwrap()
    };
    lines.iter().map(|line| id(line.as_str().unwrap())).collect()
}

#[test]
fn a_server_without_logins_does_not_listen_for_others() {
    let folder = Folder::new("exposed");
    let data = folder.data().display().to_string();
    for address in [
        &["--bind_ip", "0.0.0.0"][..],
        &["--bind_ip_all"],
        &["--bind_ip", "localhost,::", "--ipv6"],
    ] {
        let mut args = vec!["serve", "--port", "0", "--nounixsocket", "--dbpath", &*data];
        args.extend(address);
        let output = ended(&args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        for way in ["--auth", "--bind_ip 127.0.0.1", "--allowUnsafe"] {
            assert!(said.contains(way), "{said}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.data()).unwrap().count(), 0, "the data directory was used");

    let unsafe_args = ["--bind_ip", "0.0.0.0", "--allowUnsafe"];
    let mut server = Server::start_with(&folder.data(), &unsafe_args);
    let found = warnings(&mut server.client());
    for id in [22_120, 8_200_181, 8_200_182, 8_200_186] {
        assert!(found.contains(&id), "{id}: {found:?}");
    }
    server.end_input();
    drop(server);

    // An address of this machine only is not one that others can reach.
    let server = Server::start_with(&folder.data(), &["--bind_ip", "127.0.0.1,127.0.0.2"]);
    let found = warnings(&mut server.client());
    assert!(!found.contains(&8_200_181) && !found.contains(&8_200_182), "{found:?}");
}

#[test]
fn a_key_file_or_logins_are_enough() {
    let folder = Folder::new("exposed-auth");
    let key = folder.path().join("key");
    std::fs::write(&key, "c2VjcmV0a2V5").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let args = ["--bind_ip", "0.0.0.0", "--keyFile", key.to_str().unwrap()];
    let server = Server::start_with(&folder.data(), &args);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_whitespace().nth(4), Some("0"), "{cores}");
    drop(server);

    let args = ["--auth", "--coreDumps"];
    let server = Server::start_with(&folder.data(), &args);
    let own = std::fs::read_to_string("/proc/self/limits").unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let cores =
        |text: &str| text.lines().find(|l| l.starts_with("Max core file")).unwrap().to_owned();
    assert_eq!(cores(&limits), cores(&own));
}

#[test]
fn the_localhost_exception_ends_with_the_first_user_of_any_database() {
    let folder = Folder::new("exposed-first");
    let create = "{createUser: 'a', pwd: 'secret', roles: []}";
    let closed = ["--auth", "--setParameter", "enableLocalhostAuthBypass=false"];
    let server = Server::start_with(&folder.data(), &closed);
    assert_eq!(code(&server.client().try_run_on("admin", create).unwrap()), 13);
    drop(server);

    let server = Server::start_with(&folder.data(), &["--auth"]);
    let mut client = server.client();
    assert_eq!(code(&client.run("{find: 'c'}")), 13);
    // Only a user on admin, who can then create others.
    assert_eq!(code(&client.try_run_on("other", create).unwrap()), 13);
    assert!(warnings_without_login(&server).is_none());
    let first = client.try_run_on("admin", create).unwrap();
    assert_eq!(code(&first), 0, "{first:?}");
    assert_eq!(code(&client.try_run_on("admin", create).unwrap()), 13);
    assert_eq!(code(&server.client().try_run_on("admin", create).unwrap()), 13);
    drop(server);

    // A user of another database is one, too, though without privileges.
    let folder = Folder::new("exposed-other");
    let server = Server::start(&folder.data());
    assert_eq!(code(&server.client().try_run_on("other", create).unwrap()), 0);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    let server = Server::start_with(&folder.data(), &["--auth"]);
    assert_eq!(code(&server.client().try_run_on("admin", create).unwrap()), 13);
}

/// `getLog` needs a login.
fn warnings_without_login(server: &Server) -> Option<i64> {
    let reply = server.client().try_run_on("admin", "{getLog: 'startupWarnings'}").unwrap();
    (code(&reply) != 13).then(|| code(&reply))
}

#[test]
fn javascript_can_be_turned_off() {
    let folder = Folder::new("exposed-script");
    let server = Server::start_with(&folder.data(), &["--noscripting"]);
    let mut client = server.client();
    client.run("{insert: 'c', documents: [{_id: 1, a: 1}]}");
    let function = "{body: 'function(a) { return a }', args: ['$a'], lang: 'js'}";
    let accumulator = "{init: 'function() {}', accumulate: 'function() {}', accumulateArgs: ['$a'], \
                       merge: 'function() {}', lang: 'js'}";
    let group = format!("{{_id: 1, x: {{$accumulator: {accumulator}}}}}");
    for (wanted, command) in [
        (2, "{find: 'c', filter: {$where: 'true'}}".to_owned()),
        (
            31264,
            format!(
                "{{aggregate: 'c', pipeline: [{{$project: {{x: {{$function: {function}}}}}}}], cursor: {{}}}}"
            ),
        ),
        (31264, format!("{{aggregate: 'c', pipeline: [{{$group: {group}}}], cursor: {{}}}}")),
        (
            31264,
            "{mapReduce: 'c', map: 'function() {}', reduce: 'function() {}', out: {inline: 1}}"
                .to_owned(),
        ),
    ] {
        let reply = client.run(&command);
        assert_eq!(code(&reply), wanted, "{command}: {reply:?}");
    }
    assert_eq!(client.count("c"), 1);
}
