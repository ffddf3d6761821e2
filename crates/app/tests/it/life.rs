//! Start and end.

use nagi_bson::Value;

use crate::process::{Folder, Server, ended};

#[test]
fn bad_options_are_refused() {
    for (args, text) in [
        (&["--auditDestination", "file"][..], "--auditDestination"),
        (&["--nonsense"], "unrecognised option '--nonsense'"),
        (&["serve", "-f", "/does/not/exist"], "Error opening config file"),
        (&["dance"], "unknown command 'dance'"),
    ] {
        let output = ended(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(text), "{output:?}");
    }
    assert!(String::from_utf8_lossy(&ended(&["version"]).stdout).starts_with("nagi "));
    assert_eq!(ended(&["--dbpath", "/does/not/exist"]).status.code(), Some(100));
}

#[test]
fn one_process_a_folder_and_one_a_port() {
    let (folder, other) = (Folder::new("one"), Folder::new("other"));
    let server = Server::start(&folder.data());
    let port = server.port.to_string();
    let data = folder.data().display().to_string();
    let second = ended(&["--dbpath", &data, "--port", "0", "--nounixsocket"]);
    assert_eq!(second.status.code(), Some(100));
    assert!(String::from_utf8_lossy(&second.stdout).contains("DBPathInUse"));
    let data = other.data().display().to_string();
    let second = ended(&["--dbpath", &data, "--port", &port, "--nounixsocket"]);
    assert_eq!(second.status.code(), Some(48));
}

#[test]
fn what_was_written_is_there_after_every_kind_of_end() {
    let folder = Folder::new("ends");
    let ends: [(&str, Option<i32>); 3] = [("-TERM", Some(0)), ("-INT", Some(0)), ("-KILL", None)];
    for (round, (signal, code)) in ends.into_iter().enumerate() {
        let server = Server::start(&folder.data());
        let mut client = server.client();
        assert_eq!(client.count("c"), round as i64);
        let reply = client.run(&format!(
            "{{insert: 'c', documents: [{{_id: {round}}}], writeConcern: {{j: true}}}}"
        ));
        assert_eq!(reply.get("n"), Value::Int32(1), "{reply:?}");
        server.signal(signal);
        assert_eq!(server.wait(), code, "{signal}");
        let lock = std::fs::read(folder.data().join("mongod.lock")).unwrap();
        assert_eq!(lock.is_empty(), code.is_some(), "{signal}");
    }
    let server = Server::start(&folder.data());
    let mut client = server.client();
    assert_eq!(client.count("c"), 3);
    let _ = client.try_run("{shutdown: 1, $db: 'admin'}");
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
}
