//! Requests of the admin port and their answers.
//!
//! No request changes anything, so only GET and HEAD are known. The page's headers forbid
//! everything that does not come from here, so text from the server cannot become a script. While
//! the port is open to this machine alone, the request must be addressed to it by a local name: a
//! web page that resolved its own name to this address could otherwise read the answers.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::SyncSender;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::desk::{Asked, Question, ask};
use crate::flash_watch::unready;
use crate::server::Server;

/// The headers of every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Prometheus' content type.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page: path, kind and content.
const ASSETS: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("page.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
    ("/charts.js", "text/javascript; charset=utf-8", include_str!("charts.js")),
    ("/insight.js", "text/javascript; charset=utf-8", include_str!("insight.js")),
    ("/icon.svg", "image/svg+xml", include_str!("icon.svg")),
];

/// The sources of answers.
pub struct Site<'s> {
    /// The server.
    pub server: &'s Server,
    /// The thread that collects.
    pub desk: SyncSender<Asked>,
    /// Only this machine can connect.
    pub is_local: bool,
}

/// An answer before it is one of HTTP.
struct Answer {
    status: StatusCode,
    kind: &'static str,
    body: Bytes,
}

impl Answer {
    fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self { status, kind: TEXT, body: text.into() }
    }

    fn content(kind: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, kind, body: body.into() }
    }
}

impl Site<'_> {
    /// Answers a request. Its body, if it has one, is not read.
    pub async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let is_allowed = matches!(*request.method(), Method::GET | Method::HEAD);
        let answer = if !self.is_addressed(request) {
            Answer::text(StatusCode::FORBIDDEN, "this name is not one of this machine's own\n")
        } else if !is_allowed {
            Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are known here\n")
        } else {
            self.find(request.uri().path()).await
        };
        let mut response = Response::new(Full::new(answer.body));
        *response.status_mut() = answer.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.kind));
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if answer.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }

    /// Whether the request names a host that it may.
    fn is_addressed<B>(&self, request: &Request<B>) -> bool {
        if !self.is_local {
            return true;
        }
        let named = request.headers().get_all(header::HOST).iter();
        let mut names = named.map(|name| name.to_str().unwrap_or_default());
        match (names.next(), names.next()) {
            (Some(name), None) => is_local_name(name),
            // HTTP/1.0, which no browser speaks, has none.
            (None, _) => request.version() == hyper::Version::HTTP_10,
            _ => false,
        }
    }

    async fn find(&self, path: &str) -> Answer {
        if let Some((_, kind, content)) = ASSETS.into_iter().find(|(known, ..)| *known == path) {
            return Answer::content(kind, content);
        }
        match path {
            "/healthz" => Answer::text(StatusCode::OK, "ok\n"),
            "/readyz" => {
                let unanswered_s = self.server.cache.flash_unanswered_s().into();
                match unready(self.server.phase.get(), unanswered_s) {
                    None => Answer::text(StatusCode::OK, "ok\n"),
                    Some(why) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
                }
            }
            "/metrics" => self.ask(Question::Metrics, METRICS).await,
            "/api/stats" => self.ask(Question::Stats, JSON).await,
            "/api/history" => self.ask(Question::History, JSON).await,
            _ => Answer::text(StatusCode::NOT_FOUND, "there is nothing here\n"),
        }
    }

    async fn ask(&self, question: Question, kind: &'static str) -> Answer {
        match ask(&self.desk, question).await {
            Some(text) => Answer::content(kind, text),
            None => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "too many ask\n"),
        }
    }
}

/// Whether a `Host` is this machine's own name, perhaps with a port. Any address that never leaves
/// the machine is: a page that resolves its own name to this machine is recognised by that name
/// alone.
fn is_local_name(name: &str) -> bool {
    let host = match name.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && !host.ends_with(':') => host,
        _ => name,
    };
    let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|ip: Ipv4Addr| ip.is_loopback())
        || v6.and_then(|host| host.parse().ok()).is_some_and(|ip: Ipv6Addr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use futures_util::FutureExt;

    use super::*;
    use crate::options::Options;
    use crate::server::Phase;
    use crate::start::tests::Parts;

    /// Regression: while a worker hung, and had a lock under which statistics are read, nothing
    /// told whether the server was well.
    #[test]
    fn health_is_told_while_statistics_are_not_to_be_had() {
        let parts = Parts::new(Options::default());
        parts.server.phase.set(Phase::Serving);
        let (desk, _questions) = sync_channel(1);
        let site = Site { server: &parts.server, desk, is_local: false };
        let status = |path| {
            let request = Request::get(path).body(()).expect("a request");
            let response = site.answer(&request).now_or_never();
            response.map(|response| response.status().as_u16())
        };
        assert_eq!(status("/metrics"), None, "it waits");
        assert_eq!(status("/api/stats"), Some(503), "no more than these wait");
        assert_eq!((status("/healthz"), status("/readyz")), (Some(200), Some(200)));
        assert_eq!(status("/"), Some(200));
    }

    #[test]
    fn only_local_names_are_local() {
        for name in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:9150",
            "127.0.0.2",
            "127.0.1.1:9150",
            "[::1]",
            "[::1]:9150",
        ] {
            assert!(is_local_name(name), "{name}");
        }
        for name in [
            "",
            "example.com",
            "localhost.example.com:80",
            "127.0.0.1.example.com",
            "127.0.0.2.example.com:9150",
            "128.0.0.1",
            "[::2]",
            "[127.0.0.1]",
            "localhost:x",
            "localhost:99999",
            "localhost:80:80",
            "[::1]x",
            "::1",
            "evil@localhost",
        ] {
            assert!(!is_local_name(name), "{name}");
        }
    }

    #[test]
    fn nothing_in_the_page_comes_from_elsewhere_or_is_read_as_code() {
        for (path, _, content) in ASSETS {
            for banned in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "https://",
                "//cdn",
                " style=\"",
                " onclick=",
                "@import",
            ] {
                assert!(!content.contains(banned), "{path} has {banned}");
            }
            // The name of SVG is not an address.
            let rest = content.replace("http://www.w3.org/2000/svg", "");
            assert!(!rest.contains("http://"), "{path} names an address");
        }
    }
}
