//! `nagi ldap-check`: tries a user's login by LDAP as a configuration file describes it, and prints each step.
//!
//! No server of this program has to run: the command connects to the LDAP servers itself.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use nagi_ldap::{Ldap, Step, Verdict};
use zeroize::Zeroizing;

use crate::failure::exit;
use crate::flag::{Flag, takes};
use crate::options::{self, Options, Request};
use crate::remote::password;
use crate::{print, say};

/// The flags of the command.
#[rustfmt::skip]
pub(crate) static FLAGS: &[Flag] = &[
    Flag { short: "-f", ..takes("--config", "file", "none", "configuration file of the server, with security.ldap") },
    takes("--user", "name", "none", "name by which the user logs in"),
    takes("--password", "password", "NAGI_PASSWORD, or none",
        "password of the user; other users of the machine may see it while the command starts. Without a password \
         that step is skipped"),
    takes("--passwordFile", "file", "none",
        "file whose first line is the password; only its owner may read it"),
];

/// The mechanism by which passwords reach the directory.
const PLAIN: &str = "PLAIN";

#[derive(Default)]
struct Asked {
    config: Option<String>,
    user: Option<String>,
    password: Option<Zeroizing<String>>,
    password_file: Option<PathBuf>,
}

impl Asked {
    fn parse(args: &[String]) -> Result<Asked, String> {
        let mut asked = Asked::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            let known = |flag: &&Flag| flag.name == name || name == "-f" && flag.short == name;
            let Some(flag) = FLAGS.iter().find(known) else {
                let names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
                let meant = options::meant_option(name, &names);
                // It may be a password in the wrong place.
                return Err(format!("unrecognised option '{name}'{meant}"));
            };
            let Some(value) = value.or_else(|| args.next().cloned()) else {
                return Err(format!("{name} needs a value: {name} <{}>", flag.value));
            };
            match flag.name {
                "--config" => asked.config = Some(value),
                "--user" => asked.user = Some(value),
                "--password" => asked.password = Some(Zeroizing::new(value)),
                _ => asked.password_file = Some(value.into()),
            }
        }
        if asked.password.is_some() && asked.password_file.is_some() {
            return Err("--password and --passwordFile exclude each other".to_owned());
        }
        Ok(asked)
    }

    /// The password, if there is any: the command asks for none, because a check of names and groups needs none.
    fn password(&mut self) -> Result<Option<Zeroizing<String>>, String> {
        if let Some(given) = self.password.take() {
            return Ok(Some(given));
        }
        let is_given = self.password_file.is_some() || password::is_taken();
        if !is_given {
            return Ok(None);
        }
        password::find("the user", self.password_file.as_deref()).map(|text| Some(text.into()))
    }
}

/// Runs `nagi ldap-check ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let refuse = |text: &str| {
        say(&format!("nagi ldap-check: {text}\ntry 'nagi help ldap-check' for more information"));
        ExitCode::from(exit::BAD_OPTIONS)
    };
    let mut asked = match Asked::parse(args) {
        Ok(asked) => asked,
        Err(text) => return refuse(&text),
    };
    let (Some(config), Some(user)) = (asked.config.take(), asked.user.take()) else {
        return refuse("--config <file> and --user <name> are needed");
    };
    let password = match asked.password() {
        Ok(password) => password,
        Err(text) => return refuse(&text),
    };
    let options = match options::read(&["--config".to_owned(), config.clone()]) {
        Ok(Request::Serve(options) | Request::Shutdown(options)) => options,
        Ok(Request::Help | Request::Version) => return refuse("the file describes no server"),
        Err(text) => return refuse(&format!("{config}: {text}")),
    };
    print(&format!("Checking a login of '{user}' by LDAP, as {config} describes it."));
    let mut report = Report::default();
    check(&options, &user, password.as_ref().map(|text| text.as_str()), &mut report);
    report.finish()
}

fn check(options: &Options, user: &str, password: Option<&str>, report: &mut Report) {
    let Some(settings) = &options.ldap else {
        report.add(
            &Step::new("security.ldap.servers", Verdict::Failed)
                .with("it is not set, so the server asks no directory"),
        );
        return;
    };
    let ldap = match Ldap::new(settings.options.clone()) {
        Ok(ldap) => ldap,
        Err(why) => return report.add(&Step::new("security.ldap", Verdict::Failed).with(why)),
    };
    report.add(&Step::new("security.ldap", Verdict::Passed).with("the options are valid"));
    report.add(&mechanism(options, password.is_some()));
    ldap.try_out(user, password, &mut |step| report.add(&step));
}

/// Whether the server accepts passwords for the directory. Users with certificates or tokens need none.
fn mechanism(options: &Options, has_password: bool) -> Step {
    const NAME: &str = "authenticationMechanisms";
    let named = options.parameters.iter().rev().find(|(name, _)| name == NAME);
    let named = named.map_or("", |(_, value)| value.as_str());
    match (named.split(',').any(|name| name.trim() == PLAIN), has_password) {
        (true, _) => Step::new(NAME, Verdict::Passed).with("PLAIN is enabled"),
        (false, true) => Step::new(NAME, Verdict::Failed).with(
            "PLAIN is missing: set setParameter.authenticationMechanisms: PLAIN,SCRAM-SHA-256",
        ),
        (false, false) => Step::new(NAME, Verdict::Skipped)
            .with("PLAIN is missing: users log in by certificates or tokens only"),
    }
}

/// Prints the steps as they are done, so that a slow one is seen.
#[derive(Default)]
struct Report {
    failed_count: usize,
}

impl Report {
    fn add(&mut self, step: &Step) {
        let mark = match step.verdict {
            Verdict::Passed => "[OK]  ",
            Verdict::Failed => "[FAIL]",
            Verdict::Skipped => "[SKIP]",
        };
        self.failed_count += usize::from(step.verdict == Verdict::Failed);
        print(&format!("{mark} {}", crate::shown::of(&step.title)));
        for detail in step.details.iter().filter(|detail| !detail.is_empty()) {
            print(&format!("       {}", crate::shown::of(detail)));
        }
        // Failures of standard output are reported by `print`.
        let _ = std::io::stdout().flush();
    }

    fn finish(&self) -> ExitCode {
        match self.failed_count {
            0 => {
                print("No step has failed.");
                ExitCode::SUCCESS
            }
            count => {
                print(&format!("{count} of the steps failed."));
                ExitCode::from(exit::FAILURE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Asked, String> {
        Asked::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_checked() {
        let asked = parse(&["-f", "a", "--user=ann", "--password", "p"]).ok().unwrap();
        assert_eq!((asked.config.as_deref(), asked.user.as_deref()), (Some("a"), Some("ann")));
        for (args, text) in [
            (&["--usr", "x"][..], "did you mean '--user'"),
            (&["--user"], "--user needs a value: --user <name>"),
            (&["--passwort=s3cret"], "unrecognised option '--passwort'"),
            (&["--password=a", "--passwordFile=b"], "exclude each other"),
        ] {
            let error = parse(args).err().unwrap();
            assert!(error.contains(text) && !error.contains("s3cret"), "{error}");
        }
    }
}
