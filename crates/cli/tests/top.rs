//! `top` in a terminal.

mod common;

use std::{
    fs::File,
    io::{Read as _, Write as _},
    num::NonZero,
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use common::{program, run, site::bury, worker::signal};
use redis_mq_testkit::{call, wait_until, Proxy, ReplyExt as _, Sentinels, Server, PATIENCE};
use rustix::{
    fs::OFlags,
    pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags},
    termios::{tcsetwinsize, Winsize},
};

/// A terminal with the program in it.
struct Screen {
    child: Child,
    master: File,
    seen: Arc<Mutex<vt100::Parser>>,
}

impl Screen {
    fn start(url: &str, columns: u16, rows: u16, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let master = File::from(master);
        let open = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY;
            let opened = rustix::fs::open(&name, flags, rustix::fs::Mode::empty());
            Stdio::from(opened.unwrap())
        };
        tcsetwinsize(&master, size(columns, rows)).unwrap();
        let child = program()
            .arg("top")
            .args(args)
            .env("REDIS_MQ_URL", url)
            .env("TERM", "xterm-256color")
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        let seen = Arc::new(Mutex::new(vt100::Parser::new(some(rows), some(columns), 0)));
        let (mut reader, parser) = (master.try_clone().unwrap(), seen.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // It fails when the last one who had the terminal open is gone.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                parser.lock().unwrap().process(&bytes[..length]);
            }
        });
        Self {
            child,
            master,
            seen,
        }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        self.seen.lock().unwrap().screen().contents()
    }

    #[track_caller]
    fn wait_for(&self, part: &str) {
        let found =
            std::panic::catch_unwind(|| wait_until(PATIENCE, || self.text().contains(part)));
        assert!(found.is_ok(), "no {part:?} in:\n{}", self.text());
    }

    fn resize(&self, columns: u16, rows: u16) {
        self.seen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(some(rows), some(columns));
        tcsetwinsize(&self.master, size(columns, rows)).unwrap();
        // The program has no session of its own, so nobody tells it.
        signal("WINCH", self.child.id());
    }

    fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until(PATIENCE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn some(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

#[test]
fn queues_are_watched_opened_paused_and_repaired() {
    let server = Server::start();
    let mut conn = server.conn();
    bury(&mut conn, "mails", "letter-1", "no such address");
    for number in 0..20 {
        call!(
            conn,
            "MQ.ENQUEUE",
            "mails",
            "to ada",
            "ID",
            format!("mail:{number}")
        )
        .unwrap();
    }
    call!(conn, "MQ.ENQUEUE", "mails", "x", "GROUP", "shop-7").unwrap();
    call!(conn, "MQ.ENQUEUE", "other", "x").unwrap();
    let mut screen = Screen::start(&server.url(), 80, 24, &["--budget", "50"]);
    screen.wait_for("2 queues  ready 22");
    // Live.
    call!(conn, "MQ.ENQUEUE", "other", "x").unwrap();
    screen.wait_for("ready 23");
    screen.resize(120, 30);
    screen.wait_for("DELAYED");
    screen.press("\r");
    screen.wait_for("mail:0");
    screen.press("g");
    screen.wait_for("shop-7");
    screen.press("d");
    screen.wait_for("no such address");
    screen.press("p");
    screen.wait_for("paused");
    assert_eq!(
        call!(conn, "MQ.INFO", "mails").unwrap().fields()["paused"].int(),
        1
    );
    screen.press("p");
    wait_until(PATIENCE, || {
        call!(conn, "MQ.INFO", "mails").unwrap().fields()["paused"].int() == 0
    });
    screen.press("r");
    screen.wait_for("Send 1 dead letter of mails again?");
    screen.press("y");
    screen.wait_for("1 of 1 sent again");
    assert_eq!(
        call!(conn, "MQ.STATUS", "mails", "letter-1")
            .unwrap()
            .text(),
        "queued"
    );
    screen.press("\x1b");
    screen.wait_for("QUEUE");
    screen.press("/oth\r");
    screen.wait_for("1 of 2 queues");
    screen.press("q");
    assert_eq!(screen.ended(), Some(0));
    // The terminal is as it was.
    let alternate = || screen.seen.lock().unwrap().screen().alternate_screen();
    wait_until(PATIENCE, || !alternate());
}

#[test]
fn an_outage_is_survived() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    call!(server.conn(), "MQ.ENQUEUE", "mails", "x").unwrap();
    let mut screen = Screen::start(&proxy.url(), 80, 24, &[]);
    screen.wait_for("ready 1");
    proxy.refuse();
    proxy.cut();
    screen.wait_for("does not answer");
    screen.wait_for("mails");
    call!(server.conn(), "MQ.ENQUEUE", "mails", "x").unwrap();
    proxy.resume();
    screen.wait_for("ready 2");
    wait_until(PATIENCE, || !screen.text().contains("does not answer"));
    signal("TERM", screen.child.id());
    assert_eq!(screen.ended(), Some(0));
}

#[test]
fn it_wants_a_terminal_and_a_server() {
    let server = Server::start();
    let line = run(&server, &["top"]).failed(2);
    assert!(line.contains("terminal"), "{line}");
    let mut screen = Screen::start("redis://127.0.0.1:1/", 80, 24, &[]);
    assert_eq!(screen.ended(), Some(3));
    screen.wait_for("error: 127.0.0.1:1");
}

#[test]
fn a_failover_is_survived() {
    let primary = Server::start();
    call!(primary.conn(), "MQ.ENQUEUE", "mails", "x").unwrap();
    let replica = Server::start();
    replica.replica_of(&primary);
    let sentinels = Sentinels::start(1, &primary, 1);
    let place = sentinels.servers()[0].addr();
    let url = format!("redis+sentinel://{place}/{}", Sentinels::NAME);
    let mut screen = Screen::start(&url, 80, 24, &["--budget", "50"]);
    screen.wait_for("ready 1");
    sentinels.failover().unwrap();
    sentinels.wait_for_failover(&primary);
    // What only the new primary has is seen, and what is done is done there.
    let mut conn = replica.conn();
    call!(conn, "MQ.ENQUEUE", "mails", "x").unwrap();
    screen.wait_for("ready 2");
    screen.press("p");
    wait_until(PATIENCE, || {
        call!(conn, "MQ.INFO", "mails").unwrap().fields()["paused"].int() == 1
    });
    screen.press("q");
    assert_eq!(screen.ended(), Some(0));
}
