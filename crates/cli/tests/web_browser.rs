//! `web` in a real browser: each view and each action, with and without scripts, and what other
//! sites can do from there.

#[path = "common/browser.rs"]
mod browser;
mod common;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use browser::{Browser, PATIENCE};
use common::site::{query, Site};
use redis_mq_testkit::{
    call, redis::Connection, wait_until, workspace_root, ReplyExt as _, Server,
};
use serde_json::json;

/// Sets a mark if it is run.
const SCRIPT: &str =
    "\"'><script>window.harmed=1</script><img src=x onerror=window.harmed=1><b id=harm>";
/// Pictures of the front page are not larger.
const PICTURE: usize = 150_000;

fn count(conn: &mut Connection, queue: &str, field: &str) -> i64 {
    call!(*conn, "MQ.INFO", queue).unwrap().fields()[field].int()
}

/// A shop with some life in it.
fn fill(conn: &mut Connection) {
    let add = |conn: &mut Connection, queue: &str, number: usize, more: &[&str]| {
        let payload =
            json!({"to": format!("customer-{number}@example.org"), "order": 1_000 + number});
        let mut command = redis_mq_testkit::redis::cmd("MQ.ENQUEUE");
        command.arg(queue).arg(payload.to_string());
        command.arg("ID").arg(format!("{queue}:{}", 1_000 + number));
        command
            .arg("HEADERS")
            .arg(format!("traceparent: 00-{number:032x}-01"));
        command.arg(more).query::<()>(conn).unwrap();
    };
    for (queue, ready, delayed) in [
        ("mails", 212, 40),
        ("invoices", 31, 7),
        ("thumbnails", 1480, 0),
    ] {
        for number in 0..ready {
            add(conn, queue, number, &[]);
        }
        for number in ready..ready + delayed {
            add(conn, queue, number, &["DELAY", "5400000"]);
        }
        let took = call!(*conn, "MQ.DEQUEUE", queue, "COUNT", 12).unwrap();
        for (at, delivery) in took
            .items()
            .chunks(1)
            .enumerate()
            .filter(|(at, _)| at % 2 == 0)
        {
            let delivery = delivery[0].items();
            let (id, token) = (delivery[0].bytes(), delivery[3].int());
            match at % 4 {
                0 => call!(
                    *conn,
                    "MQ.DONE",
                    queue,
                    id,
                    token,
                    "ERROR",
                    "REASON",
                    "no such mailbox"
                ),
                _ => call!(*conn, "MQ.DONE", queue, id, token),
            }
            .unwrap();
        }
    }
    for shop in ["shop-7", "shop-9"] {
        call!(*conn, "MQ.ENQUEUE", "webhooks", "{}", "GROUP", shop).unwrap();
    }
    call!(*conn, "MQ.PAUSE", "webhooks").unwrap();
    call!(*conn, "MQ.LIMIT", "mails", "RATE", 50, 60_000).unwrap();
}

/// Keeps the picture where the test is asked to, and looks that the page has one.
fn keep(browser: &Browser, name: &str) {
    let picture = browser.picture();
    assert!(
        picture.starts_with(b"\x89PNG") && picture.len() < PICTURE,
        "{}",
        picture.len()
    );
    let path = workspace_root().join("docs/images").join(name);
    if std::env::var_os("UPDATE_IMAGES").is_some() {
        fs::write(&path, picture).unwrap();
    }
    let kept = fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(kept.len() < PICTURE as u64);
}

#[test]
fn each_view_and_each_action_works_in_a_browser() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let server = Server::start();
    let mut conn = server.conn();
    fill(&mut conn);
    let site = Site::start(&server, &["--budget", "50"]);
    let home = format!("http://{}/", site.address);
    browser.open(&home);
    browser.wait_for("thumbnails");
    browser.wait_for("paused");
    // Live, without a new page; some samples make a line.
    browser.run("window.same = true");
    for number in 0..150 {
        call!(
            conn,
            "MQ.ENQUEUE",
            "invoices",
            "x",
            "ID",
            format!("new:{number}")
        )
        .unwrap();
        if number % 50 == 0 {
            let lines = number / 50 + 1;
            wait_until(PATIENCE, || {
                browser
                    .run("return document.querySelectorAll('[data-row=invoices] polyline').length")
                    == 1
                    && browser
                        .run(
                            "return document.querySelector('[data-row=invoices] polyline')\
                         .getAttribute('points').split(' ').length",
                        )
                        .as_i64()
                        > Some(lines)
            });
        }
    }
    let ready = count(&mut conn, "invoices", "queued").to_string();
    browser.wait_for(&ready);
    assert_eq!(browser.run("return window.same"), true);
    keep(&browser, "queues.png");
    // By keyboard alone to one queue.
    browser.write_on("/");
    browser.write_on("mail\u{e007}");
    wait_until(PATIENCE, || browser.url().contains("find=mail"));
    assert!(!browser.text().contains("thumbnails"));
    browser.follow("mails");
    browser.wait_for("wait 50 / 95 / 99 %");
    browser.follow("dead");
    browser.wait_for("no such mailbox");
    keep(&browser, "queue.png");
    // Letters: two selected, then all, each after the question.
    let dead = count(&mut conn, "mails", "dead");
    for number in [1, 2] {
        let select = format!("tbody tr:nth-child({number}) input[type=checkbox]");
        browser.click(&browser.find(&select));
    }
    browser.press("Send the selected again");
    browser.wait_for("Send 2 dead letters again?");
    browser.press("Yes");
    browser.wait_for("2 sent again");
    assert_eq!(count(&mut conn, "mails", "dead"), dead - 2);
    browser.press("Send all");
    browser.wait_for(&format!("Send {} dead letter", dead - 2));
    browser.press("Yes");
    browser.wait_for("sent again");
    assert_eq!(count(&mut conn, "mails", "dead"), 0);
    // Pause for a while, and go on.
    browser.write(&browser.find("input[name=for]"), "1h");
    browser.press("Pause");
    browser.wait_for("goes on in");
    assert_eq!(count(&mut conn, "mails", "paused"), 1);
    browser.press("Resume");
    wait_until(PATIENCE, || count(&mut conn, "mails", "paused") == 0);
    // A message by its id, and away with it.
    browser.write(&browser.find("input[type=search]"), "mails:1100\u{e007}");
    browser.wait_for("customer-100@example.org");
    assert!(browser.text().contains("traceparent: 00-"));
    browser.follow("as hex");
    browser.wait_for("7b 22");
    browser.press("Remove it");
    browser.wait_for("Remove 1 message?");
    browser.press("Yes");
    browser.wait_for("1 removed");
    assert_eq!(
        call!(conn, "MQ.STATUS", "mails", "mails:1100").unwrap(),
        redis_mq_testkit::Value::Nil
    );
    browser.write(&browser.find("input[type=search]"), "mails:11?9\u{e007}");
    browser.wait_for("10 found");
    // Limits, groups, schedules.
    browser.follow("Limits");
    browser.wait_for("of each group");
    assert_eq!(
        browser.run("return document.getElementById('rate').value"),
        "50/1m"
    );
    browser.write(&browser.find("#length"), "5000");
    browser.press("Set");
    browser.wait_for("the limits are set");
    browser.open(&format!("{home}groups?name=webhooks"));
    browser.wait_for("shop-7");
    browser.press("Pause");
    browser.wait_for("paused");
    browser.follow("Schedules");
    browser.wait_for("schedules");
    // All of a status.
    browser.open(&format!("{home}queue?name=thumbnails&status=queued"));
    let ready = count(&mut conn, "thumbnails", "queued");
    browser.press("Remove all");
    browser.wait_for(&format!("Remove {ready} queued messages?"));
    browser.press("Yes");
    browser.wait_for("removed");
    wait_until(PATIENCE, || count(&mut conn, "thumbnails", "queued") == 0);
}

#[test]
fn pages_are_used_without_scripts_on_a_phone_and_in_the_dark() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let server = Server::start();
    let mut conn = server.conn();
    fill(&mut conn);
    let site = Site::start(&server, &["--budget", "50"]);
    let home = format!("http://{}/", site.address);
    wait_until(PATIENCE, || site.get("/").body.contains("paused"));
    let ground = "return getComputedStyle(document.body).backgroundColor";
    browser.open(&home);
    let light = browser.run(ground);
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.own("Emulation.setEmulatedMedia", &dark);
    assert_ne!(browser.run(ground), light);
    let phone = json!({"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": true});
    browser.own("Emulation.setDeviceMetricsOverride", &phone);
    browser.own(
        "Emulation.setScriptExecutionDisabled",
        &json!({"value": true}),
    );
    for (path, part) in [
        ("", "thumbnails"),
        ("queue?name=mails", "customer-"),
        ("queue?name=mails&status=dead", "Send the selected again"),
        ("message?name=mails&id=mails%3A1020", "customer-20"),
        ("groups?name=webhooks", "shop-9"),
        ("limits?name=mails", "attempts"),
    ] {
        browser.open(&format!("{home}{path}"));
        assert!(
            browser.text().contains(part) || part == "customer-",
            "{path}"
        );
        let wide = "return document.documentElement.scrollWidth - innerWidth";
        assert!(
            browser.run(wide).as_i64() <= Some(0),
            "{path} is wider than a phone"
        );
    }
    browser.open(&format!("{home}queue?name=mails"));
    browser.press("Pause");
    wait_until(PATIENCE, || count(&mut conn, "mails", "paused") == 1);
}

#[test]
fn a_script_in_a_queue_is_not_run() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let server = Server::start();
    let mut conn = server.conn();
    let name = |what: &str| format!("{what}{SCRIPT}");
    let (queue, group) = (name("q"), name("g"));
    for id in ["a", "b"] {
        call!(
            conn,
            "MQ.ENQUEUE",
            &queue,
            SCRIPT,
            "ID",
            name(id),
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
        name("a"),
        token,
        "ERROR",
        "REASON",
        SCRIPT
    )
    .unwrap();
    let site = Site::start(&server, &["--budget", "50"]);
    let address = |path: &str, more: &[(&str, &str)]| {
        let fields = [&[("name", queue.as_str())], more].concat();
        format!("http://{}{path}?{}", site.address, query(&fields))
    };
    browser.open(&format!("http://{}/", site.address));
    browser.wait_for("window.harmed=1");
    // The part that the script of the page puts in is looked at too.
    call!(conn, "MQ.PAUSE", &queue).unwrap();
    browser.wait_for("paused");
    let unharmed = || {
        let marks = "return [window.harmed ?? 0, document.querySelectorAll('img, #harm').length]";
        assert_eq!(browser.run(marks), json!([0, 0]), "{}", browser.url());
    };
    unharmed();
    for view in [
        address("/queue", &[]),
        address("/queue", &[("status", "dead")]),
        address("/search", &[("find", SCRIPT)]),
        address("/search", &[("find", "*")]),
        address("/message", &[("id", &name("a"))]),
        address("/message", &[("id", &name("b")), ("as", "hex")]),
        address("/groups", &[]),
        address("/limits", &[("of", "group"), ("group", &group)]),
    ] {
        browser.open(&view);
        browser.wait_for("window.harmed=1");
        unharmed();
    }
    browser.open(&address("/queue", &[("status", "dead")]));
    browser.click(&browser.find("tbody input[type=checkbox]"));
    browser.press("Send the selected again");
    unharmed();
    browser.press("Yes");
    browser.wait_for("1 sent again");
    unharmed();
}

/// Serves that page to whoever asks, on a port of its own, for as long as the test runs.
fn serve(page: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 4_096]);
            let length = page.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{page}"
            );
        }
    });
    port
}

#[test]
fn other_sites_can_neither_change_nor_read_nor_frame() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let server = Server::start();
    let mut conn = server.conn();
    call!(conn, "MQ.ENQUEUE", "mails", "secret", "ID", "1").unwrap();
    let site = Site::start(&server, &["--budget", "50"]);
    let own = format!("http://{}", site.address);
    let pause = "do=pause&name=mails";
    let elsewhere = serve(format!(
        "<form method=post action='{own}/act'><input name=do value=pause>\
         <input name=name value=mails><button>Win</button></form>\
         <iframe src='{own}/queue?name=mails'></iframe><p id=told>asking</p>\
         <script>const form = {{method: 'POST', body: new URLSearchParams('{pause}')}};\
         Promise.allSettled([fetch('{own}/act', form), fetch('{own}/act', {{...form, mode: 'no-cors'}}),\
         fetch('{own}/queue?name=mails'), fetch('{own}/act?{pause}', {{mode: 'no-cors'}})])\
         .then((all) => told.textContent = 'asked: ' + all.map((one) => one.status).join(' '))</script>"
    ));
    // From another site, and from another port of the same one.
    for host in ["localhost", "127.0.0.1"] {
        browser.open(&format!("http://{host}:{elsewhere}/"));
        browser.wait_for("asked:");
        // Nothing can be read; what can be sent is refused.
        assert!(
            browser.text().contains("asked: rejected"),
            "{}",
            browser.text()
        );
        let frame = "try { return document.querySelector('iframe').contentDocument ? 1 : 0 } \
                     catch (error) { return 0 }";
        assert_eq!(browser.run(frame), 0);
        browser.press("Win");
        browser.wait_for("only these pages may change something");
        assert_eq!(count(&mut conn, "mails", "paused"), 0);
    }
    // A name that leads here.
    let port = site.address.split(':').nth(1).unwrap();
    browser.open(&format!("http://evil.example:{port}/queue?name=mails"));
    browser.wait_for("this host is not known here");
    let script = format!(
        "const form = {{method: 'POST', body: new URLSearchParams('{pause}')}};\
         return fetch('/act', form).then((answer) => answer.status)"
    );
    assert_eq!(browser.run(&script), 421);
    assert_eq!(count(&mut conn, "mails", "paused"), 0);
    // The same from the page itself is done.
    browser.open(&format!("{own}/queue?name=mails"));
    browser.press("Pause");
    browser.wait_for("paused");
    assert_eq!(count(&mut conn, "mails", "paused"), 1);
}
