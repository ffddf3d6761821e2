//! The signatures of tokens (RFC 7518): RSA with PKCS #1 or PSS, and ECDSA on P-256 and P-384, verified by `ring`.
//!
//! There is no row for `none` and none for HMAC.

use ring::signature::{self, EcdsaVerificationAlgorithm, RsaParameters};

/// The kind of key that an algorithm needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Rsa,
    P256,
    P384,
}

/// What verifies a signature.
#[derive(Clone, Copy)]
pub(crate) enum Verifier {
    Rsa(&'static RsaParameters),
    Ecdsa(&'static EcdsaVerificationAlgorithm),
}

/// An algorithm of the header's `alg`.
pub(crate) struct Algorithm {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    pub(crate) verifier: Verifier,
}

/// Moduli have 2048 to 8192 bits.
static ALGORITHMS: &[Algorithm] = &[
    rsa("RS256", &signature::RSA_PKCS1_2048_8192_SHA256),
    rsa("RS384", &signature::RSA_PKCS1_2048_8192_SHA384),
    rsa("RS512", &signature::RSA_PKCS1_2048_8192_SHA512),
    rsa("PS256", &signature::RSA_PSS_2048_8192_SHA256),
    rsa("PS384", &signature::RSA_PSS_2048_8192_SHA384),
    rsa("PS512", &signature::RSA_PSS_2048_8192_SHA512),
    ecdsa("ES256", Family::P256, &signature::ECDSA_P256_SHA256_FIXED),
    ecdsa("ES384", Family::P384, &signature::ECDSA_P384_SHA384_FIXED),
];

const fn rsa(name: &'static str, parameters: &'static RsaParameters) -> Algorithm {
    Algorithm { name, family: Family::Rsa, verifier: Verifier::Rsa(parameters) }
}

const fn ecdsa(
    name: &'static str,
    family: Family,
    algorithm: &'static EcdsaVerificationAlgorithm,
) -> Algorithm {
    Algorithm { name, family, verifier: Verifier::Ecdsa(algorithm) }
}

/// The algorithm with this name.
pub(crate) fn find(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_algorithm_goes_without_a_public_key() {
        for name in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "rs256", "RS1", "EdDSA"]
        {
            assert!(find(name).is_none(), "{name}");
        }
        assert_eq!(find("ES384").map(|found| found.family), Some(Family::P384));
    }
}
