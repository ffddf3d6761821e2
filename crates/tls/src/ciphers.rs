//! Cipher suites by their names in OpenSSL, of which rustls has the strong ones: ECDHE with AES-GCM or ChaCha20.

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedCipherSuite};

/// The suites, by OpenSSL's name and by that of the standard where it differs. Those of TLS 1.3 come first.
#[rustfmt::skip]
const SUITES: &[(CipherSuite, &str, &str)] = &[
    (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384", ""),
    (CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256", ""),
    (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256", ""),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// Words of OpenSSL's syntax that select all of our suites.
const ALL: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kEECDH", "kECDHE", "TLSv1.2", "FIPS"];

/// The provider with the suites that two lists in OpenSSL's syntax select, in their order; without a list all of its
/// version.
///
/// # Errors
/// If a list selects none of the suites that there are.
pub(crate) fn select(
    mut provider: CryptoProvider,
    ciphers: Option<&str>,
    suites: Option<&str>,
) -> Result<CryptoProvider, String> {
    let mut selected = Vec::new();
    for (is_13, list, parameter) in
        [(true, suites, "opensslCipherSuiteConfig"), (false, ciphers, "opensslCipherConfig")]
    {
        let of_version = provider.cipher_suites.iter().filter(|suite| is_tls13(suite) == is_13);
        let of_version: Vec<SupportedCipherSuite> = of_version.copied().collect();
        let found = match list {
            Some(list) => pick(&of_version, list),
            None => of_version.clone(),
        };
        if found.is_empty() {
            let known: Vec<&str> =
                of_version.iter().filter_map(|suite| name(suite.suite())).collect();
            return Err(format!(
                "{parameter}: the list '{}' selects no cipher suite that is supported; there are: {}",
                list.unwrap_or(""),
                known.join(", ")
            ));
        }
        selected.extend(found);
    }
    provider.cipher_suites = selected;
    Ok(provider)
}

fn is_tls13(suite: &SupportedCipherSuite) -> bool {
    suite.tls13().is_some()
}

fn name(suite: CipherSuite) -> Option<&'static str> {
    SUITES.iter().find(|(known, ..)| *known == suite).map(|(_, name, _)| *name)
}

/// Reads `A:B:!C:@STRENGTH`. Names of suites that there are not select nothing, as in OpenSSL.
fn pick(all: &[SupportedCipherSuite], list: &str) -> Vec<SupportedCipherSuite> {
    let fits = |suite: &SupportedCipherSuite, word: &str| {
        let Some((_, name, standard)) = SUITES.iter().find(|(known, ..)| *known == suite.suite())
        else {
            return false;
        };
        ALL.contains(&word)
            || word == *name
            || word == *standard
            // ECDHE+AESGCM, CHACHA20, AES128, aRSA: every part must fit.
            || word.split('+').all(|part| ALL.contains(&part) || has_part(name, part))
    };
    let words = list.split([':', ',', ' ']).map(str::trim).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.filter(|word| !word.starts_with('@')).collect();
    let excluded = |suite: &SupportedCipherSuite| {
        words.iter().any(|w| w.strip_prefix(['!', '-']).is_some_and(|word| fits(suite, word)))
    };
    let mut picked: Vec<SupportedCipherSuite> = Vec::new();
    for word in words.iter().filter(|word| !word.starts_with(['!', '-', '+'])) {
        for suite in all {
            let is_new = picked.iter().all(|known| known.suite() != suite.suite());
            if is_new && fits(suite, word) && !excluded(suite) {
                picked.push(*suite);
            }
        }
    }
    picked
}

fn has_part(name: &str, part: &str) -> bool {
    match part {
        "AESGCM" => name.contains("GCM"),
        "AES" => name.contains("AES"),
        "AES128" => name.contains("AES128"),
        "AES256" => name.contains("AES256"),
        "CHACHA20" => name.contains("CHACHA20"),
        "aRSA" => name.contains("-RSA-"),
        "aECDSA" | "ECDSA" => name.contains("-ECDSA-"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ciphers: Option<&str>, suites: Option<&str>) -> Result<Vec<&'static str>, String> {
        let provider = select(rustls::crypto::ring::default_provider(), ciphers, suites)?;
        Ok(provider.cipher_suites.iter().filter_map(|suite| name(suite.suite())).collect())
    }

    #[test]
    fn lists_of_openssl() {
        assert_eq!(names(None, None).unwrap().len(), SUITES.len());
        assert_eq!(names(Some("HIGH:!EXPORT:!aNULL@STRENGTH:!aNULL"), None).unwrap().len(), 9);
        let one = "AES256-SHA:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384";
        let picked = names(Some(one), Some("TLS_CHACHA20_POLY1305_SHA256")).unwrap();
        let expected = [
            "TLS_CHACHA20_POLY1305_SHA256",
            "ECDHE-RSA-AES128-GCM-SHA256",
            "ECDHE-RSA-AES256-GCM-SHA384",
        ];
        assert_eq!(picked, expected);
        assert_eq!(names(Some("ECDHE+AESGCM:!AES128"), None).unwrap().len(), 5);
        let error = names(Some("AES256-SHA:RC4-MD5"), None).unwrap_err();
        assert!(error.contains("AES256-SHA:RC4-MD5") && error.contains("ECDHE-RSA-AES128"));
        assert!(names(None, Some("TLS_AES_128_CCM_SHA256")).is_err());
    }
}
