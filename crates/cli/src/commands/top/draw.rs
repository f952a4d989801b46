//! The screen.

use ratatui::{
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span, Text},
    widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Sparkline, Table},
    Frame,
};

use super::{
    app::{App, List, Mode},
    detail::Tab,
};
use crate::{
    duration, output,
    sample::{Order, Row},
};

const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
/// The narrowest that names of queues get.
const NAME: u16 = 16;

const KEYS: &str = "\
↑ ↓ PgUp PgDn Home End   move
Enter                    open a queue
Esc                      back; forget what to find
Tab, n g d               next messages, groups, dead letters
/                        find queues by a part of their name
s, S                     order by another column; turn it round
p                        pause a queue, or let it go on
r                        send its dead letters again, after a question
q                        leave";

/// A column of numbers: its head, its width, what it is ordered by, and the number.
struct Column {
    head: &'static str,
    width: u16,
    order: Option<Order>,
    show: fn(&Row) -> String,
}

/// The first ones stay where there is little room.
const COLUMNS: [Column; 9] = [
    column("READY", 8, Some(Order::Ready), |row| {
        count(row, row.count("queued"))
    }),
    column("LOCKED", 7, Some(Order::Locked), |row| {
        count(row, row.locked())
    }),
    column("DEAD", 6, Some(Order::Dead), |row| {
        count(row, row.count("dead"))
    }),
    column("IN/S", 6, Some(Order::In), |row| rate(row.rate_in)),
    column("OUT/S", 6, Some(Order::Out), |row| rate(row.rate_out)),
    column("OLDEST", 7, Some(Order::Oldest), |row| {
        row.oldest_ms().map_or("-".into(), duration::show)
    }),
    column("WAIT95", 7, None, |row| time(row, "wait-p95-ms")),
    column("WORK95", 7, None, |row| time(row, "work-p95-ms")),
    column("DELAYED", 8, Some(Order::Delayed), |row| {
        count(row, row.count("queued-with-backoff"))
    }),
];

const fn column(
    head: &'static str,
    width: u16,
    order: Option<Order>,
    show: fn(&Row) -> String,
) -> Column {
    Column {
        head,
        width,
        order,
        show,
    }
}

fn count(row: &Row, count: u64) -> String {
    match row.info {
        Some(_) => short(count),
        None => "…".into(),
    }
}

/// A number in at most six letters.
fn short(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1}M", number as f64 / 1e6),
        _ => format!("{:.1}G", number as f64 / 1e9),
    }
}

fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "…".into(),
        Some(rate) if rate < 0.05 => "0".into(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => short(rate.round() as u64),
    }
}

fn time(row: &Row, field: &str) -> String {
    match row.count(field) {
        0 => "-".into(),
        ms => duration::show(ms),
    }
}

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [top, middle, bottom] = areas.areas(frame.area());
    frame.render_widget(title(app), top);
    match app.open.clone() {
        None => queues(frame, app, middle),
        Some((name, tab)) => queue(frame, app, middle, &name, tab),
    }
    frame.render_widget(status(app), bottom);
    match &app.mode {
        Mode::Help => window(frame, " Keys ", KEYS.lines().map(Line::raw).collect()),
        Mode::Ask(_, question) => {
            let lines = vec![
                Line::raw(question.clone()),
                Line::raw(""),
                Line::raw("y yes   any other key no").style(QUIET),
            ];
            window(frame, " Sure? ", lines);
        }
        Mode::Plain | Mode::Find => {}
    }
}

fn title(app: &App) -> Line<'static> {
    let sum = |count: fn(&Row) -> u64| short(app.shown.rows.iter().map(count).sum());
    let mut title = format!("redis-mq top  {}  ", app.place);
    match app.shown.matching == app.shown.total {
        true => title += &format!("{} queues", app.shown.total),
        false => title += &format!("{} of {} queues", app.shown.matching, app.shown.total),
    }
    if !app.shown.complete {
        title += ", still looking";
    } else if app.shown.known < app.shown.total {
        title += &format!(", {} counted", app.shown.known);
    } else if app.shown.more {
        title += ", there are more";
    }
    title += &format!(
        "  ready {}  locked {}  dead {}",
        sum(|row| row.count("queued")),
        sum(Row::locked),
        sum(|row| row.count("dead"))
    );
    Line::raw(title).style(HEAD)
}

fn status(app: &App) -> Line<'static> {
    if let Mode::Find = app.mode {
        return Line::raw(format!("find: {}▏", output::name(app.find.as_bytes())));
    }
    if let Some(error) = &app.error {
        return Line::raw(format!("the server does not answer: {error}")).style(BAD);
    }
    if let Some(job) = app.job.as_ref().filter(|job| !job.over) {
        return Line::raw(job.to_string());
    }
    if let Some(note) = &app.note {
        return Line::raw(note.clone());
    }
    let keys = match app.open {
        Some(_) => "Esc back  Tab next list  p pause  r redrive  ? keys  q leave",
        None => "Enter open  / find  s order  p pause  r redrive  ? keys  q leave",
    };
    Line::raw(keys).style(QUIET)
}

fn queues(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let list = app.fit(usize::from(area.height.saturating_sub(1)));
    let mut room = area.width.saturating_sub(NAME);
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .take_while(|column| {
            let fits = room > column.width;
            room = room.saturating_sub(column.width + 1);
            fits
        })
        .collect();
    let arrow = |order: Option<Order>, head: &str| match order == Some(app.order) {
        true if app.reverse => format!("{head}↑"),
        true => format!("{head}↓"),
        false => head.to_owned(),
    };
    let mut head = vec![Cell::from(arrow(Some(Order::Name), "QUEUE"))];
    head.extend(columns.iter().map(|one| right(arrow(one.order, one.head))));
    let rows = visible(&app.shown.rows, list).map(|(at, row)| {
        let mut name = vec![Span::raw(output::name(&row.name))];
        if let Some(line) = &row.refused {
            name.push(Span::styled(format!("  {line}"), BAD));
        }
        if row.is_paused() {
            name.insert(0, Span::styled("‖ ", Style::new().fg(Color::Yellow)));
        }
        let mut cells = vec![Cell::from(Line::from(name))];
        cells.extend(columns.iter().map(|column| {
            let bad = column.head == "DEAD" && row.count("dead") > 0;
            right((column.show)(row)).style(if bad { BAD } else { Style::new() })
        }));
        TableRow::new(cells).style(if at == list.at { CHOSEN } else { Style::new() })
    });
    let mut widths = vec![Constraint::Fill(1)];
    widths.extend(
        columns
            .iter()
            .map(|column| Constraint::Length(column.width)),
    );
    let table = Table::new(rows, widths).header(TableRow::new(head).style(HEAD));
    frame.render_widget(table, area);
}

fn queue(frame: &mut Frame<'_>, app: &mut App, area: Rect, name: &[u8], tab: Tab) {
    let areas = Layout::vertical([
        Constraint::Length(5),
        Constraint::Length(1),
        Constraint::Min(1),
    ]);
    let [facts_area, tabs_area, list_area] = areas.areas(area);
    let wide = Layout::horizontal([Constraint::Min(56), Constraint::Length(24)]);
    let [facts_area, spark_area] = wide.areas(facts_area);
    frame.render_widget(facts(name, app.row.as_ref()), facts_area);
    if let Some(row) = &app.row {
        let spark = Sparkline::default().data(&row.ready_before);
        frame.render_widget(spark, spark_area);
    }
    let tabs = Tab::ALL.iter().flat_map(|(one, label)| {
        let style = if *one == tab { CHOSEN } else { Style::new() };
        [Span::styled(format!(" {label} "), style), Span::raw(" ")]
    });
    frame.render_widget(Line::from_iter(tabs), tabs_area);
    let list = app.fit(usize::from(list_area.height.saturating_sub(1)));
    let lines = match app.detail.as_ref().map(|detail| &detail.lines) {
        None => return frame.render_widget("asking …", list_area),
        Some(Err(line)) => {
            return frame.render_widget(Line::raw(line.clone()).style(BAD), list_area)
        }
        Some(Ok(lines)) if lines.is_empty() => return frame.render_widget("nothing", list_area),
        Some(Ok(lines)) => lines,
    };
    let widths = tab.head().iter().enumerate().map(|(at, head)| match at {
        0 => Constraint::Fill(1),
        at if at + 1 == tab.head().len() => Constraint::Fill(2),
        _ => Constraint::Length(u16::try_from(head.len()).unwrap_or(8).max(8)),
    });
    let rows = visible(lines, list).map(|(at, line)| {
        let row = TableRow::new(line.iter().map(String::as_str));
        row.style(if at == list.at { CHOSEN } else { Style::new() })
    });
    let head = TableRow::new(tab.head().iter().copied()).style(HEAD);
    let table = Table::new(rows, widths).header(head);
    frame.render_widget(table, list_area);
}

fn facts(name: &[u8], row: Option<&Row>) -> Text<'static> {
    let mut title = vec![Span::styled(output::name(name), HEAD)];
    let Some(row) = row else {
        return Line::from(title).into();
    };
    if row.is_paused() {
        title.push(Span::raw("  paused").yellow());
        let until = row.count("paused-until");
        if until > 0 {
            title.push(Span::raw(format!(
                " until {}",
                duration::show_instant(until)
            )));
        }
    }
    let limited = row.info.as_ref().and_then(|info| info.bytes("limited"));
    if let Some(limit) = limited.filter(|limit| !limit.is_empty()) {
        title.push(Span::raw(format!("  limited: {}", output::name(limit))).yellow());
    }
    let field = |field: &str| short(row.count(field));
    let times = |what: &str| {
        let part = |share: &str| time(row, &format!("{what}-{share}-ms"));
        format!("{} / {} / {}", part("p50"), part("p95"), part("p99"))
    };
    let oldest = row.oldest_ms().map_or("-".into(), duration::show);
    let lines = [
        format!(
            "ready {}  delayed {}  locked {}  dead {}  held {}",
            field("queued"),
            field("queued-with-backoff"),
            short(row.locked()),
            field("dead"),
            field("held")
        ),
        format!(
            "oldest {oldest}  in {}/s  out {}/s",
            rate(row.rate_in),
            rate(row.rate_out)
        ),
        format!(
            "wait {}  work {} (50 / 95 / 99 %)",
            times("wait"),
            times("work")
        ),
        format!(
            "ever: enqueued {}  done {}  retried {}  dead {}",
            field("total-enqueued"),
            field("total-done"),
            field("total-retried"),
            field("total-dead")
        ),
    ];
    let mut text = Text::from(Line::from(title));
    text.extend(lines.map(Line::raw));
    text
}

/// The lines of a list that fit, with their places in it.
fn visible<T>(all: &[T], list: List) -> impl Iterator<Item = (usize, &T)> {
    all.iter().enumerate().skip(list.first).take(list.fits)
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::raw(text).alignment(Alignment::Right))
}

/// A window in the middle.
fn window(frame: &mut Frame<'_>, title: &'static str, lines: Vec<Line<'static>>) {
    let widest = lines.iter().map(Line::width).max().unwrap_or(0);
    let area = frame.area();
    let width = u16::try_from(widest + 4)
        .unwrap_or(area.width)
        .min(area.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(area.height);
    let height = height.min(area.height);
    let place = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(title);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}
