//! `web`: what is refused, and that nothing from a queue becomes a part of a page.

mod common;

use common::{
    program,
    site::{query, Site},
};
use redis_mq_testkit::{call, wait_until, ReplyExt as _, Server, PATIENCE};

const TOKEN: &str = "correct-horse-battery";
/// As it would have to stand in a page to do harm.
const SCRIPT: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>";
/// Every view of a queue called `q` with a message `m`.
const VIEWS: [&str; 12] = [
    "/",
    "/live/queues",
    "/queue?name=q",
    "/queue?name=q&status=dead",
    "/live/queue?name=q",
    "/search?name=q&find=*",
    "/message?name=q&id=m",
    "/payload?name=q&id=m",
    "/groups?name=q",
    "/limits?name=q",
    "/schedules?name=q",
    "/nothing",
];

fn with_message() -> Server {
    let server = Server::start();
    call!(server.conn(), "MQ.ENQUEUE", "q", "x", "ID", "m").unwrap();
    server
}

/// Every action, as a form of a page would send it after the question.
fn actions() -> Vec<Vec<(&'static str, &'static str)>> {
    let name = ("name", "q");
    vec![
        vec![("do", "pause"), name],
        vec![("do", "resume"), name],
        vec![("do", "redrive"), name, ("id", "m"), ("sure", "1")],
        vec![("do", "redrive-all"), name, ("sure", "1")],
        vec![("do", "drop"), name, ("id", "m"), ("sure", "1")],
        vec![("do", "cancel"), name, ("id", "m"), ("sure", "1")],
        vec![("do", "purge"), name, ("status", "ALL"), ("sure", "1")],
        vec![("do", "limit"), name, ("length", "7")],
        vec![("do", "fire"), name, ("schedule", "s")],
        vec![("do", "unschedule"), name, ("schedule", "s"), ("sure", "1")],
    ]
}

/// A digest of all data: it changes with whatever changes.
fn digest(server: &Server) -> Vec<u8> {
    call!(server.conn(), "DUMP", "q").unwrap().bytes().to_vec()
}

#[test]
fn nothing_is_changed_from_another_site() {
    let server = with_message();
    let site = Site::start(&server, &[]);
    let before = digest(&server);
    let own = format!("http://{}", site.address);
    let elsewhere = "http://evil.example";
    for headers in [
        // What browsers send from a page of another site, in a form and by a script.
        &[("Origin", elsewhere), ("Sec-Fetch-Site", "cross-site")][..],
        &[("Origin", "null"), ("Sec-Fetch-Site", "cross-site")],
        // From another port of this machine.
        &[
            ("Origin", "http://127.0.0.1:1"),
            ("Sec-Fetch-Site", "same-site"),
        ],
        // From an old browser, and from none.
        &[("Origin", elsewhere)],
        &[("Origin", &own)],
        &[],
        // A mix that no browser sends.
        &[("Origin", elsewhere), ("Sec-Fetch-Site", "same-origin")],
        &[("Origin", &own), ("Sec-Fetch-Site", "none")],
        &[("Sec-Fetch-Site", "same-origin")],
    ] {
        for form in actions() {
            let mut all = vec![("Host", &*site.address)];
            all.extend_from_slice(headers);
            let answer = site.send("POST", "/act", &all, &query(&form));
            assert_eq!(answer.status, 403, "{headers:?} {form:?}");
        }
    }
    // What changes something is not done by an address alone.
    for form in actions() {
        let answer = site.get(&format!("/act?{}", query(&form)));
        assert_eq!(answer.status, 404);
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let headers = [
            ("Host", &*site.address),
            ("Origin", &*own),
            ("Sec-Fetch-Site", "same-origin"),
        ];
        assert_eq!(site.send(method, "/act", &headers, "").status, 405);
    }
    assert_eq!(digest(&server), before);
}

#[test]
fn a_name_that_somebody_made_lead_here_is_not_answered() {
    let server = with_message();
    let site = Site::start(&server, &["--host", "mq.example.org"]);
    let port = site.address.split(':').nth(1).unwrap();
    let before = digest(&server);
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.1.2.3",
    ] {
        let host = format!("{host}:{port}");
        let origin = format!("http://{host}");
        let headers = [
            ("Host", &*host),
            ("Origin", &*origin),
            ("Sec-Fetch-Site", "same-origin"),
        ];
        for view in VIEWS {
            let answer = site.send("GET", view, &headers, "");
            assert_eq!(answer.status, 421, "{host} {view}");
            assert!(!answer.body.contains('<'), "{answer:?}");
        }
        for form in actions() {
            let answer = site.send("POST", "/act", &headers, &query(&form));
            assert_eq!(answer.status, 421, "{host}");
        }
    }
    assert_eq!(
        site.send(
            "GET",
            "http://evil.example/",
            &[("Host", &site.address)],
            ""
        )
        .status,
        421
    );
    for host in [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "mq.example.org",
        "MQ.example.org:443",
    ] {
        assert_eq!(
            site.send("GET", "/", &[("Host", host)], "").status,
            200,
            "{host}"
        );
    }
    assert_eq!(digest(&server), before);
}

#[test]
fn every_answer_keeps_scripts_frames_and_other_sites_away() {
    let server = with_message();
    let site = Site::start(&server, &[]);
    wait_until(PATIENCE, || site.get("/live/queue?name=q").status == 200);
    let refused = site.send("POST", "/act", &[("Host", &site.address)], "");
    let unknown = site.send("GET", "/", &[("Host", "evil.example")], "");
    let assets = ["/style.css", "/live.js", "/icon.svg"];
    let asked = VIEWS.iter().chain(&assets).map(|path| site.get(path));
    for answer in asked.chain([refused, unknown]) {
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(part), "{answer:?}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(
            answer.header("cross-origin-resource-policy"),
            Some("same-origin")
        );
        let open = answer
            .headers
            .iter()
            .find(|(name, _)| name.starts_with("access-control"));
        assert_eq!(open, None);
        assert_eq!(answer.header("set-cookie"), None);
    }
    // Nothing inline that the policy would have to allow, nothing from outside.
    for view in VIEWS.iter().filter(|view| !view.starts_with("/payload")) {
        let body = site.get(view).body;
        for part in ["<style", " style=", " onclick", "javascript:", "//"] {
            assert!(!body.contains(part), "{part} in {view}: {body}");
        }
        assert!(body.matches("<script").count() <= 1, "{body}");
    }
}

#[test]
fn nothing_from_a_queue_becomes_a_part_of_a_page() {
    let server = Server::start();
    let mut conn = server.conn();
    let (queue, id, group) = (
        format!("q{SCRIPT}"),
        format!("m{SCRIPT}"),
        format!("g{SCRIPT}"),
    );
    for number in 0..2 {
        let id = format!("{id}{number}");
        call!(
            conn,
            "MQ.ENQUEUE",
            &queue,
            SCRIPT,
            "ID",
            id,
            "HEADERS",
            SCRIPT,
            "GROUP",
            &group
        )
        .unwrap();
    }
    let delivery = call!(conn, "MQ.DEQUEUE", &queue).unwrap();
    let token = delivery.items()[3].int();
    call!(
        conn,
        "MQ.DONE",
        &queue,
        format!("{id}0"),
        token,
        "ERROR",
        "REASON",
        SCRIPT
    )
    .unwrap();
    let site = Site::start(&server, &[]);
    wait_until(PATIENCE, || site.get("/").body.contains("alert"));
    let path = |path: &str, more: &[(&str, &str)]| {
        let fields = [&[("name", queue.as_str())], more].concat();
        format!("{path}?{}", query(&fields))
    };
    let dead = [("status", "dead")];
    let sent = [("do", "redrive"), ("name", &*queue), ("id", &*id)];
    let mut pages = vec![site.post(&sent)];
    for view in [
        "/".into(),
        "/live/queues".into(),
        format!("/?{}", query(&[("find", SCRIPT), ("sort", SCRIPT)])),
        path("/queue", &[]),
        path("/queue", &dead),
        path("/queue", &[("status", SCRIPT)]),
        path(
            "/queue",
            &[("after", SCRIPT), ("note", SCRIPT), ("count", SCRIPT)],
        ),
        path("/live/queue", &[]),
        path("/search", &[("find", "*")]),
        path("/search", &[("find", SCRIPT)]),
        path("/message", &[("id", &format!("{id}0"))]),
        path("/message", &[("id", &format!("{id}1")), ("as", "hex")]),
        path("/message", &[("id", SCRIPT)]),
        path("/groups", &[]),
        path("/groups", &[("cursor", SCRIPT)]),
        path("/limits", &[("of", "group"), ("group", &group)]),
        path("/schedules", &[("cursor", SCRIPT)]),
    ] {
        pages.push(site.get(&view));
    }
    for page in pages {
        let body = &page.body;
        assert!(body.contains("alert(1)") || page.status != 200, "{page:?}");
        assert!(!body.contains("<img"), "{page:?}");
        let scripts = body.matches("<script").count();
        let own = body
            .matches("<script src=\"/live.js\" defer></script>")
            .count();
        assert_eq!(scripts, own, "{page:?}");
        assert!(
            !body.contains("\"'>") && !body.contains("\"'&gt;"),
            "{page:?}"
        );
    }
    // A payload by itself is no page.
    let saved = site.get(&path("/payload", &[("id", &format!("{id}0"))]));
    assert_eq!(
        saved.header("content-type"),
        Some("application/octet-stream")
    );
    assert_eq!(saved.ok(), SCRIPT);
    // Names go through forms unharmed.
    site.post(&[("do", "pause"), ("name", &queue)]);
    assert_eq!(
        call!(conn, "MQ.INFO", &queue).unwrap().fields()["paused"].int(),
        1
    );
}

#[test]
fn read_only_refuses_whatever_changes() {
    let server = with_message();
    let site = Site::start(&server, &["--read-only"]);
    wait_until(PATIENCE, || site.get("/live/queue?name=q").status == 200);
    let before = digest(&server);
    for form in actions() {
        let answer = site.post(&form);
        assert_eq!(answer.status, 403, "{form:?}");
        assert!(answer.body.contains("reading only"), "{answer:?}");
    }
    assert_eq!(digest(&server), before);
    for view in VIEWS {
        let answer = site.get(view);
        assert!(
            answer.status == 200 || view == "/nothing",
            "{view}: {answer:?}"
        );
        assert!(
            !answer.body.contains("method=\"post\"") || view.starts_with("/limits"),
            "{view}"
        );
    }
}

#[test]
fn without_the_token_nothing_is_told() {
    let server = with_message();
    let site = Site::start(&server, &["--token", TOKEN]);
    let host = ("Host", &*site.address);
    for view in VIEWS.iter().chain(&["/style.css", "/live.js"]) {
        let answer = site.send("GET", view, &[host], "");
        assert_eq!(answer.status, 401, "{view}");
        assert!(answer
            .header("www-authenticate")
            .unwrap()
            .starts_with("Basic"));
        let wrong = ("Authorization", "Bearer correct-horse-batterz");
        assert_eq!(site.send("GET", view, &[host, wrong], "").status, 401);
    }
    assert_eq!(site.post(&[("do", "pause"), ("name", "q")]).status, 401);
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(
        site.send("GET", "/", &[host, ("Authorization", &bearer)], "")
            .status,
        200
    );
    // As the user `me` with the token as the password.
    let basic = "Basic bWU6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5";
    assert_eq!(
        site.send("GET", "/", &[host, ("Authorization", basic)], "")
            .status,
        200
    );
    // The token is not a way around the rest.
    let evil = [("Host", "evil.example"), ("Authorization", &*bearer)];
    assert_eq!(site.send("GET", "/", &evil, "").status, 421);
    let cross = [
        host,
        ("Authorization", &bearer),
        ("Sec-Fetch-Site", "cross-site"),
    ];
    assert_eq!(
        site.send("POST", "/act", &cross, "do=pause&name=q").status,
        403
    );
}

#[test]
fn another_address_needs_a_guard() {
    let server = Server::start();
    let start = |args: &[&str]| {
        let ended = program()
            .arg("web")
            .args(args)
            .args(["--url", &server.url()])
            .output();
        common::Ended::from(ended.unwrap())
    };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let line = start(&["--listen", address]).failed(2);
        assert!(
            line.contains("--token") && line.contains("--behind-proxy"),
            "{line}"
        );
    }
    let line = start(&["--token", "short"]).failed(2);
    assert!(line.contains("16 letters"), "{line}");
    // With one it goes on to bind, which this address of nobody's refuses.
    start(&["--listen", "192.0.2.1:0", "--token", TOKEN]).failed(5);
    start(&["--listen", "192.0.2.1:0", "--behind-proxy"]).failed(5);
}
