//! Who may make changes: whoever has the token, and never a page of a foreign site; and who may
//! read what is offered to this machine alone.
//!
//! A browser sends a foreign page's requests to a local port gladly (and, with DNS rebinding, under
//! a name of the attacker's, so that the page can read the answers); the host and origin of the
//! request tell.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{routes::App, view::Failure};

/// Lets a change through, or says why not.
pub(crate) async fn changes(State(app): State<App>, request: Request, next: Next) -> Response {
    match check(request.headers(), &app.token) {
        Ok(()) => next.run(request).await,
        Err((status, error)) => {
            (status, axum::Json(Failure { error: error.to_owned() })).into_response()
        }
    }
}

/// Lets a request through that was not made under a foreign host name, where only this machine can
/// make requests: a name that leads here then is somebody's trick. Elsewhere names are the norm.
pub(crate) async fn reads(State(app): State<App>, request: Request, next: Next) -> Response {
    if !app.is_loopback || has_local_host(request.headers()) {
        return next.run(request).await;
    }
    let error = "this port answers under an IP address or `localhost` only, not under another host \
                 name: it listens on this machine alone";
    (StatusCode::FORBIDDEN, axum::Json(Failure { error: error.to_owned() })).into_response()
}

/// A request without host is no browser's.
fn has_local_host(headers: &HeaderMap) -> bool {
    headers.get(header::HOST).is_none_or(|host| host.to_str().is_ok_and(is_local_name))
}

fn check(headers: &HeaderMap, token: &str) -> Result<(), (StatusCode, &'static str)> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if !text(header::HOST).is_some_and(is_local_name) {
        return Err((
            StatusCode::FORBIDDEN,
            "changes are taken under an IP address or `localhost` only, not under another host name",
        ));
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
        if !origin.is_some_and(|(_, host)| is_local_name(host)) {
            return Err((StatusCode::FORBIDDEN, "changes are not taken from pages of other sites"));
        }
    }
    let given = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if given.is_some_and(|given| is_same(given.as_bytes(), token.as_bytes())) {
        return Ok(());
    }
    Err((
        StatusCode::UNAUTHORIZED,
        "changes need `Authorization: Bearer TOKEN`; the token is in the file `admin-token` of the \
         state directory",
    ))
}

/// Returns whether a host, with or without port, is an address or `localhost`: a name that nobody
/// else can make point here.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Compares without telling by its duration how much was right.
fn is_same(given: &[u8], expected: &[u8]) -> bool {
    let differences = given.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b));
    !expected.is_empty() && given.len() == expected.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(headers: &[(header::HeaderName, &str)]) -> Option<StatusCode> {
        let map = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        check(&map.collect(), "secret").err().map(|(status, _)| status)
    }

    #[test]
    fn a_change_needs_the_token_and_a_local_host() {
        let good = (header::AUTHORIZATION, "Bearer secret");
        let host = |name| (header::HOST, name);
        for name in ["127.0.0.1:9464", "localhost", "[::1]:80", "10.0.0.7"] {
            assert_eq!(status(&[good.clone(), host(name)]), None, "{name}");
        }
        for name in ["evil.example", "127.0.0.1.evil.example:9464", "[evil]:1", ""] {
            let refused = status(&[good.clone(), host(name)]);
            assert_eq!(refused, Some(StatusCode::FORBIDDEN), "{name}");
        }
        for value in ["Bearer wrong!", "Bearer ", "Bearer secret2", "secret"] {
            let refused = status(&[(header::AUTHORIZATION, value), host("localhost")]);
            assert_eq!(refused, Some(StatusCode::UNAUTHORIZED), "{value}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let with = |origin| {
            let good = (header::AUTHORIZATION, "Bearer secret");
            status(&[good, (header::HOST, "localhost:9464"), (header::ORIGIN, origin)])
        };
        assert_eq!(with("http://localhost:9464"), None);
        assert_eq!(with("https://evil.example"), Some(StatusCode::FORBIDDEN));
        assert_eq!(with("null"), Some(StatusCode::FORBIDDEN));
    }

    #[test]
    fn an_empty_token_opens_nothing() {
        assert!(!is_same(b"", b""));
    }
}
