//! The open connections, and which of them gives its place to a further client.
//!
//! A browser keeps connections for its next requests, and a client may send nothing, or a part of a request. Such a
//! connection is closed when its place is needed, the oldest one of the address that has the most: so clients that are
//! silent, however many, keep out no other, and those of one address do not push out those of another. Those that do
//! not read their replies count as silent after some seconds.
//!
//! A request that waits for its turn is as good as silent if its client has not logged in: it wants to, or a login is
//! not required. Of those of one address, one goes first that tries the login of the user that most of them try: who
//! guesses the passwords of one user pushes out no login of another.
//!
//! Without one of these, one gives its place to which a reply is sent, as a stream or a client that reads slowly, or
//! where a user's request waits for its turn. First come clients that have not logged in, then those of the address
//! that has the most. Only requests that run keep their places; there are fewer of them than connections.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::{Shutdown, shutdown};

use crate::patience::Unread;
use crate::sessions::Token;

/// The number of connections. A browser opens six, and one for the stream.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// A connection whose reply has been unread for so long may lose its place.
const UNREAD_MAX: Duration = Duration::from_secs(3);
/// The part of an IPv6 address that a network has as a whole.
const NETWORK: u128 = !0 << 64;

/// The open connections.
pub(crate) struct Visitors {
    max: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// Counts connections and ends of requests, for their order.
    turn: u64,
    all: Vec<Guest>,
}

struct Guest {
    id: u64,
    source: IpAddr,
    socket: Arc<OwnedFd>,
    /// Requests that have arrived as a whole, and whose replies are not sent.
    requests: usize,
    /// The turn of its beginning, or of the end of its last request.
    since: u64,
    /// Its last request waits for its turn.
    waits: bool,
    /// The reply of its last request is there, and is being sent if the request has not ended.
    sends: bool,
    /// Its last request was that of a user who has logged in.
    is_known: bool,
    /// Whose login its last request tries.
    login: Option<Token>,
    unread: Arc<Unread>,
}

/// An open connection, until it is dropped.
pub(crate) struct Visit {
    visitors: Arc<Visitors>,
    id: u64,
    socket: Arc<OwnedFd>,
    unread: Arc<Unread>,
}

/// A request that is being answered, until it is dropped: the connection keeps its place.
pub(crate) struct Serving(Arc<Visit>);

impl Visitors {
    pub(crate) fn new(max: usize) -> Arc<Visitors> {
        Arc::new(Visitors { max, open: Mutex::default() })
    }

    /// Adds a connection; the one that gives it its place is shut down. `None` if all are being answered.
    pub(crate) fn enter(self: &Arc<Visitors>, address: IpAddr, socket: OwnedFd) -> Option<Visit> {
        let socket = Arc::new(socket);
        let mut open = self.open.lock();
        if open.all.len() >= self.max {
            let place = open.dispensable()?;
            let gone = open.all.swap_remove(place);
            // Whoever serves it reads the end of the stream.
            let _ = shutdown(&gone.socket, Shutdown::Both);
        }
        open.turn += 1;
        let id = open.turn;
        let source = source(address);
        let unread = Arc::<Unread>::default();
        let guest = Guest {
            id,
            source,
            socket: socket.clone(),
            requests: 0,
            since: id,
            waits: false,
            sends: false,
            is_known: false,
            login: None,
            unread: unread.clone(),
        };
        open.all.push(guest);
        Some(Visit { visitors: self.clone(), id, socket, unread })
    }
}

impl Open {
    fn guest(&mut self, id: u64) -> Option<&mut Guest> {
        self.all.iter_mut().find(|guest| guest.id == id)
    }

    /// The connection whose place may be taken. With equally many of an address, one of another machine; and among
    /// those of an address one of those that try the login of one user, or none, as most others of it do.
    fn dispensable(&self) -> Option<usize> {
        let own = |guest: &Guest| {
            let source = guest.source;
            self.all.iter().filter(move |other| other.source == source)
        };
        let among = |filter: fn(&Guest) -> bool, by_name: bool| {
            let all = self.all.iter().enumerate().filter(|(_, guest)| filter(guest));
            let found = all.max_by_key(|(_, guest)| {
                let like = own(guest).filter(|other| other.login == guest.login).count();
                let order = (own(guest).count(), !guest.source.is_loopback(), like);
                (by_name && !guest.is_known, order, Reverse(guest.since))
            });
            found.map(|(place, _)| place)
        };
        among(Guest::gives_way, false).or_else(|| among(|guest| guest.sends || guest.waits, true))
    }
}

impl Guest {
    fn is_silent(&self) -> bool {
        self.requests == 0 || self.unread.lasts(UNREAD_MAX)
    }

    fn gives_way(&self) -> bool {
        self.is_silent() || self.waits && !self.is_known
    }
}

/// The address that connections are counted by: an IPv6 client may use all addresses of its network.
pub(crate) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & NETWORK))
        }
        other => other,
    }
}

impl Visit {
    pub(crate) fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// How long the client has not read its reply; set by the connection.
    pub(crate) fn unread(&self) -> &Arc<Unread> {
        &self.unread
    }

    /// A request has arrived as a whole and waits for its turn; `is_known`: that of a user who has logged in; `login`:
    /// of that it tries the login.
    pub(crate) fn serve(self: &Arc<Visit>, is_known: bool, login: Option<Token>) -> Serving {
        if let Some(guest) = self.visitors.open.lock().guest(self.id) {
            guest.requests += 1;
            guest.waits = true;
            guest.sends = false;
            guest.is_known = is_known;
            guest.login = login;
        }
        Serving(self.clone())
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.visitors.open.lock().all.retain(|guest| guest.id != self.id);
    }
}

impl Serving {
    /// Its turn has come.
    pub(crate) fn runs(&self) {
        if let Some(guest) = self.0.visitors.open.lock().guest(self.0.id) {
            guest.waits = false;
        }
    }

    /// The reply is delayed: the connection gives way as one that waits for its turn.
    pub(crate) fn waits(&self) {
        if let Some(guest) = self.0.visitors.open.lock().guest(self.0.id) {
            guest.waits = true;
        }
    }

    /// The reply is there.
    pub(crate) fn sends(&self) {
        if let Some(guest) = self.0.visitors.open.lock().guest(self.0.id) {
            guest.waits = false;
            guest.sends = true;
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let mut open = self.0.visitors.open.lock();
        open.turn += 1;
        let turn = open.turn;
        if let Some(guest) = open.guest(self.0.id) {
            guest.requests -= 1;
            guest.since = turn;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    struct Client {
        far: UnixStream,
        visit: Arc<Visit>,
    }

    fn try_enter(visitors: &Arc<Visitors>, address: &str) -> Option<Client> {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let visit = visitors.enter(address.parse().unwrap(), near.into())?;
        Some(Client { far, visit: Arc::new(visit) })
    }

    fn enter(visitors: &Arc<Visitors>, address: &str) -> Client {
        try_enter(visitors, address).unwrap()
    }

    impl Client {
        fn is_open(&mut self) -> bool {
            self.far.read(&mut [0; 1]).is_err()
        }

        fn runs(&self, is_known: bool) -> Serving {
            let serving = self.visit.serve(is_known, None);
            serving.runs();
            serving
        }
    }

    #[test]
    fn the_oldest_silent_connection_gives_its_place() {
        let visitors = Visitors::new(3);
        let mut all: Vec<_> = (0..3).map(|_| enter(&visitors, "10.0.0.1")).collect();
        let first = all[0].runs(false);
        let mut fourth = enter(&visitors, "10.0.0.1");
        assert!(all[0].is_open() && !all[1].is_open() && all[2].is_open() && fourth.is_open());
        // Its request is over: it is the youngest now.
        drop(first);
        let fifth = enter(&visitors, "10.0.0.1");
        assert!(all[0].is_open() && !all[2].is_open() && fourth.is_open());
        let serving = [&all[0], &fourth, &fifth].map(|client| client.runs(false));
        assert!(try_enter(&visitors, "10.0.0.1").is_none());
        // The end of a connection that has lost its place does not take another's.
        all.truncate(1);
        assert!(try_enter(&visitors, "10.0.0.1").is_none());
        drop(serving);
        drop(all);
        assert!(try_enter(&visitors, "10.0.0.1").is_some() && fourth.is_open());
    }

    #[test]
    fn a_client_that_does_not_read_its_reply_gives_its_place() {
        let visitors = Visitors::new(2);
        let mut all = [(); 2].map(|()| enter(&visitors, "10.0.0.1"));
        let _serving = [&all[0], &all[1]].map(|client| client.runs(false));
        let now = std::time::Instant::now();
        all[0].visit.unread().begin(now);
        assert!(try_enter(&visitors, "10.0.0.1").is_none());
        all[1].visit.unread().begin(now.checked_sub(UNREAD_MAX).unwrap());
        let mut third = enter(&visitors, "10.0.0.1");
        assert!(all[0].is_open() && !all[1].is_open() && third.is_open());
    }

    #[test]
    fn a_reply_that_is_sent_gives_its_place_and_a_request_that_runs_does_not() {
        let visitors = Visitors::new(4);
        let mut all: Vec<_> = ["10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2"]
            .iter()
            .map(|address| enter(&visitors, address))
            .collect();
        let serving: Vec<_> = all.iter().map(|client| client.runs(true)).collect();
        assert!(try_enter(&visitors, "10.0.0.3").is_none());
        [1, 2, 3].iter().for_each(|at| serving[*at].sends());
        // The oldest of the address that has the most.
        let mut further = enter(&visitors, "10.0.0.3");
        assert_eq!(
            all.iter_mut().map(Client::is_open).collect::<Vec<_>>(),
            [true, false, true, true]
        );
        // One that has not logged in is the first, wherever it comes from.
        let unknown = further.runs(false);
        unknown.sends();
        let last = enter(&visitors, "10.0.0.1");
        assert!(!further.is_open() && all[2].is_open() && all[3].is_open());
        let _running = last.runs(true);
        // A further request of the same connection keeps the place again.
        let _again = [&all[2], &all[3]].map(|client| client.runs(true));
        assert!(try_enter(&visitors, "10.0.0.3").is_none());
    }

    #[test]
    fn a_request_that_waits_for_its_turn_gives_its_place() {
        let visitors = Visitors::new(4);
        let addresses = ["10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.0.1"];
        let mut all = addresses.map(|address| enter(&visitors, address));
        let user = all[0].visit.serve(true, None);
        let _running = all[1].runs(false);
        let unknown = [&all[2], &all[3]].map(|client| client.visit.serve(false, None));
        // One that has just come and sent nothing yet stays, as its address has fewer.
        let mut third = enter(&visitors, "10.0.0.3");
        let fourth = enter(&visitors, "10.0.0.4");
        let are_open = |all: &mut [Client; 4]| all.each_mut().map(Client::is_open);
        assert_eq!(are_open(&mut all), [true, true, false, false]);
        assert!(third.is_open());
        drop(unknown);
        let _runs = [third.runs(true), fourth.runs(true)];
        // That of a user goes if there is nothing else, unless its turn has come.
        user.runs();
        assert!(try_enter(&visitors, "10.0.0.5").is_none());
        let _waits = all[0].visit.serve(true, None);
        assert!(try_enter(&visitors, "10.0.0.5").is_some());
        assert_eq!(are_open(&mut all), [false, true, false, false]);
    }

    #[test]
    fn logins_of_the_user_whom_most_try_give_their_places() {
        let visitors = Visitors::new(5);
        let mut all: Vec<_> = (0..5).map(|_| enter(&visitors, "127.0.0.1")).collect();
        let login = |user: u8| Some([user; 32]);
        // The oldest is the only one that tries its user.
        let _waiting: Vec<_> = [1, 2, 3, 2, 3]
            .iter()
            .zip(&all)
            .map(|(user, client)| client.visit.serve(false, login(*user)))
            .collect();
        let mut further = enter(&visitors, "127.0.0.1");
        let _more = further.visit.serve(false, login(3));
        let mut last = enter(&visitors, "127.0.0.1");
        let are_open: Vec<_> = all.iter_mut().map(Client::is_open).collect();
        assert_eq!(are_open, [true, false, false, true, true]);
        assert!(further.is_open() && last.is_open());
    }

    #[test]
    fn many_of_one_address_do_not_push_out_others() {
        let visitors = Visitors::new(4);
        let mut operator = enter(&visitors, "127.0.0.1");
        let mut other = enter(&visitors, "10.0.0.7");
        let mut last = None;
        for host in 0..20 {
            last = Some(enter(&visitors, &format!("2001:db8::{host:x}")));
        }
        assert!(operator.is_open() && other.is_open() && last.unwrap().is_open());
        // All have as many: one of another machine leaves, though it is younger.
        let visitors = Visitors::new(2);
        let mut operator = enter(&visitors, "::1");
        let mut other = enter(&visitors, "10.0.0.7");
        let mut third = enter(&visitors, "::ffff:10.0.0.8");
        assert!(operator.is_open() && !other.is_open() && third.is_open());
    }
}
