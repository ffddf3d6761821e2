//! Places for work of one kind: so many at once in all, and of each client a share, so that one cannot keep out all.
//!
//! Those that find no place wait for one, in their order. The number of them is limited for each client, so that one
//! does not fill the console's connections with requests that wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one kind of work.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    /// The places of one client.
    share: usize,
    /// How many of one client may wait for a place.
    waiting_max: usize,
    wait_max: Duration,
    /// Clients that have a place, or wait for one.
    clients: Mutex<HashMap<String, Arc<Own>>>,
}

/// What one client has.
struct Own {
    places: Arc<Semaphore>,
    /// For those that have a place and those that wait for one.
    inside: Arc<Semaphore>,
}

/// A place, until it is dropped.
pub(crate) struct Place {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _inside: OwnedSemaphorePermit,
    // Dropped last: it looks whether others use the client's semaphores.
    _client: Client,
}

struct Client {
    places: Arc<Places>,
    name: String,
    own: Arc<Own>,
}

impl Places {
    pub(crate) fn new(
        all: usize,
        share: usize,
        waiting_max: usize,
        wait_max: Duration,
    ) -> Arc<Places> {
        let all = Arc::new(Semaphore::new(all));
        Arc::new(Places { all, share, waiting_max, wait_max, clients: Mutex::default() })
    }

    fn client(self: &Arc<Places>, name: &str) -> Client {
        let new = || {
            Arc::new(Own {
                places: Arc::new(Semaphore::new(self.share)),
                inside: Arc::new(Semaphore::new(self.share + self.waiting_max)),
            })
        };
        let own = self.clients.lock().entry(name.to_owned()).or_insert_with(new).clone();
        Client { places: self.clone(), name: name.to_owned(), own }
    }

    /// Waits for a place for a client; `None` if there was none in time, and at once if too many of this client wait.
    pub(crate) async fn take(self: &Arc<Places>, name: &str) -> Option<Place> {
        let client = self.client(name);
        let inside = client.own.inside.clone().try_acquire_owned().ok()?;
        let taken = tokio::time::timeout(self.wait_max, async {
            // First its share: who has used it up does not stand in the way of others.
            let own = client.own.places.clone().acquire_owned().await.ok()?;
            let all = self.all.clone().acquire_owned().await.ok()?;
            Some((all, own))
        });
        let (all, own) = taken.await.ok()??;
        Some(Place { _all: all, _own: own, _inside: inside, _client: client })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut clients = self.places.clients.lock();
        // The map's and this one's. Others come to be while the map is locked only.
        if Arc::strong_count(&self.own) == 2 {
            clients.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn a_client_has_its_share_only() {
        run(async {
            let places = Places::new(3, 2, 1, Duration::from_millis(20));
            let (first, second) = (places.take("a").await, places.take("a").await);
            assert!(first.is_some() && second.is_some());
            assert!(places.take("a").await.is_none());
            let other = places.take("b").await;
            assert!(other.is_some());
            assert!(places.take("c").await.is_none());
            assert_eq!(places.clients.lock().len(), 2);
            drop(first);
            assert!(places.take("c").await.is_some());
            drop((second, other));
            assert!(places.clients.lock().is_empty());
        });
    }

    #[test]
    fn too_many_of_a_client_do_not_wait() {
        run(async {
            // Without the limit the test would not end in a day.
            let places = Places::new(4, 1, 2, Duration::from_secs(100_000));
            let first = places.take("a").await;
            assert!(first.is_some());
            let soon = Duration::from_millis(10);
            let mut waits = [Box::pin(places.take("a")), Box::pin(places.take("a"))];
            for waits in &mut waits {
                assert!(tokio::time::timeout(soon, waits).await.is_err());
            }
            assert!(places.take("a").await.is_none());
            assert!(places.take("b").await.is_some(), "another one");
            let [second, third] = waits;
            drop(third);
            let mut again = Box::pin(places.take("a"));
            assert!(tokio::time::timeout(soon, &mut again).await.is_err(), "it waits");
            drop(first);
            let second = second.await;
            assert!(second.is_some());
            drop(second);
            drop(again.await);
            assert!(places.clients.lock().is_empty());
        });
    }

    #[test]
    fn who_waits_gets_the_next_place() {
        run(async {
            let places = Places::new(1, 1, 1, Duration::from_secs(30));
            let first = places.take("a").await;
            let mut waits = Box::pin(places.take("b"));
            let soon = Duration::from_millis(10);
            assert!(tokio::time::timeout(soon, &mut waits).await.is_err());
            drop(first);
            assert!(waits.await.is_some());
        });
    }
}
