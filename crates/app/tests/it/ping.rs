//! `nagi ping` against programs that answer too slowly, something else, or with harmful bytes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::time::{Duration, Instant};

use nagi::doc;

/// Runs `nagi ping` against a listener whose connections `answer` serves, and returns how long it took.
fn pinged(answer: fn(TcpStream) -> std::io::Result<()>) -> (Output, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The other side may have closed the connection.
            let _ = answer(stream);
        }
    });
    let uri = format!("mongodb://127.0.0.1:{port}");
    let began = Instant::now();
    let output = crate::process::ended(&["ping", "--timeoutSeconds", "1", "--uri", &uri]);
    (output, began.elapsed())
}

fn message(body: &[u8]) -> Vec<u8> {
    let mut bytes = (21 + body.len() as u32).to_le_bytes().to_vec();
    for number in [1, 1, 2013, 0_u32] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.push(0);
    bytes.extend(body);
    bytes
}

/// Each byte arrives within the time that is allowed between two of them; all together do not.
#[test]
fn a_server_that_answers_byte_by_byte_is_late() {
    let (output, took) = pinged(|mut stream| {
        for byte in message(doc! { "ok": 1.0, "text": ("x".repeat(4000).as_str()) }.as_bytes()) {
            stream.write_all(&[byte])?;
            std::thread::park_timeout(Duration::from_millis(100));
        }
        Ok(())
    });
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("has not answered in time"), "{text}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn what_is_no_server_of_ours_is_said() {
    let (output, _) = pinged(|mut stream| {
        stream.read_exact(&mut [0; 16])?;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    });
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("no server with MongoDB's protocol"), "{text}");
}

#[test]
fn an_error_of_the_server_does_not_control_the_terminal() {
    let (output, _) = pinged(|mut stream| {
        stream.read_exact(&mut [0; 16])?;
        let harmful = "\u{1b}]0;title\u{7}\u{1b}[2J".repeat(10_000);
        stream.write_all(&message(doc! { "ok": 0.0, "errmsg": (harmful.as_str()) }.as_bytes()))?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    });
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stderr.iter().any(|byte| matches!(byte, 0x1b | 7)), "escaped");
    assert!(output.stderr.len() < 10_000, "{}", output.stderr.len());
}

/// Other processes of the user, and root, can read the environment of a process as long as it runs.
#[cfg(target_os = "linux")]
#[test]
fn secrets_do_not_stay_in_the_environment() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("mongodb://u@{}", silent.local_addr().unwrap());
    let mut child = crate::process::nagi()
        .args(["ping", "--timeoutSeconds", "60", "--uri", &uri])
        .env("NAGI_PASSWORD", "planted-password")
        .env("NAGI_ENCRYPTION_KEY", "planted-key")
        .spawn()
        .unwrap();
    // It waits for a reply now.
    let _connection = silent.accept().unwrap();
    let shown = std::fs::read(format!("/proc/{}/environ", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = String::from_utf8_lossy(&shown);
    assert!(!shown.contains("planted"), "{shown}");
}
