//! Logins by the tokens of identity providers: which providers there are, and how long a login lasts.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use nagi_bson::{DocBuf, DocWriter};
use nagi_error::{Code, Error, Result, err};
use parking_lot::Mutex;

use crate::clock;
use crate::names::{RoleName, UserName};
use crate::settings::identity_providers::Provider;
use crate::token_trust::{IdentityProvider, TokenIdentity, TokenOrigin, TokenTrust};

/// The database of users that are not stored with a password.
const EXTERNAL: &str = "$external";

/// The database of the roles that tokens name.
const ROLES: &str = "admin";

/// The identity providers.
pub(crate) struct Tokens {
    /// `None` in a server that verifies no tokens.
    trust: Option<Arc<dyn TokenTrust>>,
    providers: ArcSwap<Vec<Provider>>,
    /// Held while providers change, so that both lists are of the same change.
    changing: Mutex<()>,
}

/// What a login by a token depends on.
#[derive(Debug, Clone)]
pub(crate) struct TokenLogin {
    pub(crate) expires_ms: i64,
    origin: TokenOrigin,
    /// The epoch in which `origin` was seen last.
    epoch: u64,
}

/// What a token proved.
pub(crate) struct Proved {
    pub(crate) user: UserName,
    /// `None` if the user's document has them.
    pub(crate) roles: Option<Vec<RoleName>>,
    pub(crate) claims: DocBuf,
    pub(crate) login: TokenLogin,
}

impl Tokens {
    pub(crate) fn new(trust: Option<Arc<dyn TokenTrust>>) -> Tokens {
        Tokens { trust, providers: ArcSwap::default(), changing: Mutex::new(()) }
    }

    /// What verifies tokens.
    pub(crate) fn trust(&self) -> Option<&dyn TokenTrust> {
        self.trust.as_deref()
    }

    /// Replaces the providers.
    ///
    /// # Errors
    /// 72 if there are any, and this server verifies no tokens.
    pub(crate) fn configure(&self, providers: Vec<Provider>) -> Result<()> {
        let Some(trust) = &self.trust else {
            return match providers.is_empty() {
                true => Ok(()),
                false => Err(err!(Code::INVALID_OPTIONS, "This server verifies no tokens")),
            };
        };
        let _changing = self.changing.lock();
        trust.configure(providers.iter().map(|provider| provider.config.clone()).collect());
        self.providers.store(Arc::new(providers));
        Ok(())
    }

    /// Calls `show` with the providers.
    pub(crate) fn with_providers(&self, show: impl FnOnce(&[Provider])) {
        show(&self.providers.load());
    }

    /// The provider to which a client is directed that names its principal, or does not.
    ///
    /// # Errors
    /// 18 if no provider fits, or several without a name to choose by.
    pub(crate) fn choose(&self, principal: Option<&str>) -> Result<IdentityProvider> {
        let providers = self.providers.load();
        let mut human = providers.iter().filter(|provider| provider.config.supports_human_flows);
        let Some(principal) = principal else {
            return match (human.next(), human.next()) {
                (Some(only), None) => Ok(only.config.clone()),
                (None, _) => Err(failed("No identity provider supports human flows")),
                _ => Err(failed(
                    "A principal name is required to choose one of several identity providers",
                )),
            };
        };
        for provider in human {
            let fits = provider.pattern.as_ref().is_none_or(|pattern| {
                // A pattern that gives up does not match.
                pattern.is_match(principal).unwrap_or(false)
            });
            if fits {
                return Ok(provider.config.clone());
            }
        }
        Err(failed("No identity provider matches the principal name"))
    }

    /// Verifies a token. May wait for keys for seconds; `quiet`: see [`TokenTrust::verify`].
    ///
    /// # Errors
    /// 18 with the reason, for the log.
    pub(crate) fn verify(&self, token: &str, quiet: Duration) -> Result<Proved> {
        let trust = self.trust.as_ref().ok_or_else(|| failed("This server verifies no tokens"))?;
        let identity = trust.verify(token, clock::wall_ms(), quiet);
        let TokenIdentity { user, roles, expires_ms, claims, origin, epoch } =
            identity.map_err(|reason| failed(&reason))?;
        let roles = roles.map(|roles| {
            let mut roles: Vec<_> = roles.iter().map(|role| RoleName::new(role, ROLES)).collect();
            roles.sort_unstable();
            roles.dedup();
            roles
        });
        let login = TokenLogin { expires_ms, origin, epoch };
        Ok(Proved { user: UserName::new(&user, EXTERNAL), roles, claims, login })
    }

    /// Returns true if a login still counts: its token has not ended, and its provider and key are still there. Costs
    /// a look at the clock, and one load.
    pub(crate) fn still_counts(&self, login: &mut TokenLogin) -> bool {
        let Some(trust) = &self.trust else { return false };
        if login.expires_ms <= clock::wall_ms() {
            return false;
        }
        let epoch = trust.epoch();
        if epoch != login.epoch {
            if !trust.still_trusts(&login.origin) {
                return false;
            }
            login.epoch = epoch;
        }
        true
    }

    /// Writes the section of `serverStatus`.
    pub(crate) fn write_status(&self, out: &mut DocWriter<'_>) {
        let Some(trust) = &self.trust else { return };
        let counts = trust.counts();
        out.doc("oidc", |out| {
            for (name, count) in [
                ("identityProviders", counts.providers),
                ("keys", counts.keys),
                ("fetches", counts.fetched),
                ("failedFetches", counts.failed),
                ("waitsForKeys", counts.waited),
                ("unknownKeysWithoutFetch", counts.quiet),
            ] {
                out.put(name, i64::try_from(count).unwrap_or(i64::MAX));
            }
        });
    }
}

/// The error of a failed login (18). `reason` is for the log.
fn failed(reason: &str) -> Error {
    err!(Code::AUTHENTICATION_FAILED, "{reason}")
}

/// The error for a command on a connection whose token has ended.
pub(crate) fn ended(command: &str) -> Error {
    err!(
        Code::REAUTHENTICATION_REQUIRED,
        "Command {command} requires reauthentication since the current authorization session has expired. Please \
         re-auth."
    )
}
