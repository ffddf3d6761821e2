//! Files of certificates, keys and revocation lists: text of any kind, and good files with changes in the text or in what
//! the base64 stands for. A file is accepted or refused with a reason; nothing is half used.
#![no_main]

mod edits;
mod growth;

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nagi_server::{TlsMode, TransportSecurity};
use nagi_tls::{Tls, TlsOptions};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

/// The good files: certificate with key, authorities, revocation list.
struct World {
    folder: PathBuf,
    good: [String; 3],
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().expect("a key");
    let authority = params.self_signed(&key).expect("an authority").pem();
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    // MongoDB's extension with the role `read` of the database `a`.
    let roles = b"\x31\x0b\x30\x09\x0c\x04read\x0c\x01a".to_vec();
    let extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 34601, 2, 1, 1], roles);
    params.custom_extensions.push(extension);
    let key = KeyPair::generate().expect("a key");
    let own = params.signed_by(&key, &issuer).expect("a certificate").pem() + &key.serialize_pem();
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2900, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(77_u64),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&issuer).expect("a list").pem().expect("a list");
    let folder = PathBuf::from(format!("/dev/shm/nagi-fuzz-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    World { folder, good: [own, authority, list] }
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, input)) = data.split_first() else { return };
    let which = usize::from(kind >> 2) % 3;
    let changed = match kind & 3 {
        0 => input.to_vec(),
        1 => {
            let mut text = WORLD.good[which].clone().into_bytes();
            edits::apply(input, &mut text);
            text
        }
        // The sections of the file, one of them with changes.
        way => with_changed_section(&WORLD.good[which], usize::from(way - 2), input).into_bytes(),
    };
    let write = |name: &str, place: usize| {
        let path = WORLD.folder.join(name);
        let text = if place == which { &changed[..] } else { WORLD.good[place].as_bytes() };
        std::fs::write(&path, text).expect("a file");
        Some(path)
    };
    let options = TlsOptions {
        certificate_key_file: write("own.pem", 0),
        certificate_key_password: (kind & 64 != 0).then(|| "p".to_owned().into()),
        ca_file: write("ca.pem", 1),
        crl_file: write("crl.pem", 2),
        ..TlsOptions::new(TlsMode::Require)
    };
    match Tls::open(options) {
        Ok(tls) => {
            let own = tls.own_certificate();
            assert!(
                tls.is_member(&own.subject)
                    || own.subject.is_empty()
                    || !own.subject.contains("O=")
            );
            assert!(tls.accept().is_ok());
        }
        Err(reason) => assert!(!reason.is_empty() && reason.len() < 4096, "{}", reason.len()),
    }
    growth::check();
});

/// The text with edits in the bytes of a section.
fn with_changed_section(text: &str, number: usize, input: &[u8]) -> String {
    let mut out = String::new();
    for (at, section) in text.split_inclusive("-----END").enumerate() {
        // Each part is the base64 of a section between its lines.
        let Some(begin) = section.rfind("-----\n").filter(|_| at == number) else {
            out.push_str(section);
            continue;
        };
        let (head, rest) = section.split_at(begin + 6);
        let base64: String = rest.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        let base64 = base64.strip_suffix("END").unwrap_or(&base64);
        let mut bytes = nagi_bson::json::base64_decode(base64).unwrap_or_default();
        edits::apply(input, &mut bytes);
        out.push_str(head);
        nagi_bson::json::base64_encode(&mut out, &bytes);
        out.push_str("\n-----END");
    }
    out
}
