//! Delays the replies to failed logins, per source address, to slow down the guessing of passwords.
//!
//!   failed login      1    2    3    4        5        6        ...
//!   delay             0    0    0    100 ms   200 ms   400 ms   doubles up to the limit
//!
//! A correct password is accepted without delay, however many attempts have failed, so the failures of one
//! client do not affect others behind the same address. Delays alone would not slow down a client with many
//! connections: when [`WAITING_COUNT_MAX`] refusals of an address wait, further attempts from it are refused
//! before the password is checked, so these refusals reveal nothing about the password.
//!
//! Attempts on different users from one address count together: this module does not know users.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

/// The number of failures without a delay: typing errors.
const FREE_COUNT: u32 = 3;
/// The delay after the first failure beyond those; it doubles with each further one.
const FIRST_DELAY_MS: u64 = 100;
/// The number of refusals of one address that may wait at the same time.
const WAITING_COUNT_MAX: u32 = 16;
/// The number of remembered addresses. When it is reached, the address with the oldest failure is evicted.
const SOURCES_MAX: usize = 10_000;
/// After this time without a failure the count of an address starts again at zero.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// The addresses with failed logins.
#[derive(Default)]
pub(crate) struct Failures {
    sources: Mutex<HashMap<IpAddr, Source, RandomState>>,
}

struct Source {
    failed_count: u32,
    waiting_count: u32,
    last: Instant,
}

/// The key of an address. A `/64` network of IPv6 belongs to one customer, so its addresses share a key.
fn source(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX))),
    }
}

impl Failures {
    /// Returns true if a password from this address may be checked.
    pub(crate) fn may_try(&self, address: IpAddr) -> bool {
        let sources = self.sources.lock();
        sources.get(&source(address)).is_none_or(|s| s.waiting_count < WAITING_COUNT_MAX)
    }

    /// Counts a failed login. Returns how long the refusal must wait, at most `most`. The caller waits and then
    /// calls [`Failures::waited`].
    pub(crate) fn fail(&self, address: IpAddr, now: Instant, most: Duration) -> Duration {
        let mut sources = self.sources.lock();
        let key = source(address);
        if sources.len() >= SOURCES_MAX && !sources.contains_key(&key) {
            forget_some(&mut sources, now);
        }
        let fresh = Source { failed_count: 0, waiting_count: 0, last: now };
        let source = sources.entry(key).or_insert(fresh);
        if now.saturating_duration_since(source.last) >= FORGOTTEN_AFTER {
            source.failed_count = 0;
        }
        source.last = now;
        source.failed_count = source.failed_count.saturating_add(1);
        source.waiting_count += 1;
        match source.failed_count.checked_sub(FREE_COUNT + 1) {
            None => Duration::ZERO,
            Some(doublings) => {
                let factor = 1 << doublings.min(20);
                Duration::from_millis(FIRST_DELAY_MS * factor).min(most)
            }
        }
    }

    /// Counts a refusal as no longer waiting.
    pub(crate) fn waited(&self, address: IpAddr) {
        if let Some(source) = self.sources.lock().get_mut(&source(address)) {
            source.waiting_count = source.waiting_count.saturating_sub(1);
        }
    }
}

/// Evicts all addresses whose time is over; if that frees no place, evicts the one with the oldest failure.
fn forget_some(sources: &mut HashMap<IpAddr, Source, RandomState>, now: Instant) {
    sources.retain(|_, s| {
        s.waiting_count > 0 || now.saturating_duration_since(s.last) < FORGOTTEN_AFTER
    });
    if sources.len() >= SOURCES_MAX
        && let Some(oldest) = sources.iter().min_by_key(|(_, s)| s.last).map(|(key, _)| *key)
    {
        sources.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(2000);

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn delays_grow_by_address_and_are_forgotten() {
        let (all, now) = (Failures::default(), crate::clock::now());
        let mut delays = Vec::new();
        for _ in 0..10 {
            delays.push(all.fail(address(1), now, MOST).as_millis());
            all.waited(address(1));
        }
        assert_eq!(delays, [0, 0, 0, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(all.fail(address(2), now, MOST), Duration::ZERO);
        assert_eq!(all.fail(address(1), now + FORGOTTEN_AFTER, MOST), Duration::ZERO);
    }

    #[test]
    fn refusals_under_way_are_bounded() {
        let (all, now) = (Failures::default(), crate::clock::now());
        for _ in 0..WAITING_COUNT_MAX {
            assert!(all.may_try(address(1)));
            all.fail(address(1), now, MOST);
        }
        assert!(!all.may_try(address(1)) && all.may_try(address(2)));
        all.waited(address(1));
        assert!(all.may_try(address(1)));
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let (all, now) = (Failures::default(), crate::clock::now());
        for n in 0..WAITING_COUNT_MAX {
            all.fail(format!("2001:db8::{n:x}").parse().unwrap(), now, MOST);
        }
        assert!(!all.may_try("2001:db8::ffff".parse().unwrap()));
        assert!(all.may_try("2001:db8:0:1::1".parse().unwrap()));
    }

    #[test]
    fn the_table_is_bounded() {
        let (all, now) = (Failures::default(), crate::clock::now());
        for n in 0..20_000 {
            all.fail(address(n), now + Duration::from_millis(u64::from(n)), MOST);
            all.waited(address(n));
        }
        let sources = all.sources.lock();
        assert_eq!(sources.len(), SOURCES_MAX);
        assert!(sources.contains_key(&address(19_999)) && !sources.contains_key(&address(0)));
    }
}
