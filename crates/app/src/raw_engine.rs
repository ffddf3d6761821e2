//! `nagi bench raw-engine`: the storage engine with next to nothing in front of it.
//!
//! What `nagi bench stall` compares the server with: each frame that comes in is stored as it is,
//! with an index key and a counter, in one commit; the answer is always the same. So the same client
//! shows what the engine could do if protocol, language, catalog and sessions cost nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nagi_bson::doc;
use nagi_kv::{Durability, Engine, Space, TxnOptions};

use crate::say;

const FRAME_BYTES_MAX: usize = 48 << 20;
/// Header, flags and the kind of the section that follow in an OP_MSG before its body.
const BEFORE_BODY: usize = 21;

/// Serves until it is ended. Arguments: `--dbpath DIR --port N`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("raw-engine: {error}"));
            ExitCode::from(1)
        }
    }
}

fn serve(args: &[String]) -> Result<(), String> {
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)
    };
    let dir = value("--dbpath").ok_or("--dbpath is missing")?;
    let port: u16 = value("--port").and_then(|p| p.parse().ok()).ok_or("--port is missing")?;
    let engine = nagi_kv_rocks::open(Path::new(dir), &nagi_kv_rocks::Options::default())
        .map_err(|error| error.to_string())?;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    let next = Arc::new(AtomicU64::new(1));
    for stream in listener.incoming() {
        let stream = stream.map_err(|error| error.to_string())?;
        let (engine, next) = (Arc::clone(&engine), Arc::clone(&next));
        std::thread::spawn(move || {
            // A client that goes away ends its thread.
            if let Err(error) = answer(stream, &*engine, &next) {
                log::debug!(target: "NETWORK", id = 8_200_040, error:% = error; "Connection ended");
            }
        });
    }
    Ok(())
}

fn answer(mut stream: TcpStream, engine: &dyn Engine, next: &AtomicU64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let body = doc! { "n": 1, "ok": 1.0 };
    let mut reply = vec![0; BEFORE_BODY];
    reply.extend_from_slice(body.as_doc().as_bytes());
    let length = reply.len() as u32;
    reply[..4].copy_from_slice(&length.to_le_bytes());
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
        store(engine, next.fetch_add(1, Ordering::Relaxed), &frame)
            .map_err(|error| std::io::Error::other(error.to_string()))?;
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
