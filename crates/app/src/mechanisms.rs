//! Logins whose configuration does not fit: passwords and tokens that others can read, and mechanisms by which no
//! client can log in.

use nagi_server::TlsMode;

use crate::door::{Door, is_loopback, is_on};
use crate::options::{KeyPlace, KeySource, Options};

/// A combination of options that is a mistake.
struct Row {
    id: i64,
    text: &'static str,
    place: &'static str,
    fix: &'static str,
    applies: fn(&Options) -> bool,
}

const MECHANISMS: &str = "authenticationMechanisms";

#[rustfmt::skip]
static ROWS: &[Row] = &[
    Row {
        id: 8_200_221,
        text: "Passwords of PLAIN logins can be read on connections without TLS",
        place: MECHANISMS,
        fix: "--tlsMode requireTLS",
        applies: |o| enables(o, "PLAIN") && o.ldap.is_some() && !requires_tls(o),
    },
    Row {
        id: 8_200_224,
        text: "The mechanism PLAIN is enabled, but no LDAP server checks its passwords: these logins fail",
        place: MECHANISMS,
        fix: "set security.ldap.servers, or remove PLAIN",
        applies: |o| enables(o, "PLAIN") && o.ldap.is_none(),
    },
    Row {
        id: 8_200_280,
        text: "There are LDAP servers, but the mechanism PLAIN is not enabled: their users cannot log in",
        place: "security.ldap.servers",
        fix: "add PLAIN to authenticationMechanisms",
        applies: |o| o.ldap.is_some() && !enables(o, "PLAIN") && !enables(o, "MONGODB-X509"),
    },
    Row {
        id: 8_200_281,
        text: "There are identity providers, but the mechanism MONGODB-OIDC is not enabled: their users cannot log in",
        place: "oidcIdentityProviders",
        fix: "add MONGODB-OIDC to authenticationMechanisms",
        applies: |o| has_providers(o) && !enables(o, "MONGODB-OIDC"),
    },
    Row {
        id: 8_200_282,
        text: "The mechanism MONGODB-OIDC is enabled, but there are no identity providers: these logins fail",
        place: MECHANISMS,
        fix: "set oidcIdentityProviders, or remove MONGODB-OIDC",
        applies: |o| enables(o, "MONGODB-OIDC") && !has_providers(o),
    },
    Row {
        id: 8_200_283,
        text: "Tokens of MONGODB-OIDC logins can be read on connections without TLS, and used until they expire",
        place: MECHANISMS,
        fix: "--tlsMode requireTLS",
        applies: |o| enables(o, "MONGODB-OIDC") && has_providers(o) && !requires_tls(o),
    },
    Row {
        id: 8_200_284,
        text: "Users log in by certificates only, and there is no TLS: all logins fail",
        place: MECHANISMS,
        fix: "set --tlsMode, --tlsCertificateKeyFile and --tlsCAFile, or add SCRAM-SHA-256",
        applies: |o| o.tls.is_none() && listed(o).is_some_and(|list| list.trim() == "MONGODB-X509"),
    },
    Row {
        id: 8_200_285,
        text: "auditAuthorizationSuccess has no effect: there is no audit log",
        place: "auditAuthorizationSuccess",
        fix: "set --auditDestination",
        applies: |o| is_on(o, "auditAuthorizationSuccess") && o.audit.is_none(),
    },
    Row {
        id: 8_200_286,
        text: "The key of the data files is in the data directory: who has the files has the key",
        place: "security.encryptionKeyFile",
        fix: "move the key elsewhere, best to another machine",
        applies: has_key_beside_data,
    },
];

/// What is wrong with the logins.
pub(crate) fn doors(options: &Options) -> Vec<Door> {
    let rows = ROWS.iter().filter(|row| (row.applies)(options));
    let mut doors: Vec<Door> = rows
        .map(|row| Door { id: row.id, text: row.text, place: row.place.to_owned(), fix: row.fix })
        .collect();
    if let Some(place) = clear_ldap_server(options) {
        doors.push(Door {
            id: 8_200_222,
            text: "Passwords are sent to an LDAP server without encryption",
            place,
            fix: "security.ldap.transportSecurity: tls",
        });
    }
    doors
}

fn parameter<'o>(options: &'o Options, name: &str) -> Option<&'o str> {
    let set = options.parameters.iter().rfind(|(own, _)| own == name);
    set.map(|(_, value)| value.as_str())
}

/// The mechanisms that are enabled, if they are not the defaults.
fn listed(options: &Options) -> Option<&str> {
    parameter(options, MECHANISMS)
}

/// Returns true if a mechanism is enabled that is not among the defaults.
pub(crate) fn enables(options: &Options, mechanism: &str) -> bool {
    listed(options).is_some_and(|list| list.split(',').any(|name| name.trim() == mechanism))
}

fn has_providers(options: &Options) -> bool {
    parameter(options, "oidcIdentityProviders").is_some_and(|list| list.trim().len() > "[]".len())
}

fn requires_tls(options: &Options) -> bool {
    options.tls.as_ref().is_some_and(|tls| tls.mode == TlsMode::Require)
}

fn has_key_beside_data(options: &Options) -> bool {
    let Some(chosen) = &options.encryption else { return false };
    let KeySource::Place(KeyPlace::File(file)) = &chosen.from else { return false };
    let folder = std::path::Path::new(&options.db_path).canonicalize();
    file.canonicalize().is_ok_and(|file| folder.is_ok_and(|folder| file.starts_with(folder)))
}

/// The first LDAP server on another machine, if connections to it are not encrypted.
pub(crate) fn clear_ldap_server(options: &Options) -> Option<String> {
    let ldap = options.ldap.as_ref().filter(|ldap| !ldap.options.tls)?;
    let mut hosts = ldap.options.hosts().into_iter();
    hosts.find(|host| host != "localhost" && !is_loopback(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, read};

    fn ids(args: &[&str]) -> Vec<i64> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let Ok(Request::Serve(options)) = read(&args) else { panic!("{args:?}") };
        doors(&options).iter().map(|door| door.id).collect()
    }

    #[test]
    fn mechanisms_need_who_checks_them() {
        let set = |list: &str| format!("--setParameter=authenticationMechanisms={list}");
        let providers = "--setParameter=oidcIdentityProviders=[{issuer: 1}]";
        let empty = Vec::<i64>::new();
        assert_eq!(ids(&["--auth"]), empty);
        assert_eq!(ids(&["--auth", &set("SCRAM-SHA-1,SCRAM-SHA-256")]), empty);
        assert_eq!(ids(&["--auth", &set("PLAIN")]), [8_200_224]);
        assert_eq!(ids(&["--auth", &set("SCRAM-SHA-256, MONGODB-OIDC")]), [8_200_282]);
        assert_eq!(ids(&["--auth", providers]), [8_200_281]);
        assert_eq!(ids(&["--auth", providers, &set("MONGODB-OIDC")]), [8_200_283]);
        assert_eq!(ids(&["--auth", &set("MONGODB-X509")]), [8_200_284]);
        assert_eq!(ids(&["--setParameter=auditAuthorizationSuccess=true"]), [8_200_285]);
        assert_eq!(
            ids(&["--auth", "--ldapServers=127.0.0.1", "--ldapTransportSecurity=none"]),
            [8_200_280]
        );
    }
}
