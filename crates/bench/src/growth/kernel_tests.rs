//! The kernel against closed forms of queueing theory.
use super::kernel::{Events, Log, Ns, Station, Turns, exponential};
use crate::random::Random;

const SERVICE: Ns = 1000;
const JOBS: u64 = 400_000;

/// What a station with arrivals at random times has: the mean time in it and the mean number in it, both counted, and
/// the share of the time that a server works.
struct Seen {
    stay: f64,
    number: f64,
    busy: f64,
    rate: f64,
}

fn measure(load: f64, servers: usize, service: &dyn Fn(&mut Random) -> Ns) -> Seen {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum What {
        Comes,
        Goes(Ns),
    }
    let between = (SERVICE as f64 / load / servers as f64) as Ns;
    let (mut random, mut events) = (Random::new(7), Events::new());
    let mut station = Station::new(servers);
    let (mut come, mut gone, mut stays, mut inside) = (0, 0, 0, 0_u64);
    let (mut area, mut last) = (0_u128, 0);
    events.at(0, What::Comes);
    while let Some(what) = events.next() {
        let now = events.now();
        area += u128::from(now - last) * u128::from(inside);
        last = now;
        match what {
            What::Comes => {
                (come, inside) = (come + 1, inside + 1);
                let done = station.serve(now, service(&mut random));
                events.at(done, What::Goes(now));
                if come < JOBS {
                    events.after(exponential(&mut random, between), What::Comes);
                }
            }
            What::Goes(since) => {
                (gone, inside, stays) = (gone + 1, inside - 1, stays + (now - since));
            }
        }
    }
    assert_eq!((come, gone, inside), (JOBS, JOBS, 0));
    Seen {
        stay: stays as f64 / JOBS as f64,
        number: area as f64 / last as f64,
        busy: station.worked(last) as f64 / (last * servers as u64) as f64,
        rate: JOBS as f64 / last as f64,
    }
}

fn near(seen: f64, expected: f64, within: f64, what: &str) {
    assert!((seen / expected - 1.0).abs() < within, "{what}: {seen}, expected {expected}");
}

#[test]
fn random_service_is_m_m_1() {
    for (load, within) in [(0.3, 0.01), (0.6, 0.02), (0.8, 0.04), (0.9, 0.08)] {
        let seen = measure(load, 1, &|random| exponential(random, SERVICE));
        near(seen.stay, SERVICE as f64 / (1.0 - load), within, &format!("stay at {load}"));
        near(seen.busy, load, 0.02, "busy");
        near(seen.number, seen.rate * seen.stay, 1e-6, "Little's law");
    }
}

#[test]
fn fixed_service_is_m_d_1() {
    for (load, within) in [(0.3, 0.01), (0.6, 0.02), (0.8, 0.04), (0.9, 0.08)] {
        let seen = measure(load, 1, &|_| SERVICE);
        let stay = SERVICE as f64 * (1.0 + load / (2.0 * (1.0 - load)));
        near(seen.stay, stay, within, &format!("stay at {load}"));
    }
}

/// Erlang's C for two servers: the wait is load^2 / (1 - load^2) of the service.
#[test]
fn two_servers_are_m_m_2() {
    for load in [0.5, 0.8] {
        let seen = measure(load, 2, &|random| exponential(random, SERVICE));
        near(seen.stay, SERVICE as f64 / (1.0 - load * load), 0.04, &format!("stay at {load}"));
        near(seen.busy, load, 0.02, "busy");
    }
}

#[test]
fn a_station_that_is_too_slow_has_its_own_rate() {
    let mut station = Station::new(3);
    let last = (0..3000).map(|n| station.serve(n, SERVICE)).max().unwrap();
    near(3000.0 / last as f64, 3.0 / SERVICE as f64, 0.01, "rate");
    // What it has been given and not done yet is no work.
    assert_eq!(station.worked(10 * SERVICE), 3 * 10 * SERVICE - (1 + 2));
}

#[test]
fn turns_are_one_at_a_time_and_in_order() {
    let mut turns = Turns::default();
    assert!(turns.begin(10, 1) && !turns.begin(11, 2) && !turns.begin(12, 3));
    assert_eq!((turns.end(20), turns.end(35), turns.end(36)), (Some(2), Some(3), None));
    assert_eq!(turns.worked(99), 26);
}

#[test]
fn writes_that_come_during_a_sync_are_synced_together() {
    let (mut log, mut synced) = (Log::default(), Vec::new());
    assert_eq!(log.add(1, 10), Some(10));
    assert_eq!((log.add(2, 20), log.add(3, 30)), (None, None));
    assert_eq!(log.end(&mut synced), Some(50));
    assert_eq!(synced, [1]);
    assert_eq!((log.end(&mut synced), &synced[..]), (None, &[1, 2, 3][..]));
    assert_eq!(log.add(4, 40), Some(40));
}

#[test]
fn events_at_one_time_come_as_planned() {
    let mut events = Events::new();
    [(5, 9), (3, 7), (5, 1), (3, 8)].into_iter().for_each(|(at, what)| events.at(at, what));
    let order: Vec<i32> = std::iter::from_fn(|| events.next()).collect();
    assert_eq!((order, events.now(), events.planned()), (vec![7, 8, 9, 1], 5, 4));
}

#[test]
fn exponential_lengths_have_their_mean() {
    let mut random = Random::new(3);
    let sum: Ns = (0..100_000).map(|_| exponential(&mut random, SERVICE)).sum();
    near(sum as f64 / 100_000.0, SERVICE as f64, 0.01, "mean");
}
