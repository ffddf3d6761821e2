//! Counters of logins and of successful logins, for `serverStatus().security`.

use nagi_bson::DocWriter;

use super::scram::Mechanism;
use crate::metrics::Counter;

/// The mechanism of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Scram(Mechanism),
    /// MONGODB-X509.
    Certificate,
    /// PLAIN: LDAP checks the password.
    Plain,
    /// MONGODB-OIDC.
    Token,
}

/// The mechanism of certificates.
pub(crate) const X509: &str = "MONGODB-X509";
/// The mechanism of passwords that a directory checks.
const PLAIN: &str = "PLAIN";

/// The mechanism of tokens.
const OIDC: &str = "MONGODB-OIDC";

impl By {
    const COUNT: usize = 5;

    const ALL: [By; By::COUNT] = [
        By::Token,
        By::Certificate,
        By::Plain,
        By::Scram(Mechanism::Sha1),
        By::Scram(Mechanism::Sha256),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            By::Scram(mechanism) => mechanism.name(),
            By::Certificate => X509,
            By::Plain => PLAIN,
            By::Token => OIDC,
        }
    }

    fn position(self) -> usize {
        By::ALL.iter().position(|by| *by == self).unwrap_or(0)
    }
}

/// The logins with one mechanism.
#[derive(Default)]
struct Tried {
    received: Counter,
    successful: Counter,
}

/// All logins.
#[derive(Default)]
pub(crate) struct Logins {
    /// Requests of `hello` for the mechanisms of a user.
    pub(crate) mechanisms_asked: Counter,
    /// Logins that were refused. Not the difference of the others: that has those in progress, too.
    pub(crate) refused: Counter,
    /// Indexed by position in [`By::ALL`].
    plain: [Tried; By::COUNT],
    speculative: [Tried; By::COUNT],
}

impl Logins {
    fn tried(&self, by: By, speculative: bool) -> &Tried {
        let all = if speculative { &self.speculative } else { &self.plain };
        &all[by.position()]
    }

    pub(crate) fn receive(&self, by: By, speculative: bool) {
        self.tried(by, speculative).received.increment();
    }

    pub(crate) fn succeed(&self, by: By, speculative: bool) {
        self.tried(by, speculative).successful.increment();
    }

    /// Writes the section of `serverStatus`. A speculative login also counts as a login, as in MongoDB.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.doc("authentication", |out| {
            out.put("saslSupportedMechsReceived", self.mechanisms_asked.get());
            out.doc("mechanisms", |out| {
                for by in By::ALL {
                    let (plain, speculative) = (self.tried(by, false), self.tried(by, true));
                    let sum =
                        |pick: fn(&Tried) -> &Counter| pick(plain).get() + pick(speculative).get();
                    out.doc(by.name(), |out| {
                        let mut pair = |name: &str, received: i64, successful: i64| {
                            out.doc(name, |out| {
                                out.put("received", received);
                                out.put("successful", successful);
                            });
                        };
                        let only = (speculative.received.get(), speculative.successful.get());
                        pair("speculativeAuthenticate", only.0, only.1);
                        pair("clusterAuthenticate", 0, 0);
                        pair("authenticate", sum(|t| &t.received), sum(|t| &t.successful));
                    });
                }
            });
        });
    }
}
