//! The identity providers of a running server: which are configured, and the steps of a token's verification.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use arc_swap::ArcSwap;
use nagi_bson::DocBuf;
use nagi_server::{IdentityProvider, TokenCounts, TokenIdentity, TokenOrigin, TokenTrust};
use parking_lot::{Condvar, Mutex};

use crate::claims;
use crate::fetch::Place;
use crate::source::{Shared, Source};
use crate::token::Token;

/// How often it is checked if keys are to be fetched.
const POLL_CHECK: Duration = Duration::from_secs(1);

/// Providers, and the source of each issuer.
#[derive(Default)]
struct Providers {
    all: Vec<IdentityProvider>,
    sources: Vec<Arc<Source>>,
}

impl Providers {
    fn source(&self, issuer: &str) -> Option<&Arc<Source>> {
        self.sources.iter().find(|source| source.place.issuer == issuer)
    }

    /// The sources of these issuers; all without them.
    fn chosen(&self, issuers: Option<&[&str]>) -> Result<Vec<Arc<Source>>, String> {
        let Some(issuers) = issuers else { return Ok(self.sources.clone()) };
        let find = |issuer: &&str| {
            let found = self.source(issuer).cloned();
            found.ok_or_else(|| format!("There is no identity provider with the issuer '{issuer}'"))
        };
        issuers.iter().map(find).collect()
    }
}

/// Verifies tokens by the keys of the configured providers.
pub struct Trust {
    providers: ArcSwap<Providers>,
    shared: Arc<Shared>,
    poller: Arc<Poller>,
}

/// The thread that fetches keys from time to time; it is started with the first provider.
#[derive(Default)]
struct Poller {
    state: Mutex<PollerState>,
    changed: Condvar,
}

#[derive(Default)]
struct PollerState {
    running: bool,
    stopped: bool,
    sources: Vec<Arc<Source>>,
}

impl Trust {
    /// Without providers: [`TokenTrust::configure`] sets them.
    pub fn new() -> Arc<Trust> {
        Arc::new(Trust {
            providers: ArcSwap::default(),
            shared: Arc::default(),
            poller: Arc::default(),
        })
    }
}

impl Drop for Trust {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("providers", &self.providers.load().all)
            .finish_non_exhaustive()
    }
}

impl Poller {
    /// Sets what is polled.
    fn set(self: &Arc<Poller>, sources: Vec<Arc<Source>>) {
        let mut state = self.state.lock();
        state.sources = sources;
        if state.running || state.stopped || state.sources.is_empty() {
            return;
        }
        let poller = self.clone();
        let thread = std::thread::Builder::new().name("JWKSPoller".to_owned()).stack_size(1 << 20);
        match thread.spawn(move || poller.run()) {
            Ok(_) => state.running = true,
            Err(error) => log::warn!(target: "ACCESS", id = 8_200_193, error = error.to_string();
                "The keys of identity providers are not fetched again: cannot start a thread"),
        }
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while !state.stopped {
            let sources = state.sources.clone();
            drop(state);
            sources.iter().for_each(Source::poll);
            state = self.state.lock();
            if !state.stopped {
                self.changed.wait_for(&mut state, POLL_CHECK);
            }
        }
    }
}

impl TokenTrust for Trust {
    fn configure(&self, providers: Vec<IdentityProvider>) {
        let before = self.providers.load_full();
        let mut sources: Vec<Arc<Source>> = Vec::new();
        let mut fresh = Vec::new();
        for provider in &providers {
            if sources.iter().any(|source| source.place.issuer == provider.issuer) {
                continue;
            }
            let place = Place {
                issuer: provider.issuer.clone(),
                uri: provider.jwks_uri.clone(),
                ca_file: provider.jwks_ca_file.clone(),
            };
            let poll = provider.jwks_poll_secs;
            let known = before.sources.iter().find(|source| source.has(&place, poll)).cloned();
            sources.push(known.unwrap_or_else(|| {
                let source = Source::new(place, poll, self.shared.clone());
                fresh.push(source.clone());
                source
            }));
        }
        self.providers.store(Arc::new(Providers { all: providers, sources: sources.clone() }));
        self.shared.epoch.fetch_add(1, Release);
        for source in fresh {
            source.begin(Duration::ZERO);
        }
        self.poller.set(sources);
    }

    fn verify(&self, text: &str, now_ms: i64, quiet: Duration) -> Result<TokenIdentity, String> {
        // Read first: a change in between makes the login look again.
        let epoch = self.epoch();
        let token = Token::parse(text)?;
        let providers = self.providers.load_full();
        let claims = token.claims.as_doc();
        let provider = claims::provider(claims, &providers.all)?;
        // Nothing is verified yet: this is what the token claims.
        let named = |why: String| match claims::user(claims, provider) {
            Ok(user) => format!("{why}; it names the user {}", claims::shown(&user)),
            Err(_) => why,
        };
        let expires_ms = claims::check_times(claims, now_ms).map_err(named)?;
        let source = providers.source(&provider.issuer);
        let source = source.ok_or("The identity provider has no keys")?;
        let mut keys = source.keys();
        if keys.find(&token.key_id).is_none() {
            match source.begin(quiet) {
                Some(ticket) => {
                    self.shared.waited.fetch_add(1, Relaxed);
                    source.wait(&ticket).map_err(named)?;
                    keys = source.keys();
                }
                None => {
                    self.shared.quiet.fetch_add(1, Relaxed);
                }
            }
        }
        let key = keys.find(&token.key_id).ok_or_else(|| {
            named(format!(
                "The token's key is not one of its identity provider: it is {}, expected {}",
                claims::shown(&token.key_id),
                claims::shown_list(&keys.ids())
            ))
        })?;
        token.verify(key).map_err(named)?;
        Ok(TokenIdentity {
            user: claims::user(claims, provider)?,
            roles: claims::roles(claims, provider)?,
            expires_ms,
            claims: claims::logged(claims, provider),
            origin: TokenOrigin {
                issuer: provider.issuer.clone(),
                audience: provider.audience.clone(),
                auth_name_prefix: provider.auth_name_prefix.clone(),
                key_id: token.key_id.clone(),
                key_number: key.number,
            },
            epoch,
        })
    }

    fn epoch(&self) -> u64 {
        self.shared.epoch.load(Acquire)
    }

    fn still_trusts(&self, origin: &TokenOrigin) -> bool {
        let providers = self.providers.load();
        let is_configured = providers.all.iter().any(|provider| {
            provider.issuer == origin.issuer
                && provider.audience == origin.audience
                && provider.auth_name_prefix == origin.auth_name_prefix
        });
        let key_number =
            |source: &Arc<Source>| source.keys().find(&origin.key_id).map(|key| key.number);
        is_configured
            && providers.source(&origin.issuer).and_then(key_number) == Some(origin.key_number)
    }

    fn keys(&self, issuers: Option<&[&str]>) -> Result<Vec<(String, DocBuf)>, String> {
        let sources = self.providers.load().chosen(issuers)?;
        let shown = |source: &Arc<Source>| {
            let keys = source.keys();
            let set = match keys.keys.is_empty() {
                true => DocBuf::build(|out| out.array("keys", |_| ())),
                false => keys.shown.clone(),
            };
            (source.place.issuer.clone(), set)
        };
        Ok(sources.iter().map(shown).collect())
    }

    fn refresh(&self, issuers: Option<&[&str]>) -> Result<(), String> {
        let sources = self.providers.load().chosen(issuers)?;
        let begun: Vec<_> =
            sources.iter().map(|source| (source, source.begin(Duration::ZERO))).collect();
        for (source, ticket) in begun {
            if let Some(ticket) = ticket {
                source.wait(&ticket).map_err(|why| format!("{}: {why}", source.place.issuer))?;
            }
        }
        Ok(())
    }

    fn counts(&self) -> TokenCounts {
        let (providers, shared) = (self.providers.load(), &self.shared);
        let keys: usize = providers.sources.iter().map(|source| source.keys().keys.len()).sum();
        TokenCounts {
            providers: providers.all.len() as u64,
            keys: keys as u64,
            fetched: shared.fetched.load(Relaxed),
            failed: shared.failed.load(Relaxed),
            waited: shared.waited.load(Relaxed),
            quiet: shared.quiet.load(Relaxed),
        }
    }

    fn stop(&self) {
        self.poller.state.lock().stopped = true;
        self.poller.changed.notify_all();
        self.providers.load().sources.iter().for_each(|source| source.stop());
    }
}
