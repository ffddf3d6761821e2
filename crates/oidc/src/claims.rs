//! What a token says: its issuer and audience, when it counts, and its user and roles (RFC 7519, section 4).

use nagi_bson::{Doc, DocBuf, Value, number};
use nagi_server::IdentityProvider;

/// The longest name of a user or role.
const NAME_BYTES_MAX: usize = 1024;
/// The number of roles in a token.
const ROLES_MAX: usize = 1000;
/// The length and number of texts of a refused token that are shown.
const SHOWN_CHARS_MAX: usize = 200;
const SHOWN_COUNT_MAX: usize = 5;
/// The longest claim that is logged.
const LOGGED_BYTES_MAX: usize = 2048;

/// The provider whose issuer and audience a token names. Nothing is verified yet.
///
/// # Errors
/// If there is none. The text is for the log; what it shows of the token, which may come from anyone, is bounded.
pub(crate) fn provider<'p>(
    claims: Doc<'_>,
    providers: &'p [IdentityProvider],
) -> Result<&'p IdentityProvider, String> {
    let Value::String(issuer) = claims.get("iss") else {
        return Err("The token has no issuer".to_owned());
    };
    let audience = claims.get("aud");
    if !is_texts(audience) {
        return Err("The token has no audience".to_owned());
    }
    let mut of_issuer = providers.iter().filter(|provider| provider.issuer == issuer).peekable();
    if of_issuer.peek().is_none() {
        let known: Vec<&str> = providers.iter().map(|provider| provider.issuer.as_str()).collect();
        return Err(format!(
            "The token's issuer is not one of the identity providers: it is {}, expected {}",
            shown(issuer),
            shown_list(&known)
        ));
    }
    of_issuer
        .find(|provider| holds(audience, &provider.audience))
        .ok_or_else(|| wrong_audience(audience, issuer, providers))
}

fn wrong_audience(audience: Value<'_>, issuer: &str, providers: &[IdentityProvider]) -> String {
    let of_issuer = providers.iter().filter(|provider| provider.issuer == issuer);
    let wanted: Vec<&str> = of_issuer.map(|provider| provider.audience.as_str()).collect();
    let given: Vec<&str> = match audience {
        Value::Array(list) => list.iter().filter_map(|one| one.as_str()).collect(),
        one => one.as_str().into_iter().collect(),
    };
    format!(
        "The token is not for the audience of its identity provider: it is for {}, expected {}",
        shown_list(&given),
        shown_list(&wanted)
    )
}

/// A text of a stranger as the log shows it: in quotes, not too long, and without characters that cannot be seen or
/// that change the direction of a line.
pub(crate) fn shown(text: &str) -> String {
    let seen = |c: char| c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric();
    let kept = text.chars().take(SHOWN_CHARS_MAX).map(|c| if seen(c) { c } else { '?' });
    let rest = if text.chars().nth(SHOWN_CHARS_MAX).is_some() { "..." } else { "" };
    format!("'{}'{rest}", kept.collect::<String>())
}

/// Some texts of a stranger.
pub(crate) fn shown_list(texts: &[&str]) -> String {
    let mut all: Vec<String> = texts.iter().take(SHOWN_COUNT_MAX).map(|text| shown(text)).collect();
    if texts.len() > SHOWN_COUNT_MAX {
        all.push(format!("and {} more", texts.len() - SHOWN_COUNT_MAX));
    }
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

/// A string, or an array of nothing but strings.
fn is_texts(value: Value<'_>) -> bool {
    match value {
        Value::String(_) => true,
        Value::Array(list) => list.iter().all(|one| matches!(one, Value::String(_))),
        _ => false,
    }
}

fn holds(audience: Value<'_>, wanted: &str) -> bool {
    match audience {
        Value::String(one) => one == wanted,
        Value::Array(list) => list.iter().any(|one| one.as_str() == Some(wanted)),
        _ => false,
    }
}

/// Checks when the token counts, without tolerance for clocks that differ, as MongoDB does. Returns its end in
/// milliseconds.
///
/// # Errors
/// If it counts no more, or not yet, or does not say.
pub(crate) fn check_times(claims: Doc<'_>, now_ms: i64) -> Result<i64, String> {
    let expires_ms = time(claims, "exp")?.ok_or("The token does not say when it expires")?;
    time(claims, "iat")?;
    if expires_ms <= now_ms {
        return Err("The token has expired".to_owned());
    }
    if time(claims, "nbf")?.is_some_and(|from_ms| now_ms < from_ms) {
        return Err("The token is not yet valid".to_owned());
    }
    Ok(expires_ms)
}

/// A number of seconds since 1970, as milliseconds. One that is larger than any time is the end of time.
fn time(claims: Doc<'_>, name: &str) -> Result<Option<i64>, String> {
    match claims.get(name) {
        Value::Missing => Ok(None),
        value => match number::as_f64(value) {
            Some(secs) if secs.is_finite() => Ok(Some((secs * 1000.0) as i64)),
            _ => Err(format!("The token's '{name}' is no number")),
        },
    }
}

/// The user's name, with the prefix.
///
/// # Errors
/// If the claim is missing, or no name.
pub(crate) fn user(claims: Doc<'_>, provider: &IdentityProvider) -> Result<String, String> {
    let claim = &provider.principal_name;
    let name = claims.get(claim).as_str().filter(|name| is_name(name));
    let name = name.ok_or_else(|| format!("The token's '{claim}' is no user name"))?;
    Ok(format!("{}/{name}", provider.auth_name_prefix))
}

/// The names of the roles, with the prefix; `None` if the provider's tokens have none.
///
/// # Errors
/// If the claim is missing, or neither a string nor an array of strings, or has too many.
pub(crate) fn roles(
    claims: Doc<'_>,
    provider: &IdentityProvider,
) -> Result<Option<Vec<String>>, String> {
    let claim = match &provider.authorization_claim {
        Some(claim) if provider.use_authorization_claim => claim,
        _ => return Ok(None),
    };
    let wrong = || format!("The token's '{claim}' is not a list of names of roles");
    let mut names = Vec::new();
    match claims.get(claim) {
        Value::String(one) => names.push(one),
        Value::Array(list) => {
            for one in list.iter() {
                if names.len() == ROLES_MAX {
                    return Err(format!("The token has more than {ROLES_MAX} roles"));
                }
                names.push(one.as_str().ok_or_else(wrong)?);
            }
        }
        _ => return Err(wrong()),
    }
    if !names.iter().all(|name| is_name(name)) {
        return Err(wrong());
    }
    Ok(Some(names.iter().map(|name| format!("{}/{name}", provider.auth_name_prefix)).collect()))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains('\0')
}

/// The claims to log that the token has, without long ones.
pub(crate) fn logged(claims: Doc<'_>, provider: &IdentityProvider) -> DocBuf {
    DocBuf::build(|out| {
        for name in &provider.log_claims {
            match claims.element(name) {
                Some(element) if element.value().to_string().len() <= LOGGED_BYTES_MAX => {
                    out.put_element(element);
                }
                _ => {}
            }
        }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use nagi_bson::json;

    use super::*;

    pub(crate) fn provider_of(issuer: &str, audience: &str) -> IdentityProvider {
        IdentityProvider {
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            auth_name_prefix: "corp".to_owned(),
            match_pattern: None,
            client_id: None,
            request_scopes: Vec::new(),
            principal_name: "sub".to_owned(),
            use_authorization_claim: true,
            authorization_claim: Some("groups".to_owned()),
            log_claims: vec!["sub".to_owned(), "aud".to_owned(), "none".to_owned()],
            supports_human_flows: false,
            jwks_poll_secs: 0,
            jwks_uri: None,
            jwks_ca_file: None,
        }
    }

    fn doc(text: &str) -> DocBuf {
        json::parse(text).unwrap()
    }

    #[test]
    fn a_provider_is_found_by_issuer_and_audience() {
        let all = [
            provider_of("https://a", "x"),
            provider_of("https://a", "y"),
            provider_of("https://b", "x"),
        ];
        let find = |text: &str| {
            let claims = doc(text);
            let found = provider(claims.as_doc(), &all).ok()?;
            all.iter().position(|one| std::ptr::eq(one, found))
        };
        assert_eq!(find("{iss: 'https://a', aud: 'x'}"), Some(0));
        assert_eq!(find("{iss: 'https://a', aud: ['z', 'y']}"), Some(1));
        assert_eq!(find("{iss: 'https://b', aud: 'x'}"), Some(2));
        for bad in [
            "{}",
            "{iss: 'https://a'}",
            "{aud: 'x'}",
            "{iss: 'https://a/', aud: 'x'}",
            "{iss: 'https://b', aud: 'y'}",
            "{iss: 'https://b', aud: []}",
            "{iss: 'https://b', aud: ['x', 1]}",
            "{iss: 'https://b', aud: {x: 'x'}}",
            "{iss: ['https://b'], aud: 'x'}",
        ] {
            assert_eq!(find(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_token_counts_between_its_times() {
        let at = |text: &str| check_times(doc(text).as_doc(), 1_000_000);
        assert_eq!(at("{exp: 1001}"), Ok(1_001_000));
        assert_eq!(at("{exp: 1000.5, nbf: 1000, iat: 5000}"), Ok(1_000_500));
        assert_eq!(at("{exp: 1e300}"), Ok(i64::MAX));
        for bad in [
            "{}",
            "{exp: 1000}",
            "{exp: 999}",
            "{exp: -1}",
            "{exp: '1001'}",
            "{exp: null}",
            "{exp: 1001, nbf: 1000.001}",
            "{exp: 1001, nbf: '1'}",
            "{exp: 1001, iat: true}",
            "{exp: NaN}",
        ] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_get_the_prefix() {
        let corp = provider_of("https://a", "x");
        let roles_of = |text: &str| roles(doc(text).as_doc(), &corp);
        assert_eq!(user(doc("{sub: 'ann@x'}").as_doc(), &corp).as_deref(), Ok("corp/ann@x"));
        assert_eq!(roles_of("{groups: 'a'}").unwrap().unwrap(), ["corp/a"]);
        assert_eq!(roles_of("{groups: ['a', '../b']}").unwrap().unwrap(), ["corp/a", "corp/../b"]);
        assert_eq!(roles_of("{groups: []}").unwrap().unwrap(), Vec::<String>::new());
        for bad in [
            "{}",
            "{groups: 1}",
            "{groups: [1]}",
            "{groups: ['']}",
            "{groups: {}}",
            "{groups: null}",
        ] {
            assert!(roles_of(bad).is_err(), "{bad}");
        }
        for bad in ["{}", "{sub: ''}", "{sub: 1}", "{sub: 'a\\u0000b'}", "{sub: ['a']}"] {
            assert!(user(doc(bad).as_doc(), &corp).is_err(), "{bad}");
        }
        let own = IdentityProvider { use_authorization_claim: false, ..corp };
        assert_eq!(roles(doc("{groups: ['a']}").as_doc(), &own), Ok(None));
    }

    #[test]
    fn claims_to_log_are_short() {
        let corp = provider_of("https://a", "x");
        let claims = doc("{sub: 'ann', aud: ['x'], secret: 1}");
        assert_eq!(
            logged(claims.as_doc(), &corp).as_doc().to_string(),
            doc("{sub: 'ann', aud: ['x']}").as_doc().to_string()
        );
        let long = doc(&format!("{{sub: '{}'}}", "a".repeat(4000)));
        assert!(logged(long.as_doc(), &corp).as_doc().is_empty());
    }
}
