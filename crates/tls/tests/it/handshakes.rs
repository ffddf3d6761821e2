//! Good and refused handshakes, and what the server learns of the client.

use nagi_server::TransportSecurity;
use nagi_tls::{Tls, TlsOptions};
use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::HandshakeKind;

use crate::pki::{Authority, client, connect, echo, folder, options, role, shake, write};

#[test]
fn the_subject_and_the_roles_of_a_client() {
    let (folder, authority) = (folder("subject"), Authority::new("authority"));
    let tls = Tls::open(options(&folder.0, &authority)).unwrap();
    let alice = authority.sign("alice", "Clients", |_| {});
    for piece in [1, 7, 100_000] {
        let mut client = connect(&client(&authority, Some(&alice)));
        let (mut session, peer) = shake(&tls, &mut client, piece).unwrap();
        let certificate = peer.certificate.unwrap();
        assert_eq!(
            (peer.version, certificate.subject.as_str()),
            ("1.3", "CN=alice,OU=Clients,O=Nagi")
        );
        assert_eq!(certificate.roles, None);
        for length in [1, 1000, 16_000] {
            echo(&mut session, &mut client, &vec![7; length]);
        }
    }
    let with_role = authority.sign("bob", "Clients", |params| {
        params.custom_extensions.push(role("readWrite", "shop"));
    });
    let (_, peer) = shake(&tls, &mut connect(&client(&authority, Some(&with_role))), 5000).unwrap();
    assert_eq!(
        peer.certificate.unwrap().roles,
        Some(vec![("readWrite".to_owned(), "shop".to_owned())])
    );
    assert_eq!(tls.accepted_counts(), [0, 4]);
    assert!(
        tls.is_member("CN=other,OU=Servers,O=Nagi") && !tls.is_member("CN=alice,OU=Clients,O=Nagi")
    );
    assert_eq!(tls.own_certificate().subject, "CN=server,OU=Servers,O=Nagi");
}

/// Each refusal has the reason that MongoDB logs.
#[test]
fn refused_certificates() {
    let (folder, authority) = (folder("refused"), Authority::new("authority"));
    let stranger = Authority::new("stranger").sign("alice", "Clients", |_| {});
    let expired =
        authority.sign("alice", "Clients", |params| params.not_after = date_time_ymd(2020, 1, 1));
    let future =
        authority.sign("alice", "Clients", |params| params.not_before = date_time_ymd(2900, 1, 1));
    let revoked = authority.sign("alice", "Clients", |params| {
        params.serial_number = Some(SerialNumber::from(77_u64));
    });
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
    let list = list.signed_by(&authority.issuer).unwrap().pem().unwrap();
    let strict = TlsOptions {
        crl_file: Some(write(&folder.0, "crl.pem", &list)),
        ..options(&folder.0, &authority)
    };
    let tls = Tls::open(strict.clone()).unwrap();
    let lenient =
        Tls::open(TlsOptions { allow_invalid_certificates: true, ..strict.clone() }).unwrap();
    let optional =
        Tls::open(TlsOptions { allow_connections_without_certificates: true, ..strict }).unwrap();
    for (pem, reason) in [
        (Some(&stranger), "unable to get local issuer certificate"),
        (Some(&expired), "certificate has expired"),
        (Some(&future), "certificate is not yet valid"),
        (Some(&revoked), "certificate revoked"),
        (None, "no SSL certificate provided by peer; connection rejected"),
    ] {
        let config = client(&authority, pem.map(|pem| pem.as_str()));
        let refused = shake(&tls, &mut connect(&config), 5000).map(|(_, peer)| peer);
        assert!(refused.as_ref().is_err_and(|text| text.ends_with(reason)), "{refused:?}");
        let accepted = match pem {
            Some(_) => &lenient,
            None => &optional,
        };
        let (_, peer) = shake(accepted, &mut connect(&config), 5000).unwrap();
        assert!(peer.certificate.is_none(), "an invalid certificate proves nothing");
    }
}

#[test]
fn sessions_are_resumed_until_the_files_are_read_again() {
    let (folder, authority) = (folder("resumed"), Authority::new("authority"));
    let tls = Tls::open(options(&folder.0, &authority)).unwrap();
    let alice = authority.sign("alice", "Clients", |_| {});
    let config = client(&authority, Some(&alice));
    let mut kinds = Vec::new();
    for round in 0..4 {
        if round == 2 {
            tls.rotate().unwrap();
        }
        let mut client = connect(&config);
        let (mut session, peer) = shake(&tls, &mut client, 5000).unwrap();
        echo(&mut session, &mut client, b"x");
        assert!(peer.certificate.is_some_and(|found| found.subject.starts_with("CN=alice")));
        kinds.push(client.handshake_kind().unwrap());
    }
    assert_eq!(
        kinds,
        [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Full, HandshakeKind::Resumed]
    );
}

#[test]
fn broken_files_change_nothing() {
    let (folder, authority) = (folder("broken"), Authority::new("authority"));
    let tls = Tls::open(options(&folder.0, &authority)).unwrap();
    let alice = authority.sign("alice", "Clients", |_| {});
    let key_of_another = authority.sign("server", "Servers", |_| {});
    let certificate = std::fs::read_to_string(folder.0.join("server.pem")).unwrap();
    let mixed = certificate.split("-----BEGIN PRIVATE").next().unwrap().to_owned()
        + &key_of_another[key_of_another.find("-----BEGIN PRIVATE").unwrap()..];
    for (text, reason) in [
        ("", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "cannot be read"),
        (&certificate[..certificate.len() / 2], "no end"),
        (&mixed, "does not fit"),
    ] {
        write(&folder.0, "server.pem", text);
        let error = tls.rotate().unwrap_err();
        assert!(error.contains(reason) && error.contains("server.pem"), "{error}");
        shake(&tls, &mut connect(&client(&authority, Some(&alice))), 5000).unwrap();
    }
    // What people have instead of a PEM file in the right order.
    let wrong_order = authority.pem.clone() + &certificate;
    let of = |time: fn(&mut rcgen::CertificateParams)| authority.sign("server", "Servers", time);
    let past = of(|params| params.not_after = date_time_ymd(2020, 1, 1));
    let future = of(|params| params.not_before = date_time_ymd(2100, 1, 1));
    for (bytes, reason) in [
        (wrong_order.as_bytes(), "fits certificate 2 of the file: put that one first"),
        (&[0x30, 0x82, 1, 0xff][..], "it is DER, PEM is needed"),
        (&[0xff, 0xfe, 0x2d, 0][..], "it is not PEM"),
        (past.as_bytes(), "or not yet valid. It has expired on 2020-01-01T00:00:00Z"),
        (future.as_bytes(), "or not yet valid. It is valid from 2100-01-01T00:00:00Z"),
    ] {
        std::fs::write(folder.0.join("server.pem"), bytes).unwrap();
        let error = tls.rotate().unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
    write(&folder.0, "server.pem", &format!("\u{feff}{certificate}"));
    tls.rotate().unwrap();
    write(&folder.0, "server.pem", &certificate);
    tls.rotate().unwrap();
}
