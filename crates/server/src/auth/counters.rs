//! Counters of logins and of successful logins, for `serverStatus().security`.

use nagi_bson::DocWriter;

use super::scram::{MECHANISMS, Mechanism};
use crate::metrics::Counter;

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
    /// Indexed by position in [`MECHANISMS`].
    plain: [Tried; 2],
    speculative: [Tried; 2],
}

impl Logins {
    fn tried(&self, mechanism: Mechanism, speculative: bool) -> &Tried {
        let all = if speculative { &self.speculative } else { &self.plain };
        match mechanism {
            Mechanism::Sha1 => &all[0],
            Mechanism::Sha256 => &all[1],
        }
    }

    pub(crate) fn receive(&self, mechanism: Mechanism, speculative: bool) {
        self.tried(mechanism, speculative).received.increment();
    }

    pub(crate) fn succeed(&self, mechanism: Mechanism, speculative: bool) {
        self.tried(mechanism, speculative).successful.increment();
    }

    /// Writes the section of `serverStatus`. A speculative login also counts as a login, as in MongoDB.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.doc("authentication", |out| {
            out.put("saslSupportedMechsReceived", self.mechanisms_asked.get());
            out.doc("mechanisms", |out| {
                for mechanism in MECHANISMS {
                    let (plain, speculative) =
                        (self.tried(mechanism, false), self.tried(mechanism, true));
                    let sum =
                        |pick: fn(&Tried) -> &Counter| pick(plain).get() + pick(speculative).get();
                    out.doc(mechanism.name(), |out| {
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
