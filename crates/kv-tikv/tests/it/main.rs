//! What needs no cluster: addresses at which there is none. The tests with one are in tests/cluster (`make tikv`).

use std::{net::TcpListener, time::Duration};

use nagi_kv_tikv::{Address, Options, open};

#[test]
fn a_cluster_that_does_not_answer_is_an_error() {
    let closed =
        TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    // Connections are accepted by the kernel, and nothing answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    for host in [closed, silent.local_addr().expect("an address")] {
        let address = Address::parse(&format!("tikv://{host}/p")).expect("an address");
        let options = Options {
            connect_timeout: Duration::from_millis(500),
            ..Options::new(address, "/nonexistent")
        };
        let Err(error) = open(&options) else { panic!("there is no cluster") };
        let text = error.to_string();
        assert!(
            text.contains(&format!("no placement driver of TiKV can be reached at {host}")),
            "{text}"
        );
    }
}
