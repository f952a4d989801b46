//! Who may ask for what.
//!
//! There are no sessions and no cookies, so a page of another site has nothing to ride on but where
//! the browser is. What it could do from there is refused by what browsers say of a request and
//! pages cannot forge: its host, its origin, and `Sec-Fetch-Site`.

use std::net::IpAddr;

use axum::http::{
    header::{self, HeaderName},
    request::Parts,
    HeaderMap, HeaderValue, Method, StatusCode, Uri,
};
use base64::{prelude::BASE64_STANDARD, Engine as _};

/// Nothing from elsewhere, nothing inline, in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // Forms have to tell their origin, which `no-referrer` would hide.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// What the options say.
#[derive(Debug)]
pub struct Access {
    ip: IpAddr,
    hosts: Vec<String>,
    token: Option<String>,
    base: String,
    read_only: bool,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// In words.
    pub line: &'static str,
}

impl Access {
    /// Listening on that address, also by those names.
    pub fn new(
        ip: IpAddr,
        hosts: Vec<String>,
        token: Option<String>,
        base: String,
        read_only: bool,
    ) -> Self {
        Self {
            ip,
            hosts,
            token,
            base,
            read_only,
        }
    }

    /// What all paths begin with; empty or as in `/queues`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether nothing may be changed.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Whether the request may be answered.
    pub fn check(&self, request: &Parts) -> Result<(), Refusal> {
        let host = self.host(request)?;
        self.token(&request.headers)?;
        if matches!(request.method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        if self.read_only {
            return refuse(StatusCode::FORBIDDEN, "this is for reading only");
        }
        if request.method != Method::POST {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "this method is not known");
        }
        if one(&request.headers, &HeaderName::from_static("sec-fetch-site")) != Some("same-origin")
        {
            return refuse(
                StatusCode::FORBIDDEN,
                "only these pages may change something, and the browser does not say that it was \
                 one of them; away from localhost it says so over https only",
            );
        }
        let origin = one(&request.headers, &header::ORIGIN).unwrap_or_default();
        let own = ["http://", "https://"].iter().any(|scheme| {
            strip(origin, scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(&host))
        });
        match own {
            true => Ok(()),
            false => refuse(
                StatusCode::FORBIDDEN,
                "only these pages may change something, and this came from elsewhere",
            ),
        }
    }

    /// The host that was asked for, in small letters, if it is this one: another name that leads
    /// here was made to by somebody else.
    fn host(&self, request: &Parts) -> Result<String, Refusal> {
        let told = one(&request.headers, &header::HOST).unwrap_or_default();
        let told = told.to_ascii_lowercase();
        let same = match request.uri.authority() {
            Some(named) => named.as_str().eq_ignore_ascii_case(&told),
            None => true,
        };
        let name = name_of(&told);
        match name.is_some_and(|name| same && self.is_own(name)) {
            true => Ok(told),
            false => refuse(
                StatusCode::MISDIRECTED_REQUEST,
                "this host is not known here; --host makes a name known",
            ),
        }
    }

    fn is_own(&self, name: &str) -> bool {
        if self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return true;
        }
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        let address: Option<IpAddr> = bare.unwrap_or(name).parse().ok();
        match (self.ip.is_loopback(), address) {
            (true, Some(address)) => address.is_loopback(),
            // No page of another site has an address of this machine as its own host.
            (false, Some(_)) => true,
            (_, None) => name == "localhost",
        }
    }

    fn token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let given = one(headers, &header::AUTHORIZATION).and_then(|given| {
            if let Some(bearer) = strip(given, "bearer ") {
                return Some(bearer.as_bytes().to_vec());
            }
            let pair = BASE64_STANDARD.decode(strip(given, "basic ")?).ok()?;
            let colon = pair.iter().position(|byte| *byte == b':')?;
            Some(pair[colon + 1..].to_vec())
        });
        match given.is_some_and(|given| is_same(&given, token.as_bytes())) {
            true => Ok(()),
            false => refuse(StatusCode::UNAUTHORIZED, "this needs the token"),
        }
    }
}

fn refuse<T>(status: StatusCode, line: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status, line })
}

/// Puts the headers on an answer that all of them have.
pub fn guard(status: StatusCode, headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if status == StatusCode::UNAUTHORIZED {
        let ask = HeaderValue::from_static("Basic realm=\"redis-mq\", charset=\"UTF-8\"");
        headers.insert(header::WWW_AUTHENTICATE, ask);
    }
}

/// Reads `--base-path`.
pub fn base_path(text: &str) -> Result<String, String> {
    let path = text.trim_end_matches('/');
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/-_.~".contains(letter);
    let whole = path.parse::<Uri>().is_ok_and(|uri| uri.path() == path);
    match path.is_empty() || (path.starts_with('/') && path.chars().all(plain) && whole) {
        true if !path.contains("//") => Ok(path.into()),
        _ => Err("a path is as in /queues".into()),
    }
}

/// The header's value if it is there once and is text.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// What is behind the beginning, whose letters may be large or small.
fn strip<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(beginning.len())?;
    head.eq_ignore_ascii_case(beginning).then_some(rest)
}

/// A host without its port; none if it is no host.
fn name_of(host: &str) -> Option<&str> {
    let end = match host.starts_with('[') {
        true => host.find(']')? + 1,
        false => host.find(':').unwrap_or(host.len()),
    };
    let (name, port) = host.split_at(end);
    let is_port = |port: &str| port.strip_prefix(':')?.parse::<u16>().ok();
    (!name.is_empty() && (port.is_empty() || is_port(port).is_some())).then_some(name)
}

/// Compares in a time that does not tell where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let different = pairs.fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(different) == 0
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn access(ip: &str, token: Option<&str>) -> Access {
        let hosts = vec!["mq.example.org".into()];
        let token = token.map(Into::into);
        Access::new(ip.parse().unwrap(), hosts, token, String::new(), false)
    }

    fn status(access: &Access, method: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri("/act");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        access
            .check(&parts)
            .map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn hosts_are_known_ones() {
        let here = access("127.0.0.1", None);
        let open = access("0.0.0.0", None);
        for (host, by_here, by_open) in [
            ("localhost", 200, 200),
            ("LOCALHOST:9822", 200, 200),
            ("127.0.0.1:9822", 200, 200),
            ("[::1]:9822", 200, 200),
            ("mq.example.org", 200, 200),
            ("10.0.0.7:80", 421, 200),
            ("evil.example", 421, 421),
            ("localhost.evil.example", 421, 421),
            ("127.0.0.1.evil.example:9822", 421, 421),
            ("127.0.0.1:x", 421, 421),
            ("[::1]x", 421, 421),
            (":80", 421, 421),
            ("", 421, 421),
        ] {
            let asked = [("host", host)];
            assert_eq!(status(&here, "GET", &asked), by_here, "{host}");
            assert_eq!(status(&open, "GET", &asked), by_open, "{host}");
        }
        assert_eq!(status(&here, "GET", &[]), 421);
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(status(&here, "GET", &twice), 421);
    }

    #[test]
    fn changes_come_from_these_pages_only() {
        let here = access("127.0.0.1", None);
        let own = ("origin", "http://localhost:9822");
        let same = ("sec-fetch-site", "same-origin");
        for (headers, expected) in [
            (&[own, same][..], 200),
            (&[("origin", "https://LOCALHOST:9822"), same], 200),
            (&[own], 403),
            (&[same], 403),
            (&[own, ("sec-fetch-site", "cross-site")], 403),
            (&[own, ("sec-fetch-site", "same-site")], 403),
            (&[own, ("sec-fetch-site", "none")], 403),
            (&[("origin", "null"), same], 403),
            (&[("origin", "http://localhost:1"), same], 403),
            (&[("origin", "http://evil.example"), same], 403),
            (
                &[("origin", "http://localhost:9822.evil.example"), same],
                403,
            ),
        ] {
            let mut all = vec![("host", "localhost:9822")];
            all.extend_from_slice(headers);
            assert_eq!(status(&here, "POST", &all), expected, "{all:?}");
            assert_eq!(status(&here, "GET", &all), 200);
        }
        let put = [("host", "localhost:9822"), own, same];
        assert_eq!(status(&here, "PUT", &put), 405);
    }

    #[test]
    fn the_token_is_a_password_or_a_bearer() {
        let guarded = access("127.0.0.1", Some("0123456789abcdef"));
        let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        for (given, expected) in [
            (basic("me:0123456789abcdef"), 200),
            (basic(":0123456789abcdef"), 200),
            ("bearer 0123456789abcdef".into(), 200),
            (basic("0123456789abcdef"), 401),
            (basic("0123456789abcdef:"), 401),
            (basic("me:0123456789abcdeF"), 401),
            ("Bearer 0123456789abcdef0".into(), 401),
            ("Bearer ".into(), 401),
            (String::new(), 401),
        ] {
            let asked = [("host", "localhost"), ("authorization", &*given)];
            assert_eq!(status(&guarded, "GET", &asked), expected, "{given}");
        }
        assert_eq!(status(&guarded, "GET", &[("host", "localhost")]), 401);
    }

    #[test]
    fn base_paths_are_plain() {
        for (given, path) in [("", ""), ("/", ""), ("/a/b/", "/a/b"), ("/q-1", "/q-1")] {
            assert_eq!(base_path(given).as_deref(), Ok(path));
        }
        for wrong in ["a", "/a b", "/a?b", "//a", "/a//b", "/<"] {
            assert!(base_path(wrong).is_err(), "{wrong}");
        }
    }
}
