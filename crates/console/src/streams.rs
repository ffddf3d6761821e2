//! The open streams, and which of them ends for a further one.
//!
//! A stream lasts as long as its page is open. One user has a part of the connections only: beyond it, a new stream
//! ends the oldest of the same user, or of the same address where there are no logins.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::client::Client;

/// The streams of one user: more than the tabs of its browsers, and a quarter of the connections.
pub(crate) const USER_STREAMS_MAX: usize = 16;

/// The open streams, the oldest first.
#[derive(Default)]
pub(crate) struct Streams(Mutex<Vec<Open>>);

struct Open {
    of: String,
    client: Arc<Client>,
}

/// An open stream, until it is dropped.
pub(crate) struct Stream {
    streams: Arc<Streams>,
    client: Arc<Client>,
}

impl Streams {
    /// Adds a stream of the user `of`; ends the oldest ones of it that are too many.
    pub(crate) fn begin(self: &Arc<Streams>, of: &str, client: &Arc<Client>) -> Stream {
        let mut all = self.0.lock();
        let count = all.iter().filter(|open| open.of == of).count();
        let mut surplus = (count + 1).saturating_sub(USER_STREAMS_MAX);
        all.retain(|open| {
            let ends = surplus > 0 && open.of == of;
            if ends {
                surplus -= 1;
                open.client.disconnect();
            }
            !ends
        });
        all.push(Open { of: of.to_owned(), client: client.clone() });
        Stream { streams: self.clone(), client: client.clone() }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.streams.0.lock().retain(|open| !Arc::ptr_eq(&open.client, &self.client));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn begin(streams: &Arc<Streams>, of: &str) -> (UnixStream, Stream) {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let client = Arc::new(Client::new(Some(Arc::new(near.into()))));
        (far, streams.begin(of, &client))
    }

    #[test]
    fn a_further_stream_ends_the_oldest_of_the_same_user() {
        let streams = Arc::<Streams>::default();
        let mut other = begin(&streams, "user b");
        let mut all: Vec<_> = (0..=USER_STREAMS_MAX).map(|_| begin(&streams, "user a")).collect();
        let open = |(far, _): &mut (UnixStream, Stream)| far.read(&mut [0; 1]).is_err();
        let are_open: Vec<bool> = all.iter_mut().map(open).collect();
        assert!(!are_open[0] && are_open[1..].iter().all(|is_open| *is_open) && open(&mut other));
        // Places of streams that have ended are free.
        all.truncate(8);
        let mut next: Vec<_> = (8..=USER_STREAMS_MAX).map(|_| begin(&streams, "user a")).collect();
        assert!(all[1..].iter_mut().all(open) && next.iter_mut().all(open));
        drop((all, next));
        assert_eq!(streams.0.lock().len(), 1);
    }
}
