//! `nagi-bench tls`: what TLS costs a point read, beside what it costs a bare echo.
//!
//! In each round an echo, an echo behind rustls, and one server over plain and over encrypted connections run one after
//! the other, with the same clients and frames of the same sizes. The round with the median rate is reported.
use crate::args::{Args, Outcome, failed, self_program};
use crate::client::Connection;
use crate::limit::{DATABASE, Sizes, echoed, fill, median, reader};
use crate::load;
use crate::process::{Scratch, Server};
use crate::report::{self, Row};
use nagi_bson::doc;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const BASELINE: &str = "echo tls";
const NAMES: [&str; 4] = ["echo", BASELINE, "nagi", "nagi tls"];

/// What of the TLS echo a point read over TLS is to reach.
const GOAL: f64 = 85.0;

pub(crate) fn run(args: &Args) -> Outcome {
    let documents: i64 = args.number_in("documents", 100_000, 1..=1_000_000_000)?;
    let connections: Vec<usize> = args.numbers_in("connections", "1,16", 1..=10_000)?;
    let rounds: usize = args.number_in("rounds", 3, 1..=100)?;
    let time = Duration::from_secs_f64(args.number_in("seconds", 5.0, 0.05..=3600.0)?);
    let scratch = Scratch::new(args)?;
    let (file, client) = certificate(&scratch.path)?;
    let file_text = file.to_string_lossy();
    let options = ["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", &file_text];
    let nagi = Server::nagi_with(&args.nagi()?, &scratch.path.join("nagi"), &options)?;
    fill(&nagi.address, documents)?;
    let sizes = Sizes::measure(&nagi.address)?.read;
    let program = self_program()?;
    let mut rows = Vec::new();
    for &connections in &connections {
        let mut seen = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            let plain = Server::echo(&program, "threads", sizes.1)?;
            let tls = Server::echo_tls(&program, &file, sizes.1)?;
            for (index, (server, is_tls)) in
                [(&plain, false), (&tls, true), (&nagi, false), (&nagi, true)]
                    .into_iter()
                    .enumerate()
            {
                let senders = match index {
                    0 | 1 => echoed(sizes, connections),
                    _ => (0..connections).map(|n| reader(n as u64, documents, sizes.1)).collect(),
                };
                let open = || match is_tls {
                    true => Connection::open_tls(&server.address, &client),
                    false => Connection::open(&server.address),
                };
                seen[index].push(load::run_on(&open, senders, time, &|| Some(server.cpu_us()))?);
            }
        }
        for (name, runs) in NAMES.into_iter().zip(seen) {
            let server = name.to_owned();
            rows.push(Row { server, operation: "read", connections, measured: median(runs) });
        }
    }
    report::say(&report::table(&rows, BASELINE));
    for row in rows.iter().filter(|row| row.server == "nagi tls") {
        let of_echo = report::ratio(&rows, row, BASELINE).unwrap_or_default() * 100.0;
        let of_plain = report::ratio(&rows, row, "nagi").unwrap_or_default() * 100.0;
        report::say(&format!(
            "tls: with {} connections a read over TLS reaches {of_echo:.0} % of the echo over TLS (goal {GOAL:.0}), \
             and {of_plain:.0} % of a plain read\n",
            row.connections
        ));
    }
    let mut last = Connection::open(&nagi.address)?;
    last.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
    match args.text("json") {
        Some(path) => report::write_json(path, &rows, BASELINE),
        None => Ok(()),
    }
}

/// Makes a certificate with its key, and the configuration of clients that trust it.
fn certificate(folder: &Path) -> Outcome<(PathBuf, Arc<ClientConfig>)> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
        .map_err(failed("making a certificate"))?;
    let file = folder.join("tls.pem");
    fs::create_dir_all(folder).map_err(failed("creating the directory"))?;
    let text = made.cert.pem() + &made.signing_key.serialize_pem();
    fs::write(&file, text).map_err(failed("writing the certificate"))?;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).map_err(failed("trusting the certificate"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed("TLS"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((file, Arc::new(config)))
}

/// The configuration of a server with the certificate and key of a file.
pub(crate) fn server_config(file: &Path) -> Outcome<Arc<ServerConfig>> {
    let text = fs::read(file).map_err(failed("reading the certificate"))?;
    let certificate = CertificateDer::from_pem_slice(&text).map_err(failed("the certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(failed("the key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed("TLS"))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(failed("TLS"))?;
    Ok(Arc::new(config))
}
