//! Which requests are answered at all: a page of another origin must neither read nor change anything with the rights
//! of the operator whose browser shows it.
//!
//! ```text
//!   Host, target    a name of this machine or an address     DNS rebinding
//!   Origin, Sec-Fetch-Site   this origin, if the browser says    reads and writes of other pages
//!   x-nagi-console, content-type   of every request that changes    forms, which cannot set them
//! ```

use hyper::header;
use hyper::{Method, Request};

use crate::refusal::Refusal;

/// The header of requests that change something.
const OWN_HEADER: &str = "x-nagi-console";

/// Under which names the console may be addressed.
pub struct Names {
    /// Of this machine, besides addresses and `localhost`.
    pub own: Vec<String>,
    /// Origins of proxies with TLS in front of the console, such as `https://db.example.com`.
    pub origins: Vec<String>,
}

/// Checks a request.
///
/// # Errors
/// If it may come from a page of another origin.
pub(crate) fn check<B>(request: &Request<B>, names: &Names) -> Result<(), Refusal> {
    let (method, headers) = (request.method(), request.headers());
    let text = |name: &str| {
        let mut all = headers.get_all(name).iter();
        match (all.next(), all.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => value.to_str().map(Some).map_err(|_| name.to_owned()),
            _ => Err(name.to_owned()),
        }
    };
    let text = |name: &str| {
        text(name).map_err(|name| Refusal::bad_request(format!("The header '{name}' is not valid")))
    };
    let host = text("host")?.ok_or_else(|| Refusal::bad_request("The header 'host' is missing"))?;
    // A request as to a proxy names the host in its target, too, which counts then (RFC 9112, 3.2.2). Other schemes
    // are refused with it: the console is none of their servers.
    let target = request.uri();
    let named = target.authority().map(|authority| authority.as_str());
    let is_foreign = named.is_some_and(|named| named.contains('@') || !names.has(named))
        || !matches!(target.scheme_str(), None | Some("http" | "https"));
    if is_foreign || !names.has(host) {
        return Err(Refusal::forbidden(
            "The console is addressed by a name that is not this machine's: use its address, or localhost",
        ));
    }
    let host = named.unwrap_or(host);
    let foreign = || Refusal::forbidden("Pages of another origin may not use the console");
    let is_own = |origin: &str| {
        origin.strip_prefix("http://") == Some(host)
            || names.origins.iter().any(|one| one == origin)
    };
    if text("origin")?.is_some_and(|origin| !is_own(origin)) {
        return Err(foreign());
    }
    if !matches!(text("sec-fetch-site")?, None | Some("same-origin" | "none")) {
        return Err(foreign());
    }
    if method != Method::POST {
        return Ok(());
    }
    let kind = text(header::CONTENT_TYPE.as_str())?.unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim();
    if !kind.eq_ignore_ascii_case("application/json") || text(OWN_HEADER)?.is_none() {
        return Err(Refusal::forbidden(format!(
            "Requests that change something need the headers 'content-type: application/json' and '{OWN_HEADER}: 1'"
        )));
    }
    Ok(())
}

impl Names {
    fn has(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((address, _)) => return address.parse::<std::net::Ipv6Addr>().is_ok(),
                None => return false,
            },
            None => host.split_once(':').map_or(host, |(name, _)| name),
        };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost"
            || name.ends_with(".localhost")
            || name.parse::<std::net::Ipv4Addr>().is_ok()
            || self.own.iter().any(|own| own.eq_ignore_ascii_case(&name))
            || self.origins.iter().any(|origin| {
                origin.split_once("://").is_some_and(|(_, own)| own.eq_ignore_ascii_case(host))
            })
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn checked(method: Method, set: &[(&str, &str)]) -> bool {
        checked_at("/", method, set)
    }

    fn checked_at(target: &str, method: Method, set: &[(&str, &str)]) -> bool {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().unwrap();
        for (name, value) in set {
            request.headers_mut().append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let names = Names {
            own: vec!["db1.example.com".into()],
            origins: vec!["https://db.example.com:8443".into()],
        };
        check(&request, &names).is_ok()
    }

    #[test]
    fn hosts_are_this_machine() {
        for good in [
            "localhost",
            "LOCALHOST:28017",
            "127.0.0.1:28017",
            "[::1]:28017",
            "[::1]",
            "db1.example.com",
            "a.localhost:1",
        ] {
            assert!(checked(Method::GET, &[("host", good)]), "{good}");
        }
        for bad in [
            "evil.example.com",
            "",
            "127.0.0.1.evil.com",
            "[evil.com]",
            "[::1",
            "localhost.evil.com:80",
            "1.2.3",
        ] {
            assert!(!checked(Method::GET, &[("host", bad)]), "{bad}");
        }
        assert!(!checked(Method::GET, &[]));
        assert!(!checked(Method::GET, &[("host", "localhost"), ("host", "evil.com")]));
    }

    #[test]
    fn the_host_of_a_target_counts() {
        let own = [("host", "127.0.0.1:28017")];
        for (good, target) in [
            (true, "http://127.0.0.1:28017/api/command"),
            (true, "http://localhost/"),
            (false, "http://evil.com/api/command"),
            (false, "http://localhost@evil.com/"),
            (false, "http://evil.com@localhost/"),
            (false, "http://localhost.evil.com/"),
            (false, "ftp://localhost/"),
        ] {
            assert_eq!(checked_at(target, Method::GET, &own), good, "{target}");
        }
        // The other way round, too.
        assert!(!checked_at("http://localhost/", Method::GET, &[("host", "evil.com")]));
        let origin = [own[0], ("origin", "http://127.0.0.1:28017")];
        assert!(checked_at("http://127.0.0.1:28017/", Method::GET, &origin));
        assert!(!checked_at("http://127.0.0.1:1/", Method::GET, &origin));
    }

    #[test]
    fn other_origins_are_refused() {
        let host = ("host", "127.0.0.1:28017");
        for (good, set) in [
            (true, [("origin", "http://127.0.0.1:28017"), ("sec-fetch-site", "same-origin")]),
            (true, [("x", ""), ("sec-fetch-site", "none")]),
            (false, [("origin", "http://127.0.0.1:3000"), ("x", "")]),
            (false, [("origin", "https://127.0.0.1:28017"), ("x", "")]),
            (false, [("origin", "null"), ("x", "")]),
            (false, [("x", ""), ("sec-fetch-site", "same-site")]),
            (false, [("x", ""), ("sec-fetch-site", "cross-site")]),
        ] {
            assert_eq!(checked(Method::GET, &[host, set[0], set[1]]), good, "{set:?}");
        }
    }

    #[test]
    fn a_proxy_has_its_own_origin() {
        let host = ("host", "db.example.com:8443");
        assert!(checked(Method::GET, &[host, ("origin", "https://db.example.com:8443")]));
        assert!(checked(
            Method::GET,
            &[("host", "localhost"), ("origin", "https://db.example.com:8443")]
        ));
        assert!(!checked(Method::GET, &[host, ("origin", "https://db.example.com")]));
        assert!(!checked(Method::GET, &[("host", "db.example.com")]));
    }

    #[test]
    fn changes_need_headers_that_forms_cannot_set() {
        let host = ("host", "localhost");
        let json = ("content-type", "application/json; charset=utf-8");
        let own = (OWN_HEADER, "1");
        assert!(checked(Method::POST, &[host, json, own]));
        assert!(!checked(Method::POST, &[host, json]));
        assert!(!checked(Method::POST, &[host, own]));
        assert!(!checked(Method::POST, &[host, own, ("content-type", "text/plain")]));
    }
}
