//! The neighbour: a process that holds memory, sleeps, and reads all its pages on request.
//!
//! A request is one byte. The reply is two numbers of eight bytes: the number of pages with the expected
//! content, and the duration of the walk in microseconds. Each page that was evicted costs one major fault.
use crate::args::{Args, Outcome, Problem, failed};
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PAGE_BYTES: usize = 4096;
const MEGABYTES_MAX: usize = 1 << 20;
/// Read timeout: reading gigabytes that were swapped out to a slow disk takes long.
const SILENCE_MAX: Duration = Duration::from_secs(1800);

/// `nagi-bench neighbour --port N --megabytes N`: runs until it is killed.
pub(crate) fn serve(args: &Args) -> Outcome {
    let port: u16 = args.number("port", 0)?;
    let megabytes: usize = args.number_in("megabytes", 0, 1..=MEGABYTES_MAX)?;
    let memory = hold(megabytes << 20);
    // The port is opened only after the memory is touched: a client that waits for the port waits for the
    // memory.
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(failed("listening"))?;
    for stream in listener.incoming() {
        let stream = stream.map_err(failed("accepting"))?;
        // When a client disconnects, the next one is accepted.
        let _ = answer(stream, &memory);
    }
    Ok(())
}

fn answer(mut stream: TcpStream, memory: &[u8]) -> std::io::Result<()> {
    let mut request = [0];
    while stream.read(&mut request)? == 1 {
        let begin = Instant::now();
        let pages = walk(memory);
        let mut reply = [0; 16];
        reply[..8].copy_from_slice(&pages.to_le_bytes());
        reply[8..].copy_from_slice(&(begin.elapsed().as_micros() as u64).to_le_bytes());
        stream.write_all(&reply)?;
    }
    Ok(())
}

/// Allocates memory with distinct content in each page, so that each page is really resident.
fn hold(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    for (number, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
        page[..8].copy_from_slice(&mark(number));
    }
    black_box(memory)
}

/// Reads each page and returns the number of pages with the expected content.
fn walk(memory: &[u8]) -> u64 {
    let pages = black_box(memory).chunks_exact(PAGE_BYTES).enumerate();
    pages.filter(|(number, page)| page[..8] == mark(*number)).count() as u64
}

fn mark(number: usize) -> [u8; 8] {
    (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()
}

/// Makes the neighbour at this address read its memory, and returns the time it took.
pub(super) fn ask(address: &str, megabytes: u64) -> Outcome<Duration> {
    let doing = "asking the neighbour";
    let mut stream = TcpStream::connect(address).map_err(failed(doing))?;
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(failed(doing))?;
    stream.write_all(&[1]).map_err(failed(doing))?;
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).map_err(failed(doing))?;
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&reply[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let wanted = (megabytes << 20) / PAGE_BYTES as u64;
    match number(0) == wanted {
        true => Ok(Duration::from_micros(number(8))),
        false => Err(Problem::Failed(format!(
            "the neighbour has {} of its {wanted} pages as they were",
            number(0)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_changed_are_missed() {
        let mut memory = hold(3 << 20);
        assert_eq!(walk(&memory), 768);
        memory[PAGE_BYTES * 5] ^= 1;
        assert_eq!(walk(&memory), 767);
    }

    #[test]
    fn a_walk_is_answered_over_the_socket() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let memory = hold(1 << 20);
            for stream in listener.incoming().take(2) {
                answer(stream.unwrap(), &memory).unwrap();
            }
        });
        assert!(ask(&address, 1).is_ok());
        assert!(ask(&address, 2).is_err());
        server.join().unwrap();
    }
}
