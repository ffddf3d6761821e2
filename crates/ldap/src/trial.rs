//! A trial of the configuration: the steps of a user's login, one after the other, each with what it found.
//!
//! `nagi ldap-check` prints them. They are those of a login ([`crate::Ldap`]), but every server is tried, so that one
//! that does not answer is found although others do.

use std::sync::Arc;

use nagi_server::{Directory, DirectoryError};

use crate::connection::Connection;
use crate::hosts::Host;
use crate::ldap::{Current, Ldap, describe};
use crate::mapping::Mapped;

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    /// It was not tried.
    Skipped,
}

/// A step of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What was tried, with the name of the option.
    pub title: String,
    pub verdict: Verdict,
    /// What it found, or why it failed. No password is in it.
    pub details: Vec<String>,
}

impl Step {
    /// A step without details.
    pub fn new(title: impl Into<String>, verdict: Verdict) -> Step {
        Step { title: title.into(), verdict, details: Vec::new() }
    }

    /// The same with one more detail.
    #[must_use]
    pub fn with(mut self, detail: impl Into<String>) -> Step {
        self.details.push(detail.into());
        self
    }
}

impl Ldap {
    /// Tries a login of a user, without a server of this program: connections to all LDAP servers, the name in the
    /// directory, the password (skipped without one) and the groups. Calls `report` with each step, as soon as it is
    /// done. Each step takes at most the timeout of a request.
    pub fn try_out(&self, user: &str, password: Option<&str>, report: &mut dyn FnMut(Step)) {
        let current = self.current();
        let mut is_any_up = false;
        for host in &current.hosts {
            is_any_up |= self.try_host(&current, host, report);
        }
        if !is_any_up {
            for title in ["userToDNMapping", "password", "authz.queryTemplate"] {
                report(Step::new(title, Verdict::Skipped).with("no LDAP server can be used"));
            }
            return;
        }
        if !self.try_name(&current, user, report) {
            for title in ["password", "authz.queryTemplate"] {
                report(
                    Step::new(title, Verdict::Skipped)
                        .with("the user has no name in the directory"),
                );
            }
            return;
        }
        report(match password {
            None => Step::new("password", Verdict::Skipped).with("none was given"),
            Some(password) => match self.authenticate(user, password) {
                Ok(()) => Step::new("password", Verdict::Passed).with("the directory accepts it"),
                Err(error) => failed("password", &error),
            },
        });
        report(self.try_groups(user));
    }

    /// Connects to a server, and logs in as the user of queries. Returns true if the server can be used.
    fn try_host(&self, current: &Current, host: &Arc<Host>, report: &mut dyn FnMut(Step)) -> bool {
        let options = &current.settings.options;
        let deadline = current.deadline();
        let title = format!("server {}", host.address.shown());
        let opened = host.addresses(deadline).and_then(|addresses| {
            Connection::open(&host.address.host, &addresses, self.tls.as_ref(), deadline)
        });
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(failure) => {
                report(Step::new(title, Verdict::Failed).with(describe(&failure)));
                return false;
            }
        };
        report(Step::new(title, Verdict::Passed).with(match self.tls.is_some() {
            true => "connected with TLS",
            false => "connected without TLS: passwords are sent in clear",
        }));
        if options.query_user.is_empty() {
            return true;
        }
        let title = format!("bind.queryUser '{}' at {}", options.query_user, host.address.shown());
        match connection.bind(&options.query_user, &options.query_password) {
            Ok(()) => report(Step::new(title, Verdict::Passed).with("logged in")),
            Err(failure) => {
                report(Step::new(title, Verdict::Failed).with(describe(&failure)));
                return false;
            }
        }
        true
    }

    /// Finds the distinguished name. Returns true if there is one.
    fn try_name(&self, current: &Current, user: &str, report: &mut dyn FnMut(Step)) -> bool {
        const TITLE: &str = "userToDNMapping";
        let how = match current.settings.mapping.apply(user) {
            Ok(Mapped::Search(search)) => format!("by a query below '{}'", search.base),
            Ok(Mapped::Name(name)) if name == user => {
                "the name of the user is taken as it is".to_owned()
            }
            Ok(Mapped::Name(_)) => "by a substitution".to_owned(),
            Err(_) => String::new(),
        };
        let step = match self.name_of(current, user, current.deadline()) {
            Ok(Some(name)) => {
                Step::new(TITLE, Verdict::Passed).with(format!("'{user}' is '{name}'")).with(how)
            }
            Ok(None) => Step::new(TITLE, Verdict::Failed)
                .with(format!("{how}: it finds no entry for '{user}'")),
            Err(error) => failed(TITLE, &error),
        };
        let found = step.verdict == Verdict::Passed;
        report(step);
        found
    }

    fn try_groups(&self, user: &str) -> Step {
        const TITLE: &str = "authz.queryTemplate";
        if !self.gives_roles() {
            return Step::new(TITLE, Verdict::Skipped)
                .with("it is not set: users have the roles of their documents in $external");
        }
        match self.groups(user) {
            Ok(Some(groups)) if groups.is_empty() => Step::new(TITLE, Verdict::Passed)
                .with("the user has no groups, and therefore no roles"),
            Ok(Some(groups)) => groups.into_iter().fold(
                Step::new(TITLE, Verdict::Passed)
                    .with("the roles of admin that the user has, if they exist:"),
                |step, group| step.with(format!("* {group}")),
            ),
            Ok(None) => {
                Step::new(TITLE, Verdict::Failed).with("the directory has no entry for the user")
            }
            Err(error) => failed(TITLE, &error),
        }
    }
}

fn failed(title: &str, error: &DirectoryError) -> Step {
    let (DirectoryError::Refused(why) | DirectoryError::Unavailable(why)) = error;
    Step::new(title, Verdict::Failed).with(why.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LdapOptions;

    /// The verdicts of all steps for a server that does not answer.
    #[test]
    fn without_a_server_the_steps_after_it_are_skipped() {
        use Verdict::{Failed, Skipped};
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let ldap = Ldap::new(LdapOptions {
            servers: closed.to_string(),
            tls: false,
            ..LdapOptions::default()
        });
        let mut steps = Vec::new();
        ldap.unwrap().try_out("ann", Some("secret-of-ann"), &mut |step| steps.push(step));
        let verdicts: Vec<Verdict> = steps.iter().map(|step| step.verdict).collect();
        assert_eq!(verdicts, [Failed, Skipped, Skipped, Skipped], "{steps:?}");
        assert!(steps[0].title.contains(&closed.to_string()), "{steps:?}");
        assert!(!format!("{steps:?}").contains("secret-of-ann"));
    }
}
