//! The HTTP server: connections, and the way of a request to its route.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nagi_error::Code;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::answer::{self, Answer, bytes_answer};
use crate::asked::Asked;
use crate::client::{Client, Waits};
use crate::framing::Strict;
use crate::patience::Patience;
use crate::places::Place;
use crate::refusal::Refusal;
use crate::routes::{ROUTES, Run};
use crate::state::{REFUSED_KEEPS, REPLY_UNIT, State};
use crate::visitors::{CONNECTIONS_MAX, Serving, Visit, Visitors};
use crate::{assets, guard, stream};

/// The time that a client has to send the head of its next request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// The time after which a client that acknowledges nothing has vanished. A stream sends something each second.
const VANISHED_AFTER: Duration = Duration::from_secs(60);
/// The time in which a client must read a part of its reply: see [`Patience`].
const UNREAD_MAX: Duration = Duration::from_secs(30);
/// A reply up to this size is not counted: all connections together have four megabytes of them.
const FREE_BYTES: usize = 64 << 10;
/// The time that a reply waits until those before it have been sent.
const SEND_WAIT_MAX: Duration = Duration::from_secs(5);
/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The time that requests have to end when the server stops.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// The time between two looks for sessions that have ended.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// The time after which accepting is tried again when it failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Accepts connections until `stop`.
pub(crate) async fn run(
    state: Arc<State>,
    listeners: Vec<StdListener>,
    stop: oneshot::Receiver<()>,
) {
    let visitors = Visitors::new(CONNECTIONS_MAX);
    for listener in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => drop(tokio::spawn(accept(state.clone(), listener, visitors.clone()))),
            Err(error) => {
                log::warn!(target: "NETWORK", id = 8_200_230, error = error.to_string();
                    "The web console cannot use its socket");
            }
        }
    }
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            let state = state.clone();
            // Sessions log the end of their connections.
            let _ = tokio::task::spawn_blocking(move || state.sessions.sweep()).await;
        }
    });
    let _ = stop.await;
}

async fn accept(state: Arc<State>, listener: TcpListener, visitors: Arc<Visitors>) {
    loop {
        let Ok((socket, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        if state.allowed.as_ref().is_some_and(|all| !all.contain(peer.ip().to_canonical())) {
            continue;
        }
        let Ok(watched) = socket.as_fd().try_clone_to_owned() else { continue };
        // There always is one that gives its place, as fewer requests run at once than there are places.
        let Some(visit) = visitors.enter(peer.ip(), watched) else { continue };
        tokio::spawn(serve(state.clone(), socket, peer, visit));
        // Its request is read before many others come: until then its place is as good as that of a silent client.
        tokio::task::yield_now().await;
    }
}

/// Serves a connection until it ends.
async fn serve(state: Arc<State>, socket: TcpStream, peer: SocketAddr, visit: Visit) {
    let Ok(local) = socket.local_addr() else { return };
    let _ = socket.set_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&socket, VANISHED_AFTER.as_millis() as u32);
    let socket = Patience::new(socket, UNREAD_MAX).shown_in(visit.unread().clone());
    let socket = Strict::new(socket);
    let visit = Arc::new(visit);
    let service = service_fn(move |request| {
        let (state, visit) = (state.clone(), visit.clone());
        async move { Ok::<_, Infallible>(answer(state, request, peer, local, &visit).await) }
    });
    // Whatever ends a connection is the client's affair.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        // A copy of the reply would not be counted.
        .writev(true)
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
    peer: SocketAddr,
    local: SocketAddr,
    visit: &Arc<Visit>,
) -> Answer {
    let client = Arc::new(Client::new(Some(visit.socket().clone())));
    // The client leaves: this future is dropped.
    let _waits = Waits(client.clone());
    let is_metrics = request.uri().path() == "/metrics";
    let answered = match guard::check(&request, &state.names) {
        Ok(()) => match Asked::read(request, peer, local, client).await {
            Ok(mut asked) => {
                asked.login = state.login(&asked);
                let login = asked.login.as_ref().map(|login| login.of);
                let serving = visit.serve(state.knows(&asked), login);
                let answered = route(state, asked, &serving).await;
                serving.sends();
                answered.map(|answer| answer::tied(answer, serving))
            }
            Err(refusal) => Err(refusal),
        },
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(|refusal| match is_metrics {
        true => answer::ask_for_basic(refusal.answer()),
        // A browser would show its own window for a login beside the page's.
        false => refusal.answer(),
    })
}

async fn route(state: Arc<State>, mut asked: Asked, serving: &Serving) -> Result<Answer, Refusal> {
    if asked.method == Method::HEAD {
        // The same reply; hyper sends its head only.
        asked.method = Method::GET;
    }
    let path = asked.path.as_str();
    if asked.method == Method::GET {
        let file = match path {
            "/" => Some("index.html"),
            _ => path.strip_prefix("/assets/"),
        };
        if let Some((kind, bytes)) = file.and_then(assets::find) {
            return Ok(bytes_answer(kind, bytes));
        }
        if path == "/api/stream" {
            return stream::begin(state, asked).await;
        }
    }
    let Some((_, _, run)) = ROUTES.iter().find(|row| row.0 == asked.method && row.1 == path) else {
        let known = ROUTES.iter().any(|row| row.1 == path);
        let status = if known { StatusCode::METHOD_NOT_ALLOWED } else { StatusCode::NOT_FOUND };
        return Err(Refusal::new(status, Code::COMMAND_NOT_FOUND, "There is nothing at this path"));
    };
    let replies = state.replies.clone();
    let mut ran = take_turn(&state, *run, asked.clone(), serving).await;
    if ran.as_ref().is_err_and(|refusal| refusal.is_login_ended) {
        asked.login = state.login(&asked);
        ran = take_turn(&state, *run, asked, serving).await;
    }
    let (answer, _place) = ran?;
    let length = answer::length(&answer);
    if length <= FREE_BYTES {
        return Ok(answer);
    }
    // While it waits it keeps its place: so replies that wait have a limit, too.
    let units = u32::try_from(length.div_ceil(REPLY_UNIT)).unwrap_or(u32::MAX);
    match tokio::time::timeout(SEND_WAIT_MAX, replies.acquire_many_owned(units)).await {
        Ok(Ok(permits)) => Ok(answer::tied(answer, permits)),
        _ => Err(Refusal::busy("Too many replies wait for clients that do not read them")),
    }
}

/// Runs a request when its turn has come. The answer keeps the place.
async fn take_turn(
    state: &Arc<State>,
    run: Run,
    asked: Asked,
    serving: &Serving,
) -> Result<(Answer, Place), Refusal> {
    let place = state.place(&asked).await?;
    serving.runs();
    let state = state.clone();
    let ran = tokio::task::spawn_blocking(move || {
        nagi_server::set_log_context("console");
        // The thread keeps the place when the client does not wait for it.
        let refusal = match run(&state, &asked) {
            Ok(answer) => return Ok((answer, place)),
            Err(refusal) => refusal,
        };
        if asked.login.is_some() && refusal.status == StatusCode::UNAUTHORIZED {
            tokio::spawn(async move {
                tokio::time::sleep(REFUSED_KEEPS).await;
                drop(place);
            });
        }
        Err(refusal)
    });
    let ran = ran.await.unwrap_or_else(|_| Err(Refusal::busy("The request ended unexpectedly")));
    if let Err(refusal) = &ran
        && !refusal.delay.is_zero()
    {
        serving.waits();
        tokio::time::sleep(refusal.delay).await;
    }
    ran
}
