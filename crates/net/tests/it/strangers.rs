//! Peers that do not speak the protocol, or stop in the middle of a message.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::harness::{is_closed, ping, reply, start};

#[test]
fn bytes_that_are_no_protocol_close_the_connection() {
    let running = start("bytes", 10, |_| ());
    let mut too_long = vec![0; 16];
    too_long[..4].copy_from_slice(&48_000_001_i32.to_le_bytes());
    let mut unknown = ping(1);
    unknown[12..16].copy_from_slice(&4711_i32.to_le_bytes());
    for bytes in [too_long, unknown, vec![0; 64]] {
        let mut stream = running.connect();
        stream.write_all(&bytes).unwrap();
        assert!(is_closed(&mut stream));
    }
    let mut good = running.connect();
    good.write_all(&ping(3)).unwrap();
    assert_eq!(reply(&mut good), (3, 1.0));
    running.stop();
}

/// The reply comes long before any timeout, in the client's own protocol, whatever the length of the handshake looks
/// like.
#[test]
fn clients_of_other_protocols_are_answered_at_once() {
    let running = start("other", 10, |_| ());
    let hello = |len: u16| {
        let [high, low] = len.to_be_bytes();
        let [inner_high, inner_low] = (len - 4).to_be_bytes();
        let mut bytes = vec![0x16, 3, 1, high, low, 1, 0, inner_high, inner_low, 3, 3];
        bytes.resize(5 + usize::from(len), 7);
        bytes
    };
    let alert = vec![0x15, 3, 1, 0, 2, 2, 40];
    let text =
        "It looks like you are trying to access MongoDB over HTTP on the native driver port.";
    let large = format!("POST /x HTTP/1.1\r\nHost: x\r\nCookie: {}\r\n\r\n", "c".repeat(20_000));
    let mut cases = vec![(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), None)];
    cases.push((large.into_bytes(), None));
    cases.extend([100, 517, 700, 1800].map(|len| (hello(len), Some(alert.clone()))));
    for (request, reply) in cases {
        let began = Instant::now();
        let mut stream = running.connect();
        stream.write_all(&request).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        assert!(began.elapsed() < Duration::from_secs(10));
        match reply {
            Some(reply) => assert_eq!(said, reply),
            None => {
                let said = String::from_utf8(said).unwrap();
                let (head, body) = said.split_once("\r\n\r\n").unwrap();
                assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
                assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
                assert_eq!(body.trim_end(), text);
            }
        }
    }
    running.stop();
}

#[test]
fn half_a_frame_is_not_waited_for_for_ever() {
    let running = start("half", 10, |net| net.frame_gap_max = Duration::from_millis(50));
    for len in [1, 15, 16, 40] {
        let mut stream = running.connect();
        stream.write_all(&ping(1)[..len]).unwrap();
        assert!(is_closed(&mut stream), "{len}");
    }
    running.stop();
}

#[test]
fn the_first_bytes_have_the_time_of_a_handshake() {
    let running = start("first", 10, |net| net.handshake_time_max = Duration::from_millis(50));
    for bytes in [&[0x16][..], &ping(1)[..15]] {
        let (began, mut stream) = (Instant::now(), running.connect());
        stream.write_all(bytes).unwrap();
        assert!(is_closed(&mut stream) && began.elapsed() < Duration::from_secs(20));
    }
    // A connection that is known may pause longer.
    let mut stream = running.connect();
    stream.write_all(&ping(1)).unwrap();
    assert_eq!(reply(&mut stream), (1, 1.0));
    stream.write_all(&ping(2)[..10]).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(stream.read(&mut [0; 1]).is_err());
    stream.write_all(&ping(2)[10..]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(reply(&mut stream), (2, 1.0));
    running.stop();
}

#[test]
fn a_frame_that_drips_ends_too() {
    let running = start("drip", 10, |net| {
        net.frame_gap_max = Duration::from_secs(20);
        net.frame_time_max = Duration::from_millis(50);
        net.idle_after = Duration::from_millis(10);
    });
    let mut stream = running.connect();
    stream.set_nodelay(true).unwrap();
    let mut big = ping(1);
    big[..4].copy_from_slice(&40_000_000_i32.to_le_bytes());
    let closed = big.iter().cycle().take(5_000_000).any(|byte| stream.write_all(&[*byte]).is_err());
    assert!(closed);
    running.stop();
}

#[test]
fn replies_that_nobody_takes_end_the_connection() {
    let running = start("deaf", 10, |net| net.write_gap_max = Duration::from_millis(50));
    let mut stream = running.connect();
    let many: Vec<u8> = (0..1000).flat_map(ping).collect();
    let closed = (0..10_000).any(|_| stream.write_all(&many).is_err());
    assert!(closed);
    running.stop();
}
