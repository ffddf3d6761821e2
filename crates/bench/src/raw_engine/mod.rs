//! `nagi-bench raw-engine`: serves the storage engine with almost nothing in front of it.
//!
//! `nagi-bench stall` compares the server with it. Each frame that arrives is stored unchanged, with an index
//! key and a counter, in one commit; the reply is always the same. So the same client measures the speed of the
//! engine without the cost of protocol, language, catalog and sessions.
//!
//! With `--mode queries` it is the limit for `nagi-bench query`: see [`queries`].

mod queries;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nagi_bson::{Doc, DocBuf, doc};
use nagi_kv::{Durability, Engine, Space, TxnOptions};

use crate::args::{Args, Outcome, Problem, failed};

const FRAME_BYTES_MAX: usize = 48 << 20;
/// Length of the header, the flags and the kind of the section before the body of an OP_MSG.
const BEFORE_BODY: usize = 21;

/// Computes the reply to the bytes of a frame after its header.
type Answer = dyn Fn(&[u8]) -> Result<DocBuf, String> + Send + Sync;

/// Serves until it is killed.
pub(crate) fn run(args: &Args) -> Outcome {
    let need = |name: &str| Problem::Usage(format!("`--{name}` is missing\n"));
    let dir = args.text("dbpath").ok_or_else(|| need("dbpath"))?;
    let port: u16 = args.number("port", 0)?;
    if port == 0 {
        return Err(need("port"));
    }
    let mut options = nagi_kv_rocks::Options::default();
    if args.text("cache-megabytes").is_some() {
        options.cache_bytes = args.number_in("cache-megabytes", 0_u64, 1..=1 << 24)? << 20;
    }
    let engine: Arc<dyn Engine> =
        nagi_kv_rocks::open(Path::new(dir), &options).map_err(failed("opening the engine"))?;
    let answer: Arc<Answer> = match args.text("mode") {
        Some("queries") => {
            let queries = queries::Queries::new(engine);
            Arc::new(move |frame| {
                let body = Doc::parse(frame.get(BEFORE_BODY - 16..).unwrap_or(&[]));
                queries.answer(body.map_err(|error| error.to_string())?)
            })
        }
        Some(other) => return Err(Problem::Usage(format!("there is no mode `{other}`\n"))),
        None => {
            let next = AtomicU64::new(1);
            Arc::new(move |frame| {
                store(&*engine, next.fetch_add(1, Ordering::Relaxed), frame)
                    .map_err(|error| error.to_string())?;
                Ok(doc! { "n": 1, "ok": 1.0 })
            })
        }
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(failed("listening"))?;
    for stream in listener.incoming() {
        let stream = stream.map_err(failed("accepting a connection"))?;
        let answer = Arc::clone(&answer);
        std::thread::spawn(move || {
            // When a client disconnects, its thread finishes.
            let _ = converse(stream, &*answer);
        });
    }
    Ok(())
}

fn converse(mut stream: TcpStream, answer: &Answer) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reply = vec![0; BEFORE_BODY];
    reply[12..16].copy_from_slice(&2013_u32.to_le_bytes());
    let mut frame = Vec::new();
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header)?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if !(BEFORE_BODY..=FRAME_BYTES_MAX).contains(&length) {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        frame.resize(length - header.len(), 0);
        stream.read_exact(&mut frame)?;
        let body = answer(&frame).map_err(std::io::Error::other)?;
        reply.truncate(BEFORE_BODY);
        reply.extend_from_slice(body.as_bytes());
        let length = reply.len() as u32;
        reply[..4].copy_from_slice(&length.to_le_bytes());
        reply[8..12].copy_from_slice(&header[4..8]);
        stream.write_all(&reply)?;
    }
}

fn store(engine: &dyn Engine, number: u64, value: &[u8]) -> nagi_kv::Result<()> {
    let mut key = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    key[4..].copy_from_slice(&number.to_be_bytes());
    let mut txn = engine.begin(TxnOptions::default())?;
    txn.put(Space::Records, &key, value)?;
    txn.put(Space::Index, &key, &number.to_be_bytes())?;
    txn.add(Space::Counters, &key[..4], &[1, value.len() as i64])?;
    txn.commit(Durability::Buffered).map(drop)
}
