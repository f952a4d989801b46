//! What keys do, and what is drawn then.

use std::time::Instant;

use ratatui::{
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent},
    Terminal,
};
use redis_mq_client::redis::Value;

use super::{
    app::{App, Mode, Wish},
    detail::{Detail, Tab},
    draw,
};
use crate::{reply::Fields, sample::Board};

fn info(ready: i64, dead: i64, paused: bool) -> Fields {
    let field = |name: &str, number| (Value::SimpleString(name.into()), Value::Int(number));
    let map = Value::Map(vec![
        field("queued", ready),
        field("dead", dead),
        field("paused", i64::from(paused)),
        field("oldest-queued-ms", 65_000),
        field("wait-p95-ms", 1_500),
        field("total-enqueued", ready),
        field("messages", ready + dead),
    ]);
    Fields::read(&map).unwrap()
}

struct Desk {
    app: App,
    board: Board,
    terminal: Terminal<TestBackend>,
}

impl Desk {
    fn new(width: u16, height: u16) -> Self {
        let board = Board::default();
        let queues = [
            ("mails", info(1_234, 3, false)),
            ("invoices", info(7, 0, false)),
            ("web\u{1b}[2Jhooks", info(2, 0, true)),
        ];
        for (name, info) in queues {
            let now = Instant::now();
            board.found(vec![name.into()], now);
            board.sampled(name.as_bytes(), info, now);
        }
        board.search_is_over();
        Self {
            app: App::new("127.0.0.1:6379".into(), String::new()),
            board,
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
        }
    }

    /// The lines of the screen.
    fn draw(&mut self) -> Vec<String> {
        let app = &mut self.app;
        app.rows_came(self.board.all(&app.find, app.order, app.reverse));
        self.terminal.draw(|frame| draw::draw(frame, app)).unwrap();
        let shown = self.terminal.backend().to_string();
        let line = |line: &str| line.trim_matches('"').trim_end().to_owned();
        shown.lines().map(line).collect()
    }

    fn press(&mut self, code: KeyCode) -> Wish {
        let wish = self.app.key(KeyEvent::from(code));
        self.draw();
        wish
    }

    fn write(&mut self, text: &str) -> Wish {
        let keys = text.chars().map(KeyCode::Char);
        keys.fold(Wish::Nothing, |_, key| self.press(key))
    }
}

#[test]
fn queues_fit_eighty_columns() {
    let mut desk = Desk::new(80, 10);
    let lines = desk.draw();
    assert_eq!(
        lines[..5],
        [
            "redis-mq top  127.0.0.1:6379  3 queues  ready 1243  locked 0  dead 3",
            "QUEUE↓                READY  LOCKED   DEAD   IN/S  OUT/S  OLDEST  WAIT95  WORK95",
            "invoices                  7       0      0      …      …   1m 5s      1s       -",
            "mails                  1234       0      3      …      …   1m 5s      1s       -",
            "‖ web\\u{1b}[2Jhook        2       0      0      …      …   1m 5s      1s       -",
        ]
    );
    assert!(lines[9].starts_with("Enter open  / find"), "{lines:?}");
}

#[test]
fn columns_come_and_go_with_the_width() {
    assert!(Desk::new(120, 5).draw()[1].ends_with("DELAYED"));
    let narrow = Desk::new(40, 5).draw();
    assert_eq!(
        narrow[1].trim_end(),
        "QUEUE↓              READY  LOCKED   DEAD"
    );
    // Whatever the size, it is drawn.
    for (width, height) in [(1, 1), (5, 2), (20, 3), (300, 100)] {
        let mut desk = Desk::new(width, height);
        desk.draw();
        desk.press(KeyCode::Char('?'));
        desk.press(KeyCode::Enter);
        desk.press(KeyCode::Enter);
    }
}

#[test]
fn queues_are_ordered_and_the_chosen_one_stays_chosen() {
    let mut desk = Desk::new(80, 10);
    desk.draw();
    desk.press(KeyCode::Down);
    // Ready, most first: mails comes before the others.
    desk.press(KeyCode::Char('s'));
    let lines = desk.draw();
    assert!(
        lines[1].contains("READY↓") && lines[2].starts_with("mails"),
        "{lines:?}"
    );
    assert_eq!(desk.write("p"), Wish::Pause(b"mails".to_vec()));
    desk.press(KeyCode::Char('S'));
    assert!(desk.draw()[4].starts_with("mails"));
    assert_eq!(desk.write("p"), Wish::Pause(b"mails".to_vec()));
}

#[test]
fn queues_are_found_by_a_part_of_their_name() {
    let mut desk = Desk::new(80, 10);
    desk.draw();
    // Letters that are keys otherwise are letters here.
    assert_eq!(desk.write("/qi"), Wish::Nothing);
    assert!(desk.draw()[9].starts_with("find: qi"));
    desk.press(KeyCode::Backspace);
    desk.press(KeyCode::Backspace);
    desk.write("inv");
    desk.press(KeyCode::Enter);
    let lines = desk.draw();
    assert!(lines[0].contains("1 of 3 queues") && lines[2].starts_with("invoices"));
    desk.press(KeyCode::Esc);
    assert!(desk.draw()[0].contains("3 queues"));
    assert_eq!(desk.write("q"), Wish::Quit);
}

#[test]
fn letters_are_sent_again_after_a_question_only() {
    let mut desk = Desk::new(80, 12);
    desk.draw();
    desk.press(KeyCode::Char('r'));
    assert!(desk.draw()[11].contains("no dead letters"));
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Char('r'));
    let lines = desk.draw().join("\n");
    assert!(
        lines.contains("Send 3 dead letters of mails again?"),
        "{lines}"
    );
    assert_eq!(desk.press(KeyCode::Enter), Wish::Nothing);
    assert_eq!(desk.app.mode, Mode::Plain);
    desk.press(KeyCode::Char('r'));
    assert_eq!(desk.write("y"), Wish::Redrive(b"mails".to_vec(), 3));
}

#[test]
fn a_paused_queue_goes_on() {
    let mut desk = Desk::new(80, 10);
    desk.draw();
    desk.press(KeyCode::End);
    assert!(matches!(desk.write("p"), Wish::Resume(_)));
}

#[test]
fn a_queue_is_opened_with_its_lists() {
    let mut desk = Desk::new(80, 14);
    desk.draw();
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Enter);
    let lines = desk.draw();
    assert!(lines[1].starts_with("mails "), "{lines:?}");
    assert!(
        lines[2].starts_with("ready 1234  delayed 0  locked 0  dead 3"),
        "{lines:?}"
    );
    assert!(
        lines[4].starts_with("wait - / 1s / -  work - / - / -"),
        "{lines:?}"
    );
    assert!(lines[7].starts_with("asking"), "{lines:?}");
    let wanted = desk.app.wanted_detail().unwrap();
    assert_eq!(
        (wanted.queue.as_slice(), wanted.messages),
        (&b"mails"[..], 1_237)
    );
    assert!(desk.app.wanted_detail().is_none(), "once at a time");
    let detail = |tab, line: &[&str]| Detail {
        queue: b"mails".to_vec(),
        tab,
        lines: Ok(vec![line.iter().map(|cell| (*cell).to_owned()).collect()]),
    };
    desk.app
        .detail_came(detail(Tab::Next, &["mail:1", "0", "5s", "to ada"]));
    let lines = desk.draw();
    assert!(
        lines[7].starts_with("ID") && lines[7].contains("PAYLOAD"),
        "{lines:?}"
    );
    assert!(
        lines[8].starts_with("mail:1") && lines[8].contains("to ada"),
        "{lines:?}"
    );
    desk.press(KeyCode::Char('g'));
    // What comes too late is not shown under another head.
    desk.app
        .detail_came(detail(Tab::Next, &["mail:1", "0", "5s", "to ada"]));
    assert!(desk.draw()[7].starts_with("asking"));
    desk.app
        .detail_came(detail(Tab::Groups, &["shop-7", "1", "0", "5s", "ready"]));
    assert!(desk.draw()[8].starts_with("shop-7"));
    desk.press(KeyCode::Esc);
    assert!(desk.draw()[1].starts_with("QUEUE"));
}

#[test]
fn long_lists_scroll() {
    let mut desk = Desk::new(60, 8);
    for number in 0..30 {
        let name = format!("z{number:02}").into_bytes();
        desk.board.found(vec![name.clone()], Instant::now());
        desk.board.sampled(&name, info(0, 0, false), Instant::now());
    }
    desk.draw();
    desk.press(KeyCode::End);
    let lines = desk.draw();
    assert!(lines[6].starts_with("z29"), "{lines:?}");
    assert_eq!(desk.app.visible().count(), 5);
    desk.press(KeyCode::PageUp);
    desk.press(KeyCode::Home);
    assert!(desk.draw()[2].starts_with("invoices"));
}

#[test]
fn an_outage_is_told() {
    let mut desk = Desk::new(80, 8);
    desk.app.error = Some("refused".into());
    let lines = desk.draw();
    assert_eq!(lines[7], "the server does not answer: refused");
    assert!(lines[2].starts_with("invoices"));
}
