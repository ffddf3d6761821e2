//! What is done about an alert: a request to a webhook, or a program that runs.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use ureq::Agent;
use ureq::http::{HeaderName, HeaderValue};

use super::event::Event;
use super::family;

/// How a webhook is tried; docs/alerts.md has the numbers.
const PATIENCE: Patience = Patience {
    try_max: Duration::from_secs(5),
    again_after: [Duration::from_secs(1), Duration::from_secs(4)],
};
/// The time that a program has.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);
/// How often it is looked whether the program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const HEADERS_MAX: usize = 20;
const ARGUMENTS_MAX: usize = 50;
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// How long a webhook may take.
#[derive(Clone, Copy)]
struct Patience {
    /// The time of one request in all, with connecting and its answer.
    try_max: Duration,
    /// The times between a request that has failed and the next.
    again_after: [Duration; 2],
}

/// An action with its name.
#[derive(Debug, Clone)]
pub(super) struct Action {
    name: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Webhook { agent: Agent, address: String, headers: Vec<(HeaderName, HeaderValue)> },
    Command { argv: Vec<String> },
}

impl std::fmt::Debug for Kind {
    /// Without headers and arguments, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Kind::Webhook { .. }) { "Webhook" } else { "Command" })
    }
}

impl Action {
    /// A request to an address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn webhook(
        name: &str,
        address: &str,
        headers: Vec<(String, String)>,
        ca_file: Option<String>,
    ) -> Result<Action, String> {
        if address.len() > TEXT_BYTES_MAX || !nagi_http::is_address(address) {
            return Err("webhook: expected an address that begins with https:// or http://, without a user: a login \
                        belongs into 'headers'"
                .to_owned());
        }
        if headers.len() > HEADERS_MAX {
            return Err(format!("headers: at most {HEADERS_MAX}"));
        }
        let headers = headers.iter().map(|(name, value)| {
            // Neither name nor value are shown: both may be what was meant as a secret.
            let bad = || "headers: one of them has characters that headers cannot have".to_owned();
            if value.len() > TEXT_BYTES_MAX {
                return Err(format!("headers: one of them is longer than {TEXT_BYTES_MAX} bytes"));
            }
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            match nagi_http::may_be_set(name.as_str()) {
                true => Ok((name, value)),
                false => Err(format!("headers: '{name}' is not for the file to set")),
            }
        });
        let headers = headers.collect::<Result<Vec<_>, String>>()?;
        let agent =
            nagi_http::client(ca_file.as_deref(), 0).map_err(|why| format!("caFile: {why}"))?;
        Ok(Action {
            name: name.to_owned(),
            kind: Kind::Webhook { agent, address: address.to_owned(), headers },
        })
    }

    /// A program with its arguments, which no shell reads.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn command(name: &str, argv: Vec<String>) -> Result<Action, String> {
        if !argv.first().is_some_and(|path| path.starts_with('/')) {
            return Err("command: the first text is the absolute path of a program".to_owned());
        }
        if argv.len() > ARGUMENTS_MAX
            || argv.iter().any(|text| text.len() > TEXT_BYTES_MAX || text.contains('\0'))
        {
            return Err(format!(
                "command: at most {ARGUMENTS_MAX} texts of {TEXT_BYTES_MAX} bytes without NUL"
            ));
        }
        match std::fs::metadata(&argv[0]) {
            Ok(about) if about.is_file() => {
                rustix::fs::access(&argv[0], rustix::fs::Access::EXEC_OK)
                    .map_err(|error| format!("command: {}: {error}", argv[0]))?;
                Ok(Action { name: name.to_owned(), kind: Kind::Command { argv } })
            }
            Ok(_) => Err(format!("command: {}: not a program", argv[0])),
            Err(error) => Err(format!("command: {}: {error}", argv[0])),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_command(&self) -> bool {
        matches!(self.kind, Kind::Command { .. })
    }

    pub(super) fn kind_name(&self) -> &'static str {
        if self.is_command() { "command" } else { "webhook" }
    }

    /// Does it. Ends early when `stop` is closed.
    ///
    /// # Errors
    /// Why it failed at last.
    pub(super) fn run(&self, event: &Event, host: &str, stop: &Receiver<()>) -> Result<(), String> {
        match &self.kind {
            Kind::Webhook { agent, address, headers } => {
                let message = event.message(host);
                let post =
                    |patience: &Patience| post(agent, (address, headers), &message, patience);
                insist(&PATIENCE, stop, &post)
            }
            Kind::Command { argv } => run_program(argv, event, host, stop),
        }
    }
}

/// Tries until it succeeds, at most once more after each of the pauses, and while `stop` is open.
fn insist(
    patience: &Patience,
    stop: &Receiver<()>,
    post: &dyn Fn(&Patience) -> Result<(), String>,
) -> Result<(), String> {
    let mut tried = post(patience);
    for pause in patience.again_after {
        if tried.is_ok() || stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        tried = post(patience);
    }
    tried
}

fn post(
    agent: &Agent,
    (address, headers): (&str, &[(HeaderName, HeaderValue)]),
    message: &str,
    patience: &Patience,
) -> Result<(), String> {
    let mut request = agent.post(address).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.config().timeout_global(Some(patience.try_max)).build();
    // The address may have a secret in its path, as those of chat programs do, so it is not shown.
    let answer = request.send(message).map_err(|error| error.to_string())?;
    match answer.status().is_success() {
        true => Ok(()),
        false => Err(format!("status {}", answer.status().as_u16())),
    }
}

/// Runs a program in a process group of its own, with the event in its environment and on its standard input.
fn run_program(
    argv: &[String],
    event: &Event,
    host: &str,
    stop: &Receiver<()>,
) -> Result<(), String> {
    let rule = &event.rule;
    let input = input(event.message(host).as_bytes()).map_err(|error| error.to_string())?;
    let mark = family::mark()?;
    let mut child = Command::new(&argv[0])
        .args(&argv[1..])
        // The server's own environment may have passwords and keys.
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env(family::VARIABLE, &mark)
        .env("NAGI_ALERT", &rule.name)
        .env("NAGI_ALERT_STATE", event.what.name())
        .env("NAGI_ALERT_SEVERITY", rule.severity.name())
        .env("NAGI_ALERT_VALUE", event.value.map_or(String::new(), |value| value.to_string()))
        .env("NAGI_ALERT_TEXT", event.text(host))
        .current_dir("/")
        .process_group(0)
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    wait(&mut child, &mark, stop)
}

/// A standard input with these bytes. It is a file in memory, not a pipe: writing to the pipe of a program that
/// does not read, or whose children keep it open, would block.
fn input(bytes: &[u8]) -> std::io::Result<Stdio> {
    let mut file = File::from(memfd_create("alert", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(Stdio::from(file))
}

fn wait(child: &mut Child, mark: &str, stop: &Receiver<()>) -> Result<(), String> {
    let until = Instant::now() + COMMAND_TIME_MAX;
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("the program ended with {status}")),
            Err(error) => return Err(error.to_string()),
        }
        let stopped = stop.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout);
        if stopped || Instant::now() >= until {
            family::kill(child, mark);
            let _ = child.wait();
            let seconds = COMMAND_TIME_MAX.as_secs();
            return Err(match stopped {
                true => "the server stopped".to_owned(),
                false => format!("the program did not end within {seconds} seconds and was killed"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::super::built_in;
    use super::super::event::What;
    use super::*;

    fn event(advice: &str) -> Event {
        let mut rule = built_in::rules().remove(0);
        rule.advice = advice.to_owned();
        let rule = Arc::new(rule);
        Event {
            rule,
            what: What::Began,
            at_ms: 2,
            since_ms: 1,
            lasted_ms: 1,
            value: Some(1.0),
            silenced: false,
        }
    }

    fn shell(script: &str) -> Action {
        Action::command("a", ["/bin/sh", "-c", script].map(str::to_owned).to_vec()).unwrap()
    }

    #[test]
    fn a_program_that_does_not_read_is_ended() {
        let (stop, stops) = channel::<()>();
        drop(stop);
        let told = shell("exec sleep 305").run(&event(&"x".repeat(200_000)), "h", &stops);
        assert_eq!(told, Err("the server stopped".to_owned()));
    }

    /// True if a process has this argument.
    fn runs(argument: &str) -> bool {
        let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        all.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok())
            .any(|line| line.split(|byte| *byte == 0).any(|own| own == argument.as_bytes()))
    }

    /// Its child is in a session of its own, and has no parent that leads back to it.
    #[test]
    fn what_a_program_started_ends_with_it() {
        let (stop, stops) = channel::<()>();
        // No other test or program sleeps for so long.
        let long = format!("30{}", std::process::id());
        let script = format!("(/usr/bin/setsid /bin/sleep {long} &); exec /bin/sleep 305");
        let running = std::thread::spawn(move || shell(&script).run(&event(""), "h", &stops));
        while !runs(&long) {
            assert!(!running.is_finished());
            std::thread::yield_now();
        }
        drop(stop);
        assert_eq!(running.join().unwrap(), Err("the server stopped".to_owned()));
        // It dies at its next step, and its new parent removes it.
        let until = Instant::now() + Duration::from_secs(60);
        while runs(&long) {
            assert!(Instant::now() < until, "it was not killed");
            std::thread::yield_now();
        }
    }

    /// A webhook that accepts a request and never answers.
    #[test]
    fn a_webhook_that_hangs_is_tried_three_times_in_the_documented_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/hang", listener.local_addr().unwrap());
        let Kind::Webhook { agent, .. } =
            Action::webhook("a", &address, Vec::new(), None).unwrap().kind
        else {
            panic!("a webhook")
        };
        let (_stop, stops) = channel::<()>();
        let short = Patience {
            try_max: Duration::from_millis(100),
            again_after: [Duration::from_millis(20), Duration::from_millis(80)],
        };
        let begun = Instant::now();
        let tried =
            insist(&short, &stops, &|patience| post(&agent, (&address, &[]), "{}", patience));
        assert!(tried.is_err() && begun.elapsed() >= Duration::from_millis(400), "{tried:?}");
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.incoming().map_while(Result::ok).count(), 3);
        let Patience { try_max, again_after: [first, second] } = PATIENCE;
        let told = format!(
            "tried three times, with pauses of {} and {} seconds. Each try has {} seconds, so one \
             that never answers is given up after {} seconds",
            first.as_secs(),
            second.as_secs(),
            try_max.as_secs(),
            (3 * try_max + first + second).as_secs(),
        );
        let page = include_str!("../../../../docs/alerts.md");
        assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains(&told), "{told}");
    }

    #[test]
    fn a_program_reads_the_whole_event() {
        let (_stop, stops) = channel::<()>();
        let event = event(&"x".repeat(200_000));
        let length = event.message("h").len();
        let counts =
            format!("test \"$(wc -c)\" -eq {length} && test \"$NAGI_ALERT_STATE\" = firing");
        assert_eq!(shell(&counts).run(&event, "h", &stops), Ok(()));
        assert!(shell("exit 3").run(&event, "h", &stops).unwrap_err().contains('3'));
    }
}
