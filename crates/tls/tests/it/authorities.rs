//! What a certificate of an authority allows: OpenSSL's rules, which mongod has.

use nagi_server::TransportSecurity;
use nagi_tls::{Tls, TlsOptions};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

use crate::pki::{Authority, client, connect, folder, options, shake, write};

/// The reason why a client is refused; empty if it is not.
fn refusal(options: TlsOptions, trusted: &Authority, pem: &str) -> String {
    let tls = Tls::open(options).unwrap();
    let client = client(trusted, Some(pem));
    shake(&tls, &mut connect(&client), 5000).map_or_else(|reason| reason, |_| String::new())
}

#[test]
fn authorities_that_may_not_sign() {
    let (folder, server) = (folder("may-not-sign"), Authority::new("server's"));
    let expired = Authority::with("expired", |params| params.not_after = date_time_ymd(2020, 1, 1));
    let future = Authority::with("future", |params| params.not_before = date_time_ymd(2900, 1, 1));
    let no_authority = Authority::with("none", |params| params.is_ca = IsCa::ExplicitNoCa);
    let other_usage = Authority::with("usage", |params| {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    });
    for (authority, reason) in [
        (&server, ""),
        (&expired, "certificate has expired"),
        (&future, "certificate is not yet valid"),
        (&no_authority, "invalid CA certificate"),
        (&other_usage, "invalid CA certificate"),
    ] {
        let pem = authority.sign("alice", "Clients", |_| {});
        let options = TlsOptions {
            ca_file: Some(write(&folder.0, "trusted.pem", &authority.pem)),
            ..options(&folder.0, &server)
        };
        let found = refusal(options, &server, &pem);
        assert!(found.ends_with(reason) && found.is_empty() == reason.is_empty(), "{found}");
    }
}

#[test]
fn the_number_of_authorities_below_another() {
    let folder = folder("below");
    let limited = |count| {
        move |params: &mut CertificateParams| {
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(count));
        }
    };
    let chain = |first: &Authority, count: u8| {
        let second = first.below("second", |_| {});
        let third = second.below("third", limited(0));
        match count {
            1 => second.sign("alice", "Clients", |_| {}) + &second.pem,
            _ => third.sign("alice", "Clients", |_| {}) + &third.pem + &second.pem,
        }
    };
    for (most, count, reason) in [
        (0, 1, "path length constraint exceeded"),
        (1, 1, ""),
        (1, 2, "path length constraint exceeded"),
        (2, 2, ""),
    ] {
        let first = Authority::with("first", limited(most));
        let found = refusal(options(&folder.0, &first), &first, &chain(&first, count));
        assert!(found.ends_with(reason) && found.is_empty() == reason.is_empty(), "{found}");
    }
    // One that may not sign, in the middle.
    let first = Authority::new("first");
    let middle = first.below("second", |params| {
        params.key_usages = vec![KeyUsagePurpose::CrlSign];
    });
    let pem = middle.sign("alice", "Clients", |_| {}) + &middle.pem;
    let found = refusal(options(&folder.0, &first), &first, &pem);
    assert!(found.ends_with("invalid CA certificate"), "{found}");
}

/// The same key and name, first expired and then renewed, in one file.
#[test]
fn a_renewed_authority() {
    let folder = folder("renewed");
    let expired = Authority::with("one", |params| params.not_after = date_time_ymd(2020, 1, 1));
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "one");
    let renewed = params.self_signed(expired.issuer.key()).unwrap().pem();
    let server = Authority::new("server's");
    let pem = expired.sign("alice", "Clients", |_| {});
    for (file, warns) in [
        (expired.pem.clone() + &renewed, true),
        (renewed.clone() + &expired.pem, true),
        (renewed, false),
    ] {
        let options = TlsOptions {
            ca_file: Some(write(&folder.0, "trusted.pem", &file)),
            ..options(&folder.0, &server)
        };
        let tls = Tls::open(options.clone()).unwrap();
        let warned = tls.warnings().iter().any(|text| text.contains("has expired"));
        assert_eq!(warned, warns, "{:?}", tls.warnings());
        assert_eq!(refusal(options, &server, &pem), "");
    }
}

/// A certificate that is in the file of authorities is trusted without another's signature.
#[test]
fn a_certificate_that_signs_itself() {
    let (folder, server) = (folder("itself"), Authority::new("server's"));
    let own = |change: fn(&mut CertificateParams)| {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "itself");
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    for (change, reason) in [
        ((|_| {}) as fn(&mut CertificateParams), ""),
        (|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained), ""),
        (|params| params.not_after = date_time_ymd(2020, 1, 1), "certificate has expired"),
        (
            |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth],
            "unsuitable certificate purpose",
        ),
        (
            |params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign],
            "unsuitable certificate purpose",
        ),
    ] {
        let (certificate, key) = own(change);
        let options = TlsOptions {
            ca_file: Some(write(&folder.0, "trusted.pem", &certificate)),
            ..options(&folder.0, &server)
        };
        let found = refusal(options, &server, &(certificate.clone() + &key));
        assert!(found.ends_with(reason) && found.is_empty() == reason.is_empty(), "{found}");
        // Another one with the same name.
        let (other, key) = own(change);
        let options = TlsOptions {
            ca_file: Some(write(&folder.0, "trusted.pem", &certificate)),
            ..crate::pki::options(&folder.0, &server)
        };
        assert_ne!(refusal(options, &server, &(other + &key)), "");
    }
}

#[test]
fn members_while_their_certificates_change() {
    let (folder, authority) = (folder("members"), Authority::new("authority"));
    let with = |name: &str| TlsOptions {
        member_override: Some(name.to_owned()),
        ..options(&folder.0, &authority)
    };
    let tls = Tls::open(with("CN=any,OU=New,O=Nagi")).unwrap();
    assert!(tls.is_member("CN=a,OU=Servers,O=Nagi") && tls.is_member("CN=a,OU=New,O=Nagi"));
    assert!(!tls.is_member("CN=a,OU=Other,O=Nagi") && !tls.is_member(""));
    for bad in ["CN=only", "no name"] {
        let error = Tls::open(with(bad)).err().unwrap();
        assert!(error.contains("Unable to parse tlsX509ClusterAuthDNOverride"), "{error}");
    }
}

/// Opening a pipe without a writer would wait for one.
#[test]
fn files_that_are_none() {
    let (folder, authority) = (folder("pipe"), Authority::new("authority"));
    let tls = Tls::open(options(&folder.0, &authority)).unwrap();
    let path = folder.0.join("server.pem");
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(tls.rotate().unwrap_err().contains("it is not a file"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(tls.rotate().unwrap_err().contains("it is not a file"));
    let alice = authority.sign("alice", "Clients", |_| {});
    shake(&tls, &mut connect(&client(&authority, Some(&alice))), 5000).unwrap();
}
