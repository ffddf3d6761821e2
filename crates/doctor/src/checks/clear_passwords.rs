//! Checks that passwords are not sent without encryption: by clients that log in with PLAIN, and to LDAP servers.
use super::prelude::*;

pub(super) static CLEAR_PASSWORDS: Check = Check {
    name: "clear_passwords",
    title: "passwords on the network",
    reads: &[],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let exposure = facts.exposure()?;
    if let Some(server) = &exposure.clear_ldap_server {
        return found(
            Warning,
            format!("passwords are sent to the LDAP server {server} without encryption"),
            "everyone who sees the packets can log in as the users, here and elsewhere",
            "security.ldap.transportSecurity: tls",
        )
        .verdict();
    }
    match (&exposure.reachable_at, exposure.has_plain_logins && !exposure.requires_tls) {
        (Some(place), true) => found(
            Warning,
            format!(
                "clients of other machines may send passwords to {place} without encryption (PLAIN)"
            ),
            "everyone who sees the packets can log in as the users, here and elsewhere",
            "net.tls.mode: requireTLS with net.tls.certificateKeyFile",
        )
        .verdict(),
        _ => good("none is sent without encryption"),
    }
}
