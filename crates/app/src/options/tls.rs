//! The options `net.tls`, with their older names `net.ssl`.

use std::path::PathBuf;

use nagi_server::TlsMode;
use nagi_tls::TlsOptions;
use zeroize::Zeroizing;

use super::Settings;

/// What takes the place of a password in `getCmdLineOpts` and in the log.
pub(crate) const HIDDEN: &str = "<password>";

/// The keys whose values are passwords.
const PASSWORDS: [&str; 6] = [
    "net.ssl.PEMKeyPassword",
    "net.ssl.clusterPassword",
    "net.tls.certificateKeyFilePassword",
    "net.tls.clusterPassword",
    "security.kmip.clientCertificatePassword",
    "security.ldap.bind.queryPassword",
];
/// Their flags.
pub(crate) const PASSWORD_FLAGS: [&str; 6] = [
    "ldapQueryPassword",
    "sslPEMKeyPassword",
    "sslClusterPassword",
    "tlsCertificateKeyFilePassword",
    "tlsClusterPassword",
    "kmipClientCertificatePassword",
];

/// Returns true if the value of a key is a password.
pub(super) fn is_secret(key: &str) -> bool {
    PASSWORDS.contains(&key)
}

/// The value of a setting as it may be shown.
pub(super) fn shown<'v>(key: &str, value: &'v str) -> &'v str {
    if is_secret(key) { HIDDEN } else { value }
}

/// The options of TLS; `None` if it is disabled.
pub(super) fn from_settings(settings: &Settings) -> Result<Option<TlsOptions>, String> {
    let mode = mode(settings)?;
    let both = |new: &str, old: &str| one_of(settings, new, old);
    let file = |new: &str, old: &str| Ok::<_, String>(both(new, old)?.map(PathBuf::from));
    let secret = |new: &str, old: &str| {
        Ok::<_, String>(both(new, old)?.map(|text| Zeroizing::new(text.to_owned())))
    };
    let is_on = |new: &str, old: &str| Ok::<_, String>(both(new, old)? == Some("true"));
    let parameter = |name: &str| settings.parameters.get(name).cloned();
    let certificate_key_file = file("net.tls.certificateKeyFile", "net.ssl.PEMKeyFile")?;
    let options = TlsOptions {
        certificate_key_file,
        certificate_key_password: secret(
            "net.tls.certificateKeyFilePassword",
            "net.ssl.PEMKeyPassword",
        )?,
        cluster_file: file("net.tls.clusterFile", "net.ssl.clusterFile")?,
        cluster_password: secret("net.tls.clusterPassword", "net.ssl.clusterPassword")?,
        ca_file: file("net.tls.CAFile", "net.ssl.CAFile")?,
        cluster_ca_file: file("net.tls.clusterCAFile", "net.ssl.clusterCAFile")?,
        crl_file: file("net.tls.CRLFile", "net.ssl.CRLFile")?,
        allow_connections_without_certificates: is_on(
            "net.tls.allowConnectionsWithoutCertificates",
            "net.ssl.allowConnectionsWithoutCertificates",
        )? || settings
            .is_on("net.ssl.weakCertificateValidation"),
        allow_invalid_certificates: is_on(
            "net.tls.allowInvalidCertificates",
            "net.ssl.allowInvalidCertificates",
        )?,
        disabled: disabled(both("net.tls.disabledProtocols", "net.ssl.disabledProtocols")?)?,
        logged: logged(settings.get("net.tls.logVersions"))?,
        ciphers: parameter("opensslCipherConfig").or(parameter("tlsCipherConfig")),
        cipher_suites: parameter("opensslCipherSuiteConfig"),
        quiet_without_certificate: parameter("suppressNoTLSPeerCertificateWarning")
            .is_some_and(|value| value == "true" || value == "1"),
        expiry_warning_days: parameter("tlsX509ExpirationWarningThresholdDays")
            .and_then(|days| days.parse().ok())
            .unwrap_or(30),
        member_override: parameter("tlsX509ClusterAuthDNOverride").filter(|text| !text.is_empty()),
        ..TlsOptions::new(mode)
    };
    check(settings, mode, &options)?;
    Ok((mode != TlsMode::Disabled).then_some(options))
}

/// The value of an option under its new or its old name.
fn one_of<'s>(settings: &'s Settings, new: &str, old: &str) -> Result<Option<&'s str>, String> {
    match (settings.get(new), settings.get(old)) {
        (Some(a), Some(b)) if a != b => {
            Err(format!("BadValue: {new} and its older name {old} have different values"))
        }
        (value, older) => Ok(value.or(older)),
    }
}

fn mode(settings: &Settings) -> Result<TlsMode, String> {
    let names = (settings.get("net.tls.mode"), settings.get("net.ssl.mode"));
    let by_name = |name: Option<&str>| name.and_then(TlsMode::by_name);
    let mode = match (by_name(names.0), by_name(names.1)) {
        (Some(a), Some(b)) if a != b => {
            return Err(
                "BadValue: net.tls.mode and its older name net.ssl.mode have different values"
                    .to_owned(),
            );
        }
        (mode, older) => mode.or(older),
    };
    let on_normal_ports =
        settings.is_on("net.ssl.sslOnNormalPorts") || settings.is_on("net.tls.tlsOnNormalPorts");
    match (mode, on_normal_ports) {
        (Some(mode), true) if mode != TlsMode::Require => {
            Err("BadValue: can't have both sslMode and sslOnNormalPorts".to_owned())
        }
        (_, true) => Ok(TlsMode::Require),
        (mode, false) => Ok(mode.unwrap_or(TlsMode::Disabled)),
    }
}

/// Checks which options need which others, as mongod does.
fn check(settings: &Settings, mode: TlsMode, options: &TlsOptions) -> Result<(), String> {
    let says = |text: &str| Err(format!("BadValue: {text}"));
    if mode == TlsMode::Disabled {
        let is_file = |key: &&&str| key.starts_with("net.tls.") || key.starts_with("net.ssl.");
        let stray = settings.values.keys().filter(is_file).find(|key| {
            !key.ends_with(".mode") && !["true", "false"].contains(&settings.get(key).unwrap_or(""))
        });
        return match stray {
            Some(key) => says(&format!(
                "need to enable TLS via the sslMode/tlsMode flag when using TLS configuration parameters \
                 ({key})"
            )),
            None => Ok(()),
        };
    }
    if options.certificate_key_file.is_none() {
        return says("need tlsCertificateKeyFile or certificateSelector when TLS is enabled");
    }
    if options.crl_file.is_some() && options.ca_file.is_none() {
        return says("need tlsCAFile with tlsCRLFile");
    }
    if options.cluster_ca_file.is_some() && options.ca_file.is_none() {
        return says("Specifying tlsClusterCAFile requires tlsCAFile");
    }
    if options.disabled == [true, true] {
        return says("All supported TLS protocols have been disabled.");
    }
    Ok(())
}

/// Versions 1.2 and 1.3 in a list of versions that are disabled. The versions before are always disabled.
fn disabled(list: Option<&str>) -> Result<[bool; 2], String> {
    let mut disabled = [false; 2];
    for name in words(list) {
        // The prefix is of releases before 3.0.
        match name.strip_prefix("no").unwrap_or(name) {
            "TLS1_2" => disabled[0] = true,
            "TLS1_3" => disabled[1] = true,
            "TLS1_0" | "TLS1_1" | "ne" => {}
            _ => return Err(format!("BadValue: Unrecognized disabledProtocols '{name}'")),
        }
    }
    Ok(disabled)
}

fn logged(list: Option<&str>) -> Result<[bool; 2], String> {
    let mut logged = [false; 2];
    for name in words(list) {
        match name {
            "TLS1_2" => logged[0] = true,
            "TLS1_3" => logged[1] = true,
            "TLS1_0" | "TLS1_1" | "none" => {}
            _ => return Err(format!("BadValue: Unrecognized tlsLogVersions '{name}'")),
        }
    }
    Ok(logged)
}

fn words(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.unwrap_or("").split(',').map(str::trim).filter(|word| !word.is_empty())
}
