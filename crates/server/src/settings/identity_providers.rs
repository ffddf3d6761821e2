//! The parameter `oidcIdentityProviders`: its fields, what they must have in common, and how it is shown.

use nagi_bson::{Array, DocWriter, Value, json};
use nagi_error::{Code, Result, bail, err};
use nagi_lang::regex::Pattern;

use crate::args::{Within, args};
use crate::token_trust::{IdentityProvider, check_key_address};

/// The name of the parameter.
pub(crate) const NAME: &str = "oidcIdentityProviders";

/// The number of providers.
const PROVIDERS_MAX: usize = 64;
/// The length of a text in the configuration.
const TEXT_BYTES_MAX: usize = 2048;
/// The number of texts in a list.
const LIST_MAX: usize = 64;
/// The interval of polling if none is set: a day.
const POLL_SECS: i64 = 86_400;
/// The longest interval of polling: a year.
const POLL_SECS_MAX: i64 = 31_536_000;

/// A provider with its pattern, compiled.
pub(crate) struct Provider {
    pub(crate) config: IdentityProvider,
    pub(crate) pattern: Option<Pattern>,
}

args! { "OIDCIdentityProviderConfig" => Fields {
    issuer:        &'a str                          = "issuer",
    audience:      &'a str                          = "audience",
    prefix:        &'a str                          = "authNamePrefix",
    pattern:       Option<&'a str>                  = "matchPattern",
    client_id:     Option<&'a str>                  = "clientId",
    scopes:        Option<Array<'a>>                = "requestScopes",
    principal:     Option<&'a str>                  = "principalName",
    authorizes:    Option<bool>                     = "useAuthorizationClaim",
    authorization: Option<&'a str>                  = "authorizationClaim",
    log_claims:    Option<Array<'a>>                = "logClaims",
    human:         Option<bool>                     = "supportsHumanFlows",
    poll_secs:     Option<Within<0, POLL_SECS_MAX>> = "JWKSPollSecs",
    uri:           Option<&'a str>                  = "JWKSUri",
    ca_file:       Option<&'a str>                  = "JWKSCAFile",
}}

/// Parses the parameter's value: an array of documents, or that as text of extended JSON.
///
/// # Errors
/// 2 for values that exclude each other, 14 for a wrong type, 40414 and 40415 for missing and unknown fields.
pub(crate) fn parse(value: Value<'_>) -> Result<Vec<Provider>> {
    match value {
        Value::String(text) => {
            let parsed = json::parse_value(text).map_err(|why| {
                err!(Code::BAD_VALUE, "{NAME} is not an array of documents: {why}")
            })?;
            match parsed.value() {
                Value::Array(list) => parse_list(list),
                other => Err(wrong_type(other)),
            }
        }
        Value::Array(list) => parse_list(list),
        other => Err(wrong_type(other)),
    }
}

fn wrong_type(value: Value<'_>) -> nagi_error::Error {
    err!(
        Code::TYPE_MISMATCH,
        "{NAME} must be an array of documents, found: {}",
        value.kind().name()
    )
}

fn parse_list(list: Array<'_>) -> Result<Vec<Provider>> {
    let mut all = Vec::new();
    for value in list.iter() {
        let Value::Doc(doc) = value else { return Err(wrong_type(value)) };
        if all.len() == PROVIDERS_MAX {
            bail!(Code::BAD_VALUE, "{NAME} may have at most {PROVIDERS_MAX} elements");
        }
        all.push(provider(&Fields::parse_doc(doc)?)?);
    }
    check_together(&all)?;
    Ok(all)
}

fn provider(fields: &Fields<'_>) -> Result<Provider> {
    let issuer = text("issuer", fields.issuer)?;
    let named = |name: &str, value: Option<&str>| value.map(|value| text(name, value)).transpose();
    check_address(&issuer, false)?;
    let prefix = text("authNamePrefix", fields.prefix)?;
    if let Some(bad) =
        prefix.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')))
    {
        bail!(
            Code::BAD_VALUE,
            "authNamePrefix for issuer '{issuer}' must contain only alphanumerics, hyphens and underscores. \
             Encountered '{bad}'"
        );
    }
    let (authorizes, human) = (fields.authorizes.unwrap_or(true), fields.human.unwrap_or(true));
    let authorization_claim = named("authorizationClaim", fields.authorization)?;
    if authorizes && authorization_claim.is_none() {
        bail!(
            Code::BAD_VALUE,
            "Field 'authorizationClaim' is required unless 'useAuthorizationClaim' is false, for issuer '{issuer}'"
        );
    }
    let client_id = named("clientId", fields.client_id)?;
    if human && client_id.is_none() {
        bail!(
            Code::BAD_VALUE,
            "Field 'clientId' is required unless 'supportsHumanFlows' is false, for issuer '{issuer}'"
        );
    }
    let uri = named("JWKSUri", fields.uri)?;
    uri.as_deref().map_or(Ok(()), |uri| check_address(uri, true))?;
    let pattern = named("matchPattern", fields.pattern)?;
    let compiled = pattern.as_deref().map(|pattern| Pattern::new(pattern, "")).transpose()?;
    let config = IdentityProvider {
        issuer,
        audience: text("audience", fields.audience)?,
        auth_name_prefix: prefix,
        match_pattern: pattern,
        client_id,
        request_scopes: texts("requestScopes", fields.scopes)?,
        principal_name: named("principalName", fields.principal)?
            .unwrap_or_else(|| "sub".to_owned()),
        use_authorization_claim: authorizes,
        authorization_claim,
        log_claims: texts("logClaims", fields.log_claims)?,
        supports_human_flows: human,
        jwks_poll_secs: fields.poll_secs.map_or(POLL_SECS, |secs| secs.0) as u32,
        jwks_uri: uri,
        jwks_ca_file: named("JWKSCAFile", fields.ca_file)?,
    };
    Ok(Provider { config, pattern: compiled })
}

fn check_address(address: &str, file: bool) -> Result<()> {
    check_key_address(address, file).map_err(|why| err!(Code::BAD_VALUE, "{NAME}: {why}"))
}

/// A text of the configuration, which is neither empty nor long.
fn text(field: &str, value: &str) -> Result<String> {
    if value.is_empty() || value.len() > TEXT_BYTES_MAX || value.contains('\0') {
        bail!(
            Code::BAD_VALUE,
            "Field '{field}' of {NAME} must have 1 to {TEXT_BYTES_MAX} bytes, and no zero byte"
        );
    }
    Ok(value.to_owned())
}

fn texts(field: &str, list: Option<Array<'_>>) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for value in list.into_iter().flat_map(|list| list.iter()) {
        let Value::String(one) = value else {
            bail!(Code::TYPE_MISMATCH, "Field '{field}' of {NAME} must be an array of strings");
        };
        if all.len() == LIST_MAX {
            bail!(
                Code::BAD_VALUE,
                "Field '{field}' of {NAME} may have at most {LIST_MAX} elements"
            );
        }
        all.push(text(field, one)?);
    }
    Ok(all)
}

/// Checks what the providers must have in common, or must not.
fn check_together(all: &[Provider]) -> Result<()> {
    let human = || all.iter().filter(|provider| provider.config.supports_human_flows);
    if human().count() > 1
        && let Some(without) = human().find(|provider| provider.pattern.is_none())
    {
        bail!(
            Code::BAD_VALUE,
            "Field 'matchPattern' is required for issuer '{}', because several providers have \
             'supportsHumanFlows'",
            without.config.issuer
        );
    }
    for (index, one) in all.iter().enumerate() {
        let one = &one.config;
        for other in all[..index].iter().map(|other| &other.config) {
            if other.auth_name_prefix == one.auth_name_prefix && other.issuer != one.issuer {
                bail!(
                    Code::BAD_VALUE,
                    "The authNamePrefix '{}' belongs to more than one issuer, so that their users could not be \
                     told apart",
                    one.auth_name_prefix
                );
            }
            if other.issuer != one.issuer {
                continue;
            }
            if other.audience == one.audience {
                bail!(
                    Code::BAD_VALUE,
                    "Duplicate configuration for issuer-audience pair ('{}', '{}')",
                    one.issuer,
                    one.audience
                );
            }
            let keys = |provider: &IdentityProvider| {
                (provider.jwks_poll_secs, provider.jwks_uri.clone(), provider.jwks_ca_file.clone())
            };
            if keys(other) != keys(one) {
                bail!(
                    Code::BAD_VALUE,
                    "Configurations with the issuer '{}' must have the same JWKSPollSecs, JWKSUri and JWKSCAFile",
                    one.issuer
                );
            }
        }
    }
    Ok(())
}

/// Writes the parameter as `getParameter` shows it.
pub(crate) fn write(all: &[Provider], out: &mut DocWriter<'_>) {
    let list = |out: &mut DocWriter<'_>, name: &str, values: &[String]| {
        out.array(name, |out| values.iter().for_each(|value| out.push(value.as_str())));
    };
    out.array(NAME, |array| {
        for provider in all.iter().map(|provider| &provider.config) {
            array.doc(|out| {
                let some = |out: &mut DocWriter<'_>, name: &str, value: &Option<String>| {
                    value.iter().for_each(|value| out.put(name, value.as_str()));
                };
                out.put("issuer", provider.issuer.as_str());
                out.put("audience", provider.audience.as_str());
                out.put("authNamePrefix", provider.auth_name_prefix.as_str());
                some(out, "matchPattern", &provider.match_pattern);
                some(out, "clientId", &provider.client_id);
                list(out, "requestScopes", &provider.request_scopes);
                out.put("principalName", provider.principal_name.as_str());
                out.put("useAuthorizationClaim", provider.use_authorization_claim);
                some(out, "authorizationClaim", &provider.authorization_claim);
                list(out, "logClaims", &provider.log_claims);
                out.put("supportsHumanFlows", provider.supports_human_flows);
                out.put("JWKSPollSecs", provider.jwks_poll_secs as i32);
                some(out, "JWKSUri", &provider.jwks_uri);
                some(out, "JWKSCAFile", &provider.jwks_ca_file);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use nagi_bson::DocBuf;

    use super::*;

    fn one(more: &str) -> String {
        format!(
            "{{issuer: 'https://id.example.com', audience: 'db', authNamePrefix: 'corp', clientId: 'c', \
             authorizationClaim: 'groups'{more}}}"
        )
    }

    fn check(text: &str) -> Result<Vec<Provider>> {
        parse(Value::String(text))
    }

    #[test]
    fn fills_in_defaults_and_shows_them() {
        let all = check(&format!("[{},]", one(""))).unwrap();
        let shown = DocBuf::build(|out| write(&all, out));
        let text = "{oidcIdentityProviders: [{issuer: 'https://id.example.com', audience: 'db', \
             authNamePrefix: 'corp', clientId: 'c', requestScopes: [], principalName: 'sub', \
             useAuthorizationClaim: true, authorizationClaim: 'groups', logClaims: [], \
             supportsHumanFlows: true, JWKSPollSecs: 86400}]}";
        assert_eq!(shown.as_doc().to_string(), json::parse(text).unwrap().as_doc().to_string());
        let again = parse(shown.as_doc().get(NAME)).unwrap();
        assert_eq!(again[0].config, all[0].config);
        assert!(check("[]").unwrap().is_empty());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let other = "{issuer: 'https://other.example.com', audience: 'db', authNamePrefix: 'other', clientId: 'c', \
             authorizationClaim: 'g', matchPattern: '@other'}";
        let machine = one(", supportsHumanFlows: false");
        for (text, code) in [
            ("{}".to_owned(), 14),
            ("[1]".to_owned(), 14),
            ("[".to_owned(), 2),
            ("[{}]".to_owned(), 40414),
            (format!("[{}]", one(", extra: 1")), 40415),
            (format!("[{}]", one(", issuer: 'https://x.example.com'")), 40413),
            (format!("[{}]", one(", logClaims: [1]")), 14),
            (format!("[{}]", one(", JWKSPollSecs: -1")), 51024),
            (format!("[{}]", one(", JWKSUri: 'http://id.example.com/keys'")), 2),
            (format!("[{}]", one(", matchPattern: '('")), 51091),
            (format!("[{}]", one("").replace("https://", "http://")), 2),
            (format!("[{}]", one("").replace("'corp'", "'a/b'")), 2),
            (format!("[{}]", one("").replace("'corp'", "''")), 2),
            (format!("[{}]", one("").replace(", authorizationClaim: 'groups'", "")), 2),
            (format!("[{}]", one("").replace(", clientId: 'c'", "")), 2),
            (format!("[{}, {other}]", one("")), 2),
            (format!("[{machine}, {machine}]"), 2),
            (format!("[{machine}, {}]", machine.replace("'db'", "'x', JWKSPollSecs: 5")), 2),
            (format!("[{machine}, {}]", other.replace("'other'", "'corp'")), 2),
        ] {
            assert_eq!(check(&text).err().map(|error| error.code().0), Some(code), "{text}");
        }
        for text in [
            format!("[{}, {other}]", one(", matchPattern: '@example'")),
            format!("[{machine}, {other}]"),
            format!("[{machine}, {}]", machine.replace("'db'", "'x'")),
            format!("[{}]", one(", JWKSUri: 'file:///etc/keys.json', JWKSPollSecs: 0")),
            format!(
                "[{}]",
                one("").replace(", authorizationClaim: 'groups'", ", useAuthorizationClaim: false")
            ),
            format!("[{}]", one("").replace(", clientId: 'c'", ", supportsHumanFlows: false")),
        ] {
            assert!(check(&text).is_ok(), "{text}: {:?}", check(&text).err());
        }
    }
}
