//! Mistakes of users: the message says what is wrong and what to do, and nothing is written.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Output;

use crate::process::{Folder, Server, ended, nagi};

const NOBODY: u32 = 65_534;

/// Checks the exit code, and that standard output or standard error contains each text.
#[track_caller]
fn says(output: &Output, code: i32, texts: &[&str]) {
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    for text in texts {
        assert!(said.contains(text), "{text} is not in {said}");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_command_has_help() {
    for (command, says_also) in [
        ("serve", "--wiredTigerIndexPrefixCompression"),
        ("doctor", "nagi doctor ["),
        ("backup", "nagi backup --out"),
        ("copy", "nagi copy --from"),
        ("restore", "nagi restore --from"),
        ("diagnostics", "nagi diagnostics --dbpath"),
        ("generate", "nagi generate man|bash"),
        ("ldap-check", "nagi ldap-check --config"),
        ("version", "nagi version"),
    ] {
        let help = ended(&["help", command]);
        says(&help, 0, &[&format!("nagi {command}: "), says_also]);
        assert_eq!(ended(&[command, "--help"]).stdout, help.stdout, "{command}");
    }
    let short = ended(&["--help"]);
    says(&short, 0, &["Usage\n    nagi [serve] [options]", "--cacheSizeGB", "nagi help serve"]);
    for args in [&["help"][..], &["-h"], &["help", "help"], &["help", "--help"]] {
        assert_eq!(ended(args).stdout, short.stdout, "{args:?}");
    }
    // A pipe is no terminal: no escape sequences, and 80 columns unless COLUMNS says otherwise.
    let wide = nagi().args(["help", "serve"]).env("COLUMNS", "110").output().unwrap();
    let width = |output: &Output| {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(!text.contains('\u{1b}'), "{text}");
        text.lines().map(str::len).max().unwrap()
    };
    let usual = nagi().args(["help", "serve"]).env_remove("COLUMNS").output().unwrap();
    assert!(width(&usual) <= 80 && (100..=110).contains(&width(&wide)));
    says(&ended(&["help", "cacheSizeGB"]), 0, &["storage.cacheSizeGB", "in GiB"]);
    says(&ended(&["help", "backup", "--prune"]), 0, &["nagi backup --prune <url>"]);
    says(&ended(&["help", "parameters"]), 0, &["ttlMonitorSleepSecs", "Default: 60."]);
    says(&ended(&["help", "exit-codes"]), 0, &["  48   Serve: the server cannot listen"]);
}

/// A mistake names what was expected, or the nearest name, and exits with 2.
#[test]
fn mistakes_of_spelling() {
    for (args, texts) in [
        (&["sevre"][..], &["unknown command 'sevre'; did you mean 'serve'?"][..]),
        (&["serve", "--dbpaht", "x"], &["'--dbpaht'; did you mean '--dbpath'?", "nagi help serve"]),
        (
            &["serve", "--port"],
            &["option '--port' is missing; expected an integer from 0 to 65535"],
        ),
        (&["serve", "--port", "many"], &["bad value 'many': expected an integer from 0 to 65535"]),
        (&["serve", "--setParameter", "quite=1"], &["'quite'; did you mean 'quiet'?"]),
        (&["backup", "--verfy", "x"], &["did you mean '--verify'?", "nagi help backup"]),
        (&["backup", "--out"], &["'--out' is missing: --out <directory>"]),
        (
            &["backup", "--rateMBps", "x"],
            &["--rateMBps has the bad value 'x': expected an integer"],
        ),
        (&["backup", "--out", "x", "--uri", "localhost"], &["it must begin with mongodb://"]),
        (&["backup", "--out", "x", "--uri", "mongodb://h/?x=1"], &["'x' is not supported"]),
        (&["backup"], &["one of --out, --archive, --prune and --verify is needed"]),
        (&["restore", "--frm", "x"], &["did you mean '--from'?", "nagi help restore"]),
        (&["restore", "--from", "x"], &["--from and --dbpath are needed"]),
        (&["restore", "--to", "soon"], &["--to soon: expected a time such as"]),
        (&["serve", "--dbpath"], &["option '--dbpath' is missing; expected <directory>"]),
        (&["diagnostics", "--out", "x"], &["--dbpath and --out are needed"]),
        (&["diagnostics", "--archive", "x"], &["unrecognised option '--archive'"]),
        (&["doctor", "-f"], &["-f needs a value: -f <file>"]),
        (&["ldap-check", "--user", "u"], &["--config <file> and --user <name> are needed"]),
        (&["ldap-check", "--usr", "u"], &["did you mean '--user'?", "nagi help ldap-check"]),
        (&["doctor", "--quik"], &["did you mean '--quick'?", "nagi help doctor"]),
        (
            &["doctor", "--maxConns", "x"],
            &["--maxConns has the bad value 'x': expected an integer"],
        ),
        (&["generate", "mann"], &["unknown kind 'mann'; did you mean 'man'?: expected man, bash"]),
        (&["generate"], &["the kind is missing: expected man, bash, zsh, fish"]),
        (&["help", "--dbpaht"], &["did you mean '--dbpath'?"]),
        (&["help", "backup", "--prun"], &["did you mean '--prune'?"]),
        (&["version", "x"], &["nagi version takes no arguments"]),
    ] {
        says(&ended(args), 2, texts);
    }
}

/// The manual page is free of warnings of the programs that render it, where they are installed.
#[test]
fn the_manual_page_is_well_formed() {
    let page = ended(&["generate", "man"]);
    says(&page, 0, &[".TH NAGI 1"]);
    let folder = Folder::new("usage-man");
    let file = folder.path().join("nagi.1");
    std::fs::write(&file, &page.stdout).unwrap();
    for (program, args) in
        [("mandoc", &["-Tlint", "-W", "warning"][..]), ("groff", &["-man", "-Tutf8", "-ww", "-z"])]
    {
        let Ok(output) = std::process::Command::new(program).args(args).arg(&file).output() else {
            eprintln!("skipped: {program} is not installed");
            continue;
        };
        says(&output, 0, &[]);
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{program}: {output:?}");
    }
}

#[test]
fn commands_of_help_and_options() {
    says(&ended(&["help", "foo"]), 2, &["nothing is known of 'foo'"]);
    says(&ended(&["help", "docter"]), 2, &["did you mean 'doctor'?"]);
    says(&ended(&["help", "serve", "doctor"]), 2, &["nagi help takes one topic"]);
    says(&ended(&["repair"]), 2, &["nagi serve --repair --dbpath DIR"]);
    says(&ended(&["doctor", "--quik"]), 2, &["did you mean '--quick'?"]);
    says(&ended(&["backup", "--verfy", "x"]), 2, &["did you mean '--verify'?"]);
    let missing = ended(&["doctor", "-f", "/does/not/exist"]);
    says(&missing, 2, &["Error opening config file /does/not/exist"]);
    assert_eq!(String::from_utf8_lossy(&missing.stderr).lines().count(), 1, "{missing:?}");
}

#[test]
fn backups_that_cannot_be_made_or_read() {
    let folder = Folder::new("usage-backup");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (nope, data, out) = (path("nope"), path("data"), path("out"));
    let missing = format!("{nope} does not exist");
    for args in [
        &["backup", "--verify", &nope][..],
        &["backup", "--base", &nope, "--out", &out],
        &["backup", "--dbpath", &nope, "--out", &out],
        &["restore", "--from", &nope, "--dbpath", &out],
    ] {
        says(&ended(args), 1, &[&missing]);
    }
    let both = ended(&["backup", "--uri", "mongodb://x", "--dbpath", &data, "--out", &path("b")]);
    says(&both, 2, &["--uri and --dbpath exclude each other"]);
    assert!(!folder.path().join("b").exists());

    let server = Server::start(&folder.data());
    let uri = format!("mongodb://127.0.0.1:{}", server.port);
    for name in ["one", "two"] {
        says(&ended(&["backup", "--uri", &uri, "--out", &path(name)]), 0, &["backup of"]);
        assert!(!folder.data().join("nagi.backup").exists(), "the server removes it");
    }
    // As while a backup is made.
    std::fs::create_dir(folder.data().join("nagi.backup")).unwrap();
    for args in [
        &["backup", "--verify", &data][..],
        &["restore", "--from", &data, "--dbpath", &path("restored")],
    ] {
        says(&ended(args), 1, &["is a data directory, not a backup"]);
    }
}

#[test]
fn folders_without_our_data_are_left_as_they_are() {
    for (entries, more, text) in [
        (&[][..], &["--repair"][..], "There is nothing to repair in"),
        (&["notes.txt"], &["--repair"], "There is nothing to repair in"),
        (&["PG_VERSION"], &[], "the data of PostgreSQL (found 'PG_VERSION')"),
        (&["CURRENT", "MANIFEST-000001"], &[], "a RocksDB or LevelDB database"),
        (&["WiredTiger"], &["--repair"], "another server (found 'WiredTiger')"),
    ] {
        let folder = Folder::new("usage-foreign");
        for entry in entries {
            std::fs::write(folder.data().join(entry), b"x").unwrap();
        }
        let data = folder.data().display().to_string();
        let usual = ["serve", "--port", "0", "--nounixsocket", "--dbpath", &data];
        says(&ended(&[&usual[..], more].concat()), 100, &[text]);
        assert_eq!(names(&folder.data()), entries);
    }
}

/// The folder above the data directory may not be entered.
#[test]
fn a_data_directory_out_of_reach() {
    let folder = Folder::new("usage-closed");
    let closed = folder.path().join("closed");
    std::fs::create_dir_all(closed.join("db")).unwrap();
    let set = |mode| {
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o600);
    let data = closed.join("db").display().to_string();
    let path = closed.display().to_string();
    let run = |args: &[&str]| {
        let mut command = nagi();
        command.args(args).args(["--dbpath", &data]);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output()
    };
    let serve = run(&["serve", "--port", "0", "--nounixsocket"]);
    let doctor = run(&["doctor", "--quick"]);
    set(0o700);
    let (Ok(serve), Ok(doctor)) = (serve, doctor) else {
        eprintln!("skipped: nobody may not run the program here");
        return;
    };
    let text = format!("this user may not enter {path}");
    says(&serve, 100, &["cannot be reached: Permission denied", &text]);
    says(&doctor, 3, &[&text, &format!("chmod o+x {path}")]);
}

#[test]
fn errors_in_a_configuration_file_have_a_line() {
    let folder = Folder::new("usage-file");
    let file = folder.path().join("mongod.conf");
    let path = file.display().to_string();
    let line = |n: usize| format!("(line {n} of the configuration file)");
    for (text, at, says_also) in [
        ("net:\n  port: 1\nnet:\n  ipv6: true\n", 3, "duplicate key 'net'"),
        ("# x\nsystemlog:\n  quiet: true\n", 2, "did you mean 'systemLog'?"),
        ("Storage:\n  dbPath: /x\n", 1, "did you mean 'storage'?"),
        ("network:\n  port: 1\n", 1, "did you mean 'net'?"),
        ("operationprofiling:\n  mode: off\n", 1, "did you mean 'operationProfiling'?"),
        ("setparameter:\n  quiet: true\n", 1, "did you mean 'setParameter'?"),
        ("replication:\n  replSet: rs\n", 2, "; rename it to replication.replSetName"),
        (
            "auditLog:\n  compressionMode: zstd\n",
            2,
            "; remove it to start: the file of the audit log",
        ),
        ("port=1\nauditCompressionMode=zstd\n", 2, "the file of the audit log"),
        ("# x\nsetParameter:\n  foo: 1\n", 3, "Unknown parameter in setParameter: 'foo'"),
        (
            "setParameter:\n  notablescan: 5\n",
            2,
            "notablescan: bad type (line 2 of the configuration file); expected true or false, not '5'",
        ),
        ("setParameter=notablescan=5\n", 1, "; expected true or false, not '5'"),
        (
            "setParameter:\n  storageEngineConcurrencyAdjustmentAlgorithm: none\n",
            2,
            "is not a valid value. Expected one of fixedConcurrentTransactions, throughputProbing",
        ),
        ("setParameter:\n  processUmask: 999\n", 2, "'999' is not a valid value"),
    ] {
        std::fs::write(&file, text).unwrap();
        says(&ended(&["-f", &path]), 2, &[&line(at), says_also]);
    }
    // What a flag sets is not blamed on the file.
    std::fs::write(&file, "setParameter:\n  notablescan: true\n").unwrap();
    let flag = ended(&["-f", &path, "--setParameter", "notablescan=5"]);
    says(&flag, 2, &["notablescan: bad type; expected true or false, not '5'"]);
    says(&ended(&["--setParameter", "foo=1"]), 2, &["Unknown --setParameter 'foo'"]);
}
