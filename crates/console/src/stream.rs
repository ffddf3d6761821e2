//! `/api/stream`: figures and stalls as server-sent events, as they come.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Bytes;
use nagi_bson::DocBuf;
use nagi_bson::json::{self, JsonWriter};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::answer::{Answer, Content, answer};
use crate::asked::Asked;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::routes::{write_ended, write_values};
use crate::state::State;
use crate::watched;

/// Events that wait for a slow client; more are dropped.
const WAITING_MAX: usize = 8;

/// Begins a stream.
///
/// # Errors
/// If the client may not see the figures.
pub(crate) async fn begin(state: Arc<State>, asked: Asked) -> Result<Answer, Refusal> {
    let asked = Arc::new(asked);
    check(&state, &asked).await?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let stream = state.streams.begin(&state.owner(&asked), &asked.client);
    tokio::spawn(async move {
        let _stream = stream;
        let mut events = state.events.subscribe();
        if sender.send(Bytes::from_static(b"retry: 2000\n\n")).await.is_err() {
            return;
        }
        loop {
            let event = match events.recv().await {
                Ok(event) => event,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            // Each second: a user that is dropped, or loses the right, sees no more.
            if matches!(event, Event::Sample(_)) && check(&state, &asked).await.is_err() {
                return;
            }
            if sender.send(text(&event).into()).await.is_err() {
                return;
            }
        }
    });
    Ok(answer(StatusCode::OK, "text/event-stream", Content::Events(receiver, None)))
}

async fn check(state: &Arc<State>, asked: &Arc<Asked>) -> Result<(), Refusal> {
    let (state, asked) = (state.clone(), asked.clone());
    let checked =
        tokio::task::spawn_blocking(move || state.session(&asked)?.may_watch(&state.server));
    checked.await.unwrap_or_else(|_| Err(Refusal::busy("The request ended unexpectedly")))
}

fn text(event: &Event) -> String {
    match event {
        Event::Stall(stall) => {
            let body = DocBuf::build(|out| stall.write(out));
            format!("event: stall\ndata: {}\n\n", json::to_relaxed(body.as_doc()))
        }
        Event::Work(list) => {
            let body = watched::events(list);
            format!("event: work\ndata: {}\n\n", json::to_relaxed(body.as_doc()))
        }
        Event::Disk(sample) => {
            let mut body = String::new();
            sample.write(&mut JsonWriter::new(&mut body, json::Spacing::Compact));
            format!("event: disk\ndata: {body}\n\n")
        }
        Event::Alert(alert) => {
            let body = DocBuf::build(|out| alert.write(out));
            format!("event: alert\ndata: {}\n\n", json::to_relaxed(body.as_doc()))
        }
        Event::Sample(sample) => {
            let mut body = String::new();
            JsonWriter::new(&mut body, json::Spacing::Compact).object(|out| {
                out.key("t").literal(sample.at_ms);
                out.key("v").array(|out| write_values(sample, out));
                write_ended(&sample.ended, out.key("l"));
            });
            format!("event: sample\ndata: {body}\n\n")
        }
    }
}
