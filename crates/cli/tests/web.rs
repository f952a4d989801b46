//! `web`: each view, by plain HTTP, and how it bears many queues, outages and its end.

mod common;

use common::{
    site::{bury, Site},
    worker::signal,
};
use redis_mq_testkit::{call, wait_until, Proxy, ReplyExt as _, Server, PATIENCE};

/// Waits for a page that contains that.
#[track_caller]
fn wait_for(site: &Site, path: &str, part: &str) -> String {
    let mut body = String::new();
    wait_until(PATIENCE, || {
        body = site.get(path).body;
        body.contains(part)
    });
    body
}

#[test]
fn all_queues_are_shown_with_their_counts() {
    let server = Server::start();
    let mut conn = server.conn();
    for _ in 0..1_234 {
        call!(conn, "MQ.ENQUEUE", "mails", "x").unwrap();
    }
    call!(conn, "MQ.PAUSE", "numbers").unwrap();
    call!(conn, "SET", "other", "x").unwrap();
    let site = Site::start(&server, &[]);
    let body = wait_for(&site, "/", "1\u{202f}234");
    let body = match body.contains("paused") {
        true => body,
        false => wait_for(&site, "/", "paused"),
    };
    assert!(
        body.contains("2 queues") && !body.contains("other"),
        "{body}"
    );
    assert!(body.find("mails") < body.find("numbers"));
    let sorted = site.get("/?sort=queue&reverse=1").ok();
    assert!(sorted.find("numbers") < sorted.find("mails"), "{sorted}");
    let found = site.get("/?find=MAIL").ok();
    assert!(
        found.contains("mails") && !found.contains("numbers"),
        "{found}"
    );
    // What the script renews is the same table without the page around it.
    let part = site.get("/live/queues?find=mail").ok();
    assert!(
        part.contains("data-row=\"mails\"") && !part.contains("<html"),
        "{part}"
    );
    // A queue that is gone goes from the page too.
    call!(conn, "DEL", "numbers").unwrap();
    wait_for(&site, "/", "1 queue");
}

#[test]
fn a_queue_is_shown_by_status_page_by_page() {
    let server = Server::start();
    let mut conn = server.conn();
    for number in 0..120 {
        let id = format!("m{number:03}");
        call!(conn, "MQ.ENQUEUE", "q", format!("payload {id}"), "ID", &id).unwrap();
    }
    call!(
        conn,
        "MQ.ENQUEUE",
        "q",
        "x",
        "ID",
        "late",
        "DELAY",
        3_600_000
    )
    .unwrap();
    let site = Site::start(&server, &[]);
    let mut path = "/queue?name=q&status=queued".to_owned();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let body = site.get(&path).ok();
        let ids = body.split("id=m").skip(1).map(|rest| rest[..3].to_owned());
        seen.extend(ids);
        assert!(body.contains("payload m"), "{body}");
        let Some((_, next)) = body.split_once("rel=\"next\" href=\"") else {
            break;
        };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    let expected: Vec<String> = (0..120).map(|number| format!("{number:03}")).collect();
    assert_eq!(seen, expected);
    let delayed = site.get("/queue?name=q&status=queued-with-backoff").ok();
    assert!(
        delayed.contains("late") && !delayed.contains("m000"),
        "{delayed}"
    );
    assert!(site.get("/queue?name=q").ok().contains("m000"));
    // Groups have turns instead of an order to page through.
    call!(conn, "MQ.ENQUEUE", "q", "x", "GROUP", "g").unwrap();
    let body = site.get("/queue?name=q").ok();
    assert!(!body.contains("rel=\"next\"") && body.contains("All that are ready"));
    for (path, status) in [
        ("/queue?name=nowhere", 404),
        ("/queue", 400),
        ("/nothing", 404),
        ("/message?name=q&id=nothing", 404),
    ] {
        assert_eq!(site.get(path).status, status, "{path}");
    }
}

#[test]
fn messages_are_found_by_id_and_by_pattern() {
    let server = Server::start();
    let mut conn = server.conn();
    for number in 0..300 {
        call!(
            conn,
            "MQ.ENQUEUE",
            "q",
            "x",
            "ID",
            format!("order:{number}")
        )
        .unwrap();
    }
    let site = Site::start(&server, &[]);
    let answer = site.get("/search?name=q&find=order:7");
    let place = answer.header("location").unwrap();
    assert_eq!(
        (answer.status, place),
        (303, "/message?name=q&id=order%3A7")
    );
    let body = site.get("/search?name=q&find=order:29*").ok();
    assert!(
        body.contains("11 found") && body.contains("order:299"),
        "{body}"
    );
    let body = site.get("/search?name=q&find=order:29*&status=dead").ok();
    assert!(body.contains("0 found"), "{body}");
    assert!(site
        .get("/search?name=q&find=nothing")
        .ok()
        .contains("0 found"));
    // All of them, page by page.
    let mut path = "/search?name=q&find=*".to_owned();
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let body = site.get(&path).ok();
        let ids = body.split("id=order%3A").skip(1);
        seen.extend(ids.map(|rest| rest.split('"').next().unwrap().to_owned()));
        let Some((_, next)) = body.split_once("rel=\"next\" href=\"") else {
            break;
        };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(seen.len(), 300);
}

#[test]
fn a_message_is_shown_with_all_that_is_known() {
    let server = Server::start();
    let mut conn = server.conn();
    let headers = "traceparent: 00-4bf9";
    let json = r#"{"to":"ada"}"#;
    call!(
        conn,
        "MQ.ENQUEUE",
        "q",
        json,
        "ID",
        "1",
        "HEADERS",
        headers,
        "GROUP",
        "shop",
        "ATTEMPTS",
        5
    )
    .unwrap();
    call!(
        conn,
        "MQ.ENQUEUE",
        "q",
        &b"\x81\xa2to\xa3ada"[..],
        "ID",
        "2"
    )
    .unwrap();
    call!(
        conn,
        "MQ.ENQUEUE",
        "q",
        &b"\xff\x00"[..],
        "ID",
        &b"\xfe\n"[..]
    )
    .unwrap();
    call!(conn, "MQ.ENQUEUE", "q", "long ".repeat(20_000), "ID", "4").unwrap();
    bury(&mut conn, "q", "5", "no such address");
    let site = Site::start(&server, &[]);
    let body = site.get("/message?name=q&id=1").ok();
    for part in [
        "traceparent: 00-4bf9",
        "shop",
        "{&quot;to&quot;:&quot;ada&quot;}",
        "JSON",
        "queued",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    let body = site.get("/message?name=q&id=1&as=hex").ok();
    assert!(body.contains("7b 22 74 6f 22"), "{body}");
    let body = site.get("/message?name=q&id=2").ok();
    assert!(body.contains("MessagePack") && body.contains("{&quot;to&quot;: &quot;ada&quot;}"));
    // The link of the list leads to an id that is no text.
    let list = site.get("/queue?name=q&status=queued").ok();
    let link = list
        .split('"')
        .find(|part| part.contains("id=%5Cxfe"))
        .unwrap();
    let body = site.get(&link.replace("&amp;", "&")).ok();
    assert!(
        body.contains("2 bytes, hex") && body.contains("ff00"),
        "{body}"
    );
    let body = site.get("/message?name=q&id=4").ok();
    assert!(body.contains("100000 bytes, text, the first 65536 shown"));
    assert!(site
        .get("/message?name=q&id=5")
        .ok()
        .contains("no such address"));
    let mut done = |id: &str, verdict: &[&str]| {
        call!(conn, "MQ.ENQUEUE", "r", "x", "ID", id).unwrap();
        let token = call!(conn, "MQ.DEQUEUE", "r").unwrap().items()[3].int();
        call!(conn, "MQ.DONE", "r", id, token, verdict).unwrap();
    };
    done("r1", &["RESULT", "<b>seven</b>", "RETAIN", "3600000"]);
    done("r2", &[]);
    let body = site.get("/message?name=r&id=r1").ok();
    assert!(
        body.contains("done at") && body.contains("&lt;b&gt;seven"),
        "{body}"
    );
    assert_eq!(
        site.get("/payload?name=r&id=r1&of=result").ok(),
        "<b>seven</b>"
    );
    assert_eq!(site.get("/message?name=r&id=r2").status, 404);
    let saved = site.get("/payload?name=q&id=1");
    assert_eq!(
        saved.header("content-type"),
        Some("application/octet-stream")
    );
    assert!(saved
        .header("content-disposition")
        .unwrap()
        .starts_with("attachment"));
    assert_eq!(saved.ok(), json);
}

#[test]
fn few_commands_are_sent_however_many_queues_and_browsers_there_are() {
    let server = Server::start();
    let mut conn = server.conn();
    for number in 0..200 {
        call!(conn, "MQ.PAUSE", format!("q{number}")).unwrap();
    }
    let site = Site::start(&server, &["--budget", "8"]);
    wait_for(&site, "/", "200 queues");
    let sent = |conn: &mut redis_mq_testkit::redis::Connection| {
        let stats = call!(*conn, "INFO", "commandstats").unwrap().text();
        let calls = |line: &str| -> Option<u64> {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let ours = name == "scan" || name == "memory|usage" || name.starts_with("mq.");
            ours.then(|| rest.split(',').next().unwrap().parse().unwrap())
        };
        stats.lines().filter_map(calls).sum::<u64>()
    };
    let (start, before) = (std::time::Instant::now(), sent(&mut conn));
    for _ in 0..4 {
        for page in [
            "/",
            "/?sort=ready",
            "/live/queues",
            "/queue?name=q7",
            "/live/queue?name=q7",
        ] {
            site.get(page);
        }
    }
    let (after, took) = (sent(&mut conn), start.elapsed());
    // A second that has begun counts as a whole one, and so does the one before.
    let most = 8 * (took.as_secs() + 2);
    assert!(
        after > before && after - before <= most,
        "{} in {took:?}",
        after - before
    );
}

#[test]
fn an_outage_is_told_and_ends() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    call!(server.conn(), "MQ.ENQUEUE", "mails", "x").unwrap();
    let site = Site::at(&format!("redis://{}/", proxy.addr()), &[]);
    wait_for(&site, "/", "mails");
    proxy.refuse();
    proxy.cut();
    let page = wait_for(&site, "/", "does not answer");
    assert!(page.contains("mails"), "what was known is shown: {page}");
    assert_eq!(site.get("/queue?name=mails").status, 503);
    proxy.resume();
    wait_until(PATIENCE, || site.get("/queue?name=mails").status == 200);
    wait_until(PATIENCE, || !site.get("/").body.contains("does not answer"));
}

#[test]
fn it_ends_when_it_is_told_to() {
    let server = Server::start();
    let mut site = Site::start(&server, &[]);
    site.get("/");
    signal("TERM", site.id());
    assert_eq!(site.ended(), Some(0));
}

#[test]
fn paths_are_under_the_base_path() {
    let server = Server::start();
    call!(server.conn(), "MQ.PAUSE", "q").unwrap();
    let site = Site::start(&server, &["--base-path", "/admin/mq/"]);
    assert_eq!(site.base, "/admin/mq");
    let body = wait_for(&site, "/", "data-row=\"q\"");
    let links = body
        .split("href=\"")
        .skip(1)
        .chain(body.split("src=\"").skip(1));
    for link in links.map(|rest| rest.split('"').next().unwrap()) {
        assert!(
            link.starts_with("/admin/mq/") || link.starts_with('#'),
            "{link}"
        );
    }
    let host = [("Host", &*site.address)];
    assert_eq!(site.send("GET", "/queue?name=q", &host, "").status, 404);
    assert_eq!(site.send("GET", "/admin/mq", &host, "").status, 303);
    let done = site.post(&[("do", "resume"), ("name", "q")]);
    assert_eq!(done.header("location"), Some("/admin/mq/queue?name=q"));
}
