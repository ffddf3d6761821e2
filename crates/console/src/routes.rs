//! The interface's paths: one row each.

use hyper::{Method, StatusCode};
use nagi_bson::json::{self, JsonWriter};
use nagi_bson::{DocBuf, Value, number};
use nagi_error::Code;

use crate::alerts::SILENCE_SECS_MAX;
use crate::answer::{Answer, bytes_answer, cookie_answer, json_answer};
use crate::asked::Asked;
use crate::figures::{self, FIGURES, Kind};
use crate::history::SPARSE_EVERY_MS;
use crate::latencies::{Ended, KINDS};
use crate::login;
use crate::machine::Reader;
use crate::open_metrics;
use crate::refusal::Refusal;
use crate::sample::{EVERY_MS, Moment, Sample};
use crate::sessions::{hex, token_of};
use crate::state::State;
use crate::watched;

/// The largest reply of a command as JSON, where one character may be six.
const JSON_BYTES_MAX: usize = 8 << 20;

pub(crate) type Run = fn(&State, &Asked) -> Result<Answer, Refusal>;

/// Method, path, function. The function runs on a thread of its own and may block.
pub(crate) static ROUTES: &[(Method, &str, Run)] = &[
    (Method::GET, "/api/session", session),
    (Method::POST, "/api/login", log_in),
    (Method::POST, "/api/logout", log_out),
    (Method::POST, "/api/command", command),
    (Method::GET, "/api/figures", figures),
    (Method::GET, "/api/latencies", latencies),
    (Method::GET, "/api/stalls", stalls),
    (Method::GET, "/api/slow", watched::slow),
    (Method::GET, "/api/events", watched::work),
    (Method::GET, "/api/disk", watched::disk),
    (Method::GET, "/api/growth", watched::growth),
    (Method::GET, "/api/doctor", watched::doctor),
    (Method::GET, "/api/alerts", alerts),
    (Method::POST, "/api/alerts/silence", silence),
    (Method::GET, "/metrics", metrics),
];

fn ok(text: String) -> Answer {
    json_answer(StatusCode::OK, text)
}

/// Who is logged in, and what one may know before: the versions are in every `hello`.
fn session(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    let session = state.session(asked).ok();
    let user = session.as_ref().and_then(|session| session.user());
    let status = DocBuf::build(|out| state.server.write_status(out));
    let status = status.as_doc();
    let may_know = user.is_some() || !state.server.requires_login();
    let body = DocBuf::build(|out| {
        out.put("authorization", state.server.requires_login());
        out.put("user", user.map_or(Value::Null, |(name, _)| Value::String(name)));
        out.put("db", user.map_or(Value::Null, |(_, db)| Value::String(db)));
        out.put("version", state.about.version.as_str());
        out.put("compatibleVersion", nagi_server::COMPATIBLE_VERSION);
        if !may_know {
            return;
        }
        out.put("host", status.get("host"));
        out.put("pid", i64::from(std::process::id()));
        let uptime_ms = nagi_bson::number::as_f64(status.get("uptimeMillis")).unwrap_or(0.0);
        out.put("startedMs", nagi_server::wall_ms() - uptime_ms as i64);
        out.put("storageEngine", state.about.storage_engine.as_str());
        let set = status.get("repl").as_doc().map_or(Value::Missing, |repl| repl.get("setName"));
        out.put("replicaSet", if set.is_missing() { Value::Null } else { set });
    });
    Ok(ok(json::to_relaxed(body.as_doc())))
}

fn log_in(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    let with = login::credentials(asked)?;
    let session = state.log_in(asked, &with, false)?;
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| Refusal::busy(error.to_string()))?;
    let text = hex(&random);
    state.sessions.add(token_of(&text), session);
    Ok(cookie_answer(&format!("{}={text}; HttpOnly; SameSite=Strict; Path=/", state.cookie)))
}

fn log_out(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    if let Some(text) = asked.cookie(&state.cookie) {
        state.sessions.remove(&token_of(text));
    }
    let cookie = format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", state.cookie);
    Ok(cookie_answer(&cookie))
}

fn command(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    let session = state.session(asked)?;
    let body = asked.json()?;
    let db = body.as_doc().get("db");
    let db = db.as_str().ok_or_else(|| Refusal::bad_request("The field 'db' must be a string"))?;
    let command = body.as_doc().get("command").as_doc();
    let command =
        command.ok_or_else(|| Refusal::bad_request("The field 'command' must be an object"))?;
    let reply = session.run_for(Some(&asked.client), &state.server, db, command)?;
    // An editor needs the types of numbers, which relaxed text does not tell.
    let canonical = body.as_doc().get("canonical").is_truthy();
    json::to_text_within(reply.as_doc(), canonical, JSON_BYTES_MAX).map(ok).ok_or_else(|| {
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Code::BSON_OBJECT_TOO_LARGE,
            "The reply is larger than 8 MiB as JSON: ask for fewer documents, or for fewer fields",
        )
    })
}

/// The session of a request, if its user may see the figures.
fn watcher(state: &State, asked: &Asked) -> Result<(), Refusal> {
    state.session(asked)?.may_watch(&state.server)
}

fn figures(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    watcher(state, asked)?;
    let sparse = match asked.query.as_str() {
        "" | "every=1000" => false,
        "every=15000" => true,
        _ => return Err(Refusal::bad_request("The parameter 'every' is 1000 or 15000")),
    };
    let text = JsonWriter::file(|out| {
        out.object(|out| {
            out.key("everyMs").literal(if sparse { SPARSE_EVERY_MS } else { EVERY_MS });
            out.key("figures").array(|out| {
                FIGURES.iter().for_each(|figure| {
                    out.object(|out| {
                        out.key("name").string(figure.name);
                        let kind = if figure.kind == Kind::Counter { "counter" } else { "gauge" };
                        out.key("kind").string(kind);
                        out.key("unit").string(figure.unit);
                        out.key("help").string(figure.help);
                    });
                })
            });
            out.key("samples").array(|out| {
                for sample in state.history.samples(sparse) {
                    out.array(|out| {
                        out.literal(sample.at_ms);
                        write_values(&sample, out);
                    });
                }
            });
        });
    });
    Ok(ok(text))
}

pub(crate) fn write_values(sample: &Sample, out: &mut JsonWriter<'_>) {
    for value in &sample.values {
        out.literal_or_null((!value.is_nan()).then_some(value));
    }
}

fn latencies(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    watcher(state, asked)?;
    let text = JsonWriter::file(|out| {
        out.object(|out| {
            out.key("boundsUs").array(|out| {
                nagi_server::LATENCY_BOUNDS_US.iter().for_each(|bound| out.literal(bound));
            });
            out.key("samples").array(|out| {
                for sample in state.history.samples(false) {
                    out.array(|out| {
                        out.literal(sample.at_ms);
                        write_ended(&sample.ended, out);
                    });
                }
            });
        });
    });
    Ok(ok(text))
}

/// The operations by kind, each as pairs of a bucket's number and a count.
pub(crate) fn write_ended(ended: &Ended, out: &mut JsonWriter<'_>) {
    out.object(|out| {
        for (kind, counts) in KINDS.iter().zip(&ended.0) {
            out.key(kind).array(|out| {
                for (bound, count) in counts {
                    let bucket = nagi_server::LATENCY_BOUNDS_US.binary_search(bound);
                    out.array(|out| {
                        out.literal(bucket.unwrap_or(0));
                        out.literal(count);
                    });
                }
            });
        }
    });
}

fn stalls(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    watcher(state, asked)?;
    let body = DocBuf::build(|out| {
        out.array("stalls", |list| {
            state.history.stalls().iter().for_each(|stall| list.doc(|out| stall.write(out)));
        });
    });
    Ok(ok(json::to_relaxed(body.as_doc())))
}

fn alerts(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    watcher(state, asked)?;
    let body = DocBuf::build(|out| {
        out.put("enabled", state.alerts.is_some());
        if let Some(watch) = &state.alerts {
            watch.write(Moment::now(), out);
        }
    });
    Ok(ok(json::to_relaxed(body.as_doc())))
}

fn silence(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    let session = state.session(asked)?;
    session.may_control(&state.server)?;
    let body = asked.json()?;
    let rule = body.as_doc().get("rule");
    let rule =
        rule.as_str().ok_or_else(|| Refusal::bad_request("The field 'rule' must be a string"))?;
    let secs = number::as_f64(body.as_doc().get("seconds")).filter(|n| n.fract() == 0.0);
    let secs = secs.filter(|secs| (0.0..=SILENCE_SECS_MAX as f64).contains(secs));
    let secs = secs.ok_or_else(|| {
        Refusal::bad_request(format!(
            "The field 'seconds' must be an integer from 0 to {SILENCE_SECS_MAX}"
        ))
    })? as i64;
    let now = Moment::now();
    let watch = state.alerts.as_ref().filter(|watch| watch.silence(rule, now, secs));
    let Some(watch) = watch else {
        let text = "There is no rule of this name";
        return Err(Refusal::new(StatusCode::NOT_FOUND, Code::NO_SUCH_KEY, text));
    };
    watch.keep_silences(now, |silences| state.server.keep_alert_silences(silences));
    let user = session.user().map_or(String::new(), |(name, db)| format!("{db}.{name}"));
    log::info!(target: "CONTROL", id = 8_200_364, alert = rule, seconds = secs, user = user; "Alert silenced");
    Ok(json_answer(StatusCode::OK, "{}".to_owned()))
}

fn metrics(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    state.scraper(asked)?.may_watch(&state.server)?;
    let open = asked
        .header(hyper::header::ACCEPT)
        .is_some_and(|kinds| kinds.contains("application/openmetrics-text"));
    let status = DocBuf::build(|out| state.server.write_status(out));
    let values = figures::read(status.as_doc(), &Reader::new().read());
    let alerts = state.alerts.as_ref().map_or_else(Vec::new, |watch| watch.known());
    let text = open_metrics::write(status.as_doc(), &values, &alerts, &state.about.version, open);
    Ok(bytes_answer(if open { open_metrics::OPEN } else { open_metrics::PLAIN }, text))
}
