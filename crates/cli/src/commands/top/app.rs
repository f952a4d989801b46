//! What is on the screen, and what the keys do.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::detail::{Detail, Tab, Wanted};
use crate::{
    output::{self, ask},
    sample::{Order, Progress, Row, Shown},
};

/// How old a list of messages or groups gets.
const DETAIL_EVERY: Duration = Duration::from_secs(2);

/// Everything that is drawn.
pub struct App {
    /// The server.
    pub place: String,
    /// Only queues whose names contain that.
    pub find: String,
    /// What queues are put in order by.
    pub order: Order,
    /// The other way round.
    pub reverse: bool,
    /// What the keys are for.
    pub mode: Mode,
    /// The queues, and how much is known of them.
    pub shown: Shown,
    /// The queue that is open, with the list below it.
    pub open: Option<(Vec<u8>, Tab)>,
    /// What is known of the open queue.
    pub row: Option<Row>,
    /// What is done to it in steps.
    pub job: Option<Progress>,
    /// The list of the open queue.
    pub detail: Option<Detail>,
    /// Why the server does not answer.
    pub error: Option<String>,
    /// What was done last.
    pub note: Option<String>,
    /// The first line shown of the list, the one chosen, and how many fit.
    pub list: List,
    chosen: Option<Vec<u8>>,
    asked: Option<Instant>,
}

/// Where a list stands.
#[derive(Debug, Clone, Copy, Default)]
pub struct List {
    /// The first line shown.
    pub first: usize,
    /// The line chosen.
    pub at: usize,
    /// How many lines fit.
    pub fits: usize,
}

/// What the keys are for.
#[derive(Debug, PartialEq, Eq)]
pub enum Mode {
    /// Moving and doing.
    Plain,
    /// Writing what to find.
    Find,
    /// Reading which keys there are.
    Help,
    /// Answering a question.
    Ask(Wish, String),
}

/// What somebody wants to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Nothing beyond another screen.
    Nothing,
    /// To leave.
    Quit,
    /// To stop deliveries of a queue.
    Pause(Vec<u8>),
    /// To let them go on.
    Resume(Vec<u8>),
    /// To send so many dead letters again.
    Redrive(Vec<u8>, u64),
}

impl Wish {
    /// The queue that it is about.
    pub fn queue(&self) -> Option<&[u8]> {
        match self {
            Self::Nothing | Self::Quit => None,
            Self::Pause(queue) | Self::Resume(queue) | Self::Redrive(queue, _) => Some(queue),
        }
    }
}

impl App {
    /// At the beginning.
    pub fn new(place: String, find: String) -> Self {
        Self {
            place,
            find,
            order: Order::Name,
            reverse: false,
            mode: Mode::Plain,
            shown: Shown::default(),
            open: None,
            row: None,
            job: None,
            detail: None,
            error: None,
            note: None,
            list: List::default(),
            chosen: None,
            asked: None,
        }
    }

    /// The queues as they are now. The chosen one stays chosen wherever it has moved.
    pub fn rows_came(&mut self, shown: Shown) {
        self.shown = shown;
        if self.open.is_some() {
            return;
        }
        let rows = &self.shown.rows;
        let found = self
            .chosen
            .as_ref()
            .and_then(|name| rows.iter().position(|row| row.name == *name));
        if let Some(at) = found {
            self.list.at = at;
        }
        self.choose(self.list.at);
    }

    /// The names of the queues on the screen.
    pub fn visible(&self) -> impl Iterator<Item = &[u8]> {
        let rows = match self.open {
            Some(_) => &[][..],
            None => &self.shown.rows[..],
        };
        let some = rows.iter().skip(self.list.first).take(self.list.fits);
        some.map(|row| row.name.as_slice())
    }

    /// A list to ask for, if it is time.
    pub fn wanted_detail(&mut self) -> Option<Wanted> {
        let (queue, tab) = self.open.clone()?;
        if self.asked.is_some_and(|at| at.elapsed() < DETAIL_EVERY) {
            return None;
        }
        self.asked = Some(Instant::now());
        let messages = self.row.as_ref().map_or(0, |row| row.count("messages"));
        Some(Wanted {
            queue,
            tab,
            messages,
        })
    }

    /// The list that was asked for, unless something else is open now.
    pub fn detail_came(&mut self, detail: Detail) {
        let is_open = |(queue, tab): &(Vec<u8>, Tab)| *queue == detail.queue && *tab == detail.tab;
        if self.open.as_ref().is_some_and(is_open) {
            self.detail = Some(detail);
            self.choose(self.list.at);
        }
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Wish::Quit;
        }
        self.note = None;
        match std::mem::replace(&mut self.mode, Mode::Plain) {
            Mode::Plain => self.plain(key.code),
            Mode::Help => Wish::Nothing,
            Mode::Find => {
                self.find_key(key.code);
                Wish::Nothing
            }
            Mode::Ask(wish, _) => match key.code {
                KeyCode::Char('y' | 'Y') => wish,
                _ => Wish::Nothing,
            },
        }
    }

    fn find_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                self.find.clear();
                return;
            }
            KeyCode::Backspace => {
                self.find.pop();
            }
            KeyCode::Char(letter) => self.find.push(letter),
            _ => {}
        }
        self.mode = Mode::Find;
    }

    fn plain(&mut self, code: KeyCode) -> Wish {
        let page = self.list.fits.max(1);
        match code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Up | KeyCode::Char('k') => self.choose(self.list.at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.list.at + 1),
            KeyCode::PageUp => self.choose(self.list.at.saturating_sub(page)),
            KeyCode::PageDown => self.choose(self.list.at + page),
            KeyCode::Home => self.choose(0),
            KeyCode::End => self.choose(usize::MAX),
            KeyCode::Char('p') => return self.pause(),
            KeyCode::Char('r') => self.ask_redrive(),
            code if self.open.is_some() => self.key_of_queue(code),
            code => self.key_of_queues(code),
        }
        Wish::Nothing
    }

    fn key_of_queues(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => {
                if let Some(name) = self.chosen.clone() {
                    self.row = self.shown.rows.get(self.list.at).cloned();
                    self.open(name, Tab::Next);
                }
            }
            KeyCode::Char('/') => self.mode = Mode::Find,
            KeyCode::Esc => self.find.clear(),
            KeyCode::Char('s') => {
                let words = Order::ALL.iter();
                let at = words.clone().position(|(order, _)| *order == self.order);
                let next = (at.unwrap_or(0) + 1) % Order::ALL.len();
                (self.order, _) = Order::ALL[next];
                self.reverse = false;
            }
            KeyCode::Char('S') => self.reverse = !self.reverse,
            _ => {}
        }
    }

    fn key_of_queue(&mut self, code: KeyCode) {
        let Some((name, tab)) = self.open.clone() else {
            return;
        };
        match code {
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => {
                self.open = None;
                self.detail = None;
                self.job = None;
                self.list = List::default();
                let shown = std::mem::take(&mut self.shown);
                self.rows_came(shown);
            }
            KeyCode::Tab | KeyCode::Right => self.open(name, tab.next()),
            KeyCode::Char('n') => self.open(name, Tab::Next),
            KeyCode::Char('g') => self.open(name, Tab::Groups),
            KeyCode::Char('d') => self.open(name, Tab::Letters),
            _ => {}
        }
    }

    fn open(&mut self, name: Vec<u8>, tab: Tab) {
        self.open = Some((name, tab));
        self.detail = None;
        self.asked = None;
        self.list = List::default();
    }

    /// Chooses a line, the last one if there are fewer.
    fn choose(&mut self, at: usize) {
        let last = self.lines().saturating_sub(1);
        self.list.at = at.min(last);
        if self.open.is_none() {
            let row = self.shown.rows.get(self.list.at);
            self.chosen = row.map(|row| row.name.clone());
        }
    }

    /// How many lines the list has.
    fn lines(&self) -> usize {
        match (&self.open, &self.detail) {
            (None, _) => self.shown.rows.len(),
            (Some(_), Some(detail)) => detail.len(),
            (Some(_), None) => 0,
        }
    }

    /// Tells how many lines fit, and moves the list so that the chosen one is among them.
    pub fn fit(&mut self, fits: usize) -> List {
        let list = &mut self.list;
        list.fits = fits;
        if list.at < list.first {
            list.first = list.at;
        } else if list.at >= list.first + fits {
            list.first = (list.at + 1).saturating_sub(fits);
        }
        *list
    }

    /// The queue that keys are about.
    fn subject(&self) -> Option<&Row> {
        match self.open {
            Some(_) => self.row.as_ref(),
            None => self.shown.rows.get(self.list.at),
        }
    }

    fn pause(&self) -> Wish {
        match self.subject() {
            Some(row) if row.is_paused() => Wish::Resume(row.name.clone()),
            Some(row) => Wish::Pause(row.name.clone()),
            None => Wish::Nothing,
        }
    }

    fn ask_redrive(&mut self) {
        let Some(row) = self.subject() else {
            return;
        };
        let (name, count) = (row.name.clone(), row.count("dead"));
        if count == 0 {
            self.note = Some("there are no dead letters".into());
            return;
        }
        let letters = ask::count(count, "dead letter");
        let question = format!("Send {letters} of {} again?", output::name(&name));
        self.mode = Mode::Ask(Wish::Redrive(name, count), question);
    }
}
