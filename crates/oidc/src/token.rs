//! Tokens in the compact form (RFC 7515): `header.claims.signature`, each in base64url.

use nagi_bson::{DocBuf, Value};

use crate::algorithm::{self, Algorithm};
use crate::json::{base64url, object};
use crate::key::Key;

/// The longest token.
pub(crate) const TOKEN_BYTES_MAX: usize = 48 * 1024;
/// The longest header.
const HEADER_BYTES_MAX: usize = 8 * 1024;

/// A token whose signature is not verified yet.
pub(crate) struct Token<'t> {
    /// What is signed.
    signed: &'t str,
    signature: Vec<u8>,
    algorithm: &'static Algorithm,
    pub(crate) key_id: String,
    pub(crate) claims: DocBuf,
}

impl<'t> Token<'t> {
    /// Decodes a token and checks its header.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &'t str) -> Result<Token<'t>, String> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err("The token is too long".to_owned());
        }
        let mut parts = text.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("The token does not have three parts".to_owned());
        };
        let decode = |what: &str, part: &str| {
            base64url(part).ok_or_else(|| format!("The token's {what} is not base64url"))
        };
        if header.len() > HEADER_BYTES_MAX {
            return Err("The token's header is too long".to_owned());
        }
        let fields = object("The token's header", &decode("header", header)?)?;
        let (algorithm, key_id) = check_header(&fields)?;
        let signature = decode("signature", signature)?;
        let claims_json = decode("claims", claims)?;
        let claims_doc = object("The token's body", &claims_json)?;
        let signed = &text[..header.len() + 1 + claims.len()];
        Ok(Token { signed, signature, algorithm, key_id, claims: claims_doc })
    }

    /// Checks the signature.
    ///
    /// # Errors
    /// If the key is not for the token's algorithm, or the signature is wrong.
    pub(crate) fn verify(&self, key: &Key) -> Result<(), String> {
        Ok(key.verify(self.algorithm, self.signed.as_bytes(), &self.signature)?)
    }
}

fn check_header(header: &DocBuf) -> Result<(&'static Algorithm, String), String> {
    let header = header.as_doc();
    let Value::String(name) = header.get("alg") else {
        return Err("The token's header has no algorithm".to_owned());
    };
    // The name is a stranger's text of any length.
    let algorithm = algorithm::find(name)
        .ok_or("The token's algorithm is not one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384")?;
    if !header.get("crit").is_missing() {
        return Err("The token's header has critical extensions, and none is supported".to_owned());
    }
    // A nested token has the type JWT inside; at+jwt is an access token (RFC 9068).
    match header.get("typ") {
        Value::Missing => {}
        Value::String(kind) => {
            let kind = kind.to_ascii_lowercase();
            let kind = kind.strip_prefix("application/").unwrap_or(&kind);
            if kind != "jwt" && kind != "at+jwt" {
                return Err("The token's type is neither JWT nor at+jwt".to_owned());
            }
        }
        _ => return Err("The token's type is no string".to_owned()),
    }
    match header.get("kid") {
        Value::String(id) if !id.is_empty() => Ok((algorithm, id.to_owned())),
        _ => Err("The token's header has no key id".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(json: &str) -> String {
        let mut text = String::new();
        nagi_bson::json::base64_encode(&mut text, json.as_bytes());
        text.trim_end_matches('=').replace('+', "-").replace('/', "_")
    }

    fn parse(header: &str, claims: &str) -> Result<(), String> {
        let text = format!("{}.{}.AAAA", coded(header), coded(claims));
        Token::parse(&text).map(drop)
    }

    #[test]
    fn the_header_must_be_understood_as_a_whole() {
        for good in [
            r#"{"alg": "RS256", "kid": "a"}"#,
            r#"{"alg": "ES384", "kid": "a", "typ": "JWT", "x5t": "ignored"}"#,
            r#"{"alg": "PS512", "kid": "a", "typ": "application/AT+JWT"}"#,
        ] {
            assert_eq!(parse(good, "{}"), Ok(()), "{good}");
        }
        for bad in [
            "{}",
            "[]",
            r#"{"alg": "none", "kid": "a"}"#,
            r#"{"alg": "HS256", "kid": "a"}"#,
            r#"{"alg": ["RS256"], "kid": "a"}"#,
            r#"{"alg": "RS256"}"#,
            r#"{"alg": "RS256", "kid": ""}"#,
            r#"{"alg": "RS256", "kid": 1}"#,
            r#"{"alg": "RS256", "kid": "a", "kid": "b"}"#,
            r#"{"alg": "RS256", "kid": "a", "crit": ["exp"]}"#,
            r#"{"alg": "RS256", "kid": "a", "crit": []}"#,
            r#"{"alg": "RS256", "kid": "a", "typ": "secevent+jwt"}"#,
            r#"{"alg": "RS256", "kid": "a", "typ": 1}"#,
        ] {
            assert!(parse(bad, "{}").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_token_has_three_parts_of_bounded_length() {
        let (header, claims) = (coded(r#"{"alg": "RS256", "kid": "a"}"#), coded("{}"));
        for bad in [
            String::new(),
            header.clone(),
            format!("{header}.{claims}"),
            format!("{header}.{claims}.AAAA.AAAA"),
            format!("{header}..AAAA"),
            format!(".{claims}.AAAA"),
            format!("{header}.{claims}=.AAAA"),
            format!("{header}.{claims}.AA AA"),
            format!("{header}.{claims}.{}", "A".repeat(TOKEN_BYTES_MAX)),
            format!("{}.{claims}.AAAA", "A".repeat(HEADER_BYTES_MAX + 1)),
        ] {
            assert!(Token::parse(&bad).is_err(), "{}", &bad[..bad.len().min(80)]);
        }
        assert!(Token::parse(&format!("{header}.{claims}.")).is_ok());
    }
}
