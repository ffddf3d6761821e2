//! Places for work of one kind: so many at once in all, and of each client a share, so that one cannot keep out all.
//!
//! Those that find no place wait for one, in their order. The number of connections bounds how many can wait.

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
    wait_max: Duration,
    /// Clients that have a place, or wait for one.
    clients: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A place, until it is dropped.
pub(crate) struct Place {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    // Dropped last: it looks whether others use the client's semaphore.
    _client: Client,
}

struct Client {
    places: Arc<Places>,
    name: String,
}

impl Places {
    pub(crate) fn new(all: usize, share: usize, wait_max: Duration) -> Arc<Places> {
        let all = Arc::new(Semaphore::new(all));
        Arc::new(Places { all, share, wait_max, clients: Mutex::default() })
    }

    /// Waits for a place for a client; `None` if there was none in time.
    pub(crate) async fn take(self: &Arc<Places>, name: &str) -> Option<Place> {
        let client = Client { places: self.clone(), name: name.to_owned() };
        let own = {
            let mut clients = self.clients.lock();
            let own = clients.entry(name.to_owned());
            own.or_insert_with(|| Arc::new(Semaphore::new(self.share))).clone()
        };
        let taken = tokio::time::timeout(self.wait_max, async {
            // First its share: who has used it up does not stand in the way of others.
            let own = own.acquire_owned().await.ok()?;
            let all = self.all.clone().acquire_owned().await.ok()?;
            Some((all, own))
        });
        let (all, own) = taken.await.ok()??;
        Some(Place { _all: all, _own: own, _client: client })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut clients = self.places.clients.lock();
        if clients.get(&self.name).is_some_and(|own| Arc::strong_count(own) == 1) {
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
            let places = Places::new(3, 2, Duration::from_millis(20));
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
    fn who_waits_gets_the_next_place() {
        run(async {
            let places = Places::new(1, 1, Duration::from_secs(30));
            let first = places.take("a").await;
            let mut waits = Box::pin(places.take("b"));
            let soon = Duration::from_millis(10);
            assert!(tokio::time::timeout(soon, &mut waits).await.is_err());
            drop(first);
            assert!(waits.await.is_some());
        });
    }
}
