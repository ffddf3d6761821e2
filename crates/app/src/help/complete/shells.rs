//! Runs the completions in the shells. bash must be installed; zsh and fish are tested where they are.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A file in a temporary directory of its own, which is removed at the end.
struct Script(PathBuf);

impl Script {
    fn new(name: &str, text: &str) -> Script {
        let folder =
            std::env::temp_dir().join(format!("nagi-complete-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("some folder")).unwrap();
        std::fs::write(folder.join("some.conf"), "").unwrap();
        std::fs::write(folder.join(name), text).unwrap();
        Script(folder)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The output of a shell that reads `input`; `None` if the shell is not installed.
fn run(shell: &str, args: &[&str], script: &Script, input: &str) -> Option<String> {
    Command::new(shell).arg("--version").stdout(Stdio::null()).status().ok()?;
    // A shell that waits for something must not stop the tests.
    let mut child = Command::new("timeout")
        .args(["60", shell])
        .args(args)
        .current_dir(&script.0)
        .env("HOME", &script.0)
        .env("XDG_CONFIG_HOME", &script.0)
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(input.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shell}: {out}{err}");
    assert!(err.is_empty(), "{shell}: {err}");
    Some(out.into_owned())
}

/// What is typed, what must be offered, and what must not.
const CASES: &[(&str, &[&str], &[&str])] = &[
    ("nagi ba", &["backup"], &["serve"]),
    ("nagi serve --storageE", &["--storageEngine"], &["--dbpath", "--prune"]),
    ("nagi serve --storageEngine ", &["inMemory", "wiredTiger", "mmapv1"], &["true"]),
    ("nagi serve --storageEngine=w", &["wiredTiger"], &["mmapv1"]),
    ("nagi --stor", &["--storageEngine"], &["--prune"]),
    ("nagi serve --directIO ", &["true", "false"], &["some.conf"]),
    ("nagi serve --config some", &["some.conf"], &["true"]),
    ("nagi serve --dbpath so", &["some"], &["some.conf"]),
    ("nagi serve --setParameter ttlMonitorS", &["ttlMonitorSleepSecs="], &["ttlMonitorEnabled"]),
    ("nagi serve --networkMessageCompressors sn", &["snappy"], &["zlib"]),
    ("nagi serve --networkMessageCompressors zstd,", &["snappy", "zlib"], &["some.conf"]),
    ("nagi serve --networkMessageCompressors zstd,z", &["zlib"], &["snappy"]),
    ("nagi backup --p", &["--prune", "--passwordFile"], &["--port", "--profile"]),
    ("nagi backup --ver", &["--verify"], &["--version"]),
    ("nagi generate ", &["man", "bash", "zsh", "fish"], &["serve"]),
    ("nagi help para", &["parameters"], &["serve"]),
    ("nagi serve --tlsMode ", &["disabled", "requireTLS"], &["some.conf"]),
    ("nagi serve --tlsFIPSMode ", &["false"], &["true"]),
    ("nagi help --storageE", &["--storageEngine"], &[]),
    ("nagi serve -v --stor", &["--storageEngine"], &[]),
    ("nagi serve --tlsCertificateS", &[], &["--tlsCertificateSelector"]),
];

fn check(shell: &str, typed: &str, offered: &str, expected: &[&str], others: &[&str]) {
    for word in expected {
        assert!(offered.contains(word), "{shell}: {typed:?} does not offer {word}: {offered}");
    }
    for word in others {
        assert!(!offered.contains(word), "{shell}: {typed:?} offers {word}: {offered}");
    }
}

#[test]
fn bash() {
    let script = Script::new("nagi.bash", &super::bash());
    let mut input = String::from("source ./nagi.bash\n");
    for (typed, ..) in CASES {
        // Readline's words: `=` is one of its own.
        let words = typed.replace('=', " = ");
        let words: Vec<String> = words.split(' ').map(|word| format!("'{word}'")).collect();
        input.push_str(&format!(
            "COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=(); _nagi; echo \
                \"${{COMPREPLY[*]}}\"\n",
            words.join(" ")
        ));
    }
    let out = run("bash", &["--norc", "--noprofile"], &script, &input).expect("bash is installed");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), CASES.len(), "{out}");
    for ((typed, expected, others), offered) in CASES.iter().zip(lines) {
        check("bash", typed, offered, expected, others);
    }
}

#[test]
fn fish() {
    let script = Script::new("nagi.fish", &super::fish());
    let mut input = String::from("source ./nagi.fish\n");
    for (typed, ..) in CASES {
        input.push_str(&format!("complete -C '{typed}'; echo ==\n"));
    }
    let Some(out) = run("fish", &["--no-config"], &script, &input) else {
        eprintln!("skipped: fish is not installed");
        return;
    };
    let parts: Vec<&str> = out.split("==\n").collect();
    assert_eq!(parts.len(), CASES.len() + 1, "{out}");
    for ((typed, expected, others), offered) in CASES.iter().zip(parts) {
        // The descriptions may contain other names.
        let names = offered.lines().map(|line| line.split('\t').next().unwrap_or_default());
        check("fish", typed, &names.collect::<Vec<_>>().join(" "), expected, others);
    }
}

/// zsh completes only at a terminal: `zpty` provides one, and `compadd` is replaced by a function that collects the
/// words.
#[test]
fn zsh() {
    let script = Script::new("_nagi", &super::zsh());
    std::fs::write(script.0.join("rc"), ZSH_INSIDE).unwrap();
    let mut driver = String::from(ZSH_DRIVER);
    for (typed, ..) in CASES {
        driver.push_str(&format!("offered '{typed}'\n"));
    }
    std::fs::write(script.0.join("driver"), driver).unwrap();
    let Some(out) = run("zsh", &["-f", "driver"], &script, "") else {
        eprintln!("skipped: zsh is not installed");
        return;
    };
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), CASES.len(), "{out}");
    for ((typed, expected, others), offered) in CASES.iter().zip(lines) {
        // The sign is a suffix of the word.
        let expected: Vec<&str> = expected.iter().map(|word| word.trim_end_matches('=')).collect();
        check("zsh", typed, offered, &expected, others);
    }
}

/// What the shell at the terminal reads.
const ZSH_INSIDE: &str = r#"
PS1= PS2=
unsetopt zle_bracketed_paste prompt_sp prompt_cr
fpath=($PWD $fpath)
autoload -Uz compinit
compinit -u -D
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return $?; fi
  local -a found
  builtin compadd -A found "$@"
  offers+=($found)
  builtin compadd "$@"
}
typed() {
  offers=() BUFFER=$wanted CURSOR=$#wanted
  zle list-choices
  print -r -- "$offers" > $PWD/offers
  BUFFER=
}
zle -N typed
bindkey '^X^T' typed
"#;

/// Types at the terminal, and prints a line of words for each call of `offered`.
const ZSH_DRIVER: &str = r#"
zmodload zsh/zpty || exit 1
mkfifo offers
zpty z zsh -f -i
zpty -w z 'stty -echo; source ./rc; print read""y'
zpty -r z line '*ready*'
offered() {
  zpty -w z "wanted='$1'; print se\"\"t"
  zpty -r z line '*set*'
  zpty -w -n z $'\x18\x14'
  cat offers
}
"#;
