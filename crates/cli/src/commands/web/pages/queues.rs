//! All queues.

use std::time::Duration;

use maud::{html, Markup};

use super::{button, name, number, spelled, Page};
use crate::{
    commands::web::{params::Params, site::Site},
    duration,
    output::ask,
    sample::{Order, Row, Shown},
};

/// How many queues a page has.
const MOST: usize = 50;
/// Counts that are older say so.
const OLD: Duration = Duration::from_secs(15);
/// The size of a sparkline.
const SPARK: (f64, f64) = (80.0, 20.0);

struct View<'a> {
    find: &'a str,
    order: Order,
    word: &'static str,
    reverse: bool,
    page: usize,
}

impl<'a> View<'a> {
    fn read(params: &'a Params) -> Self {
        let asked = params.text("sort").unwrap_or("queue");
        let found = Order::ALL.into_iter().find(|(_, word)| *word == asked);
        let (order, word) = found.unwrap_or(Order::ALL[0]);
        let page = params.number("page").unwrap_or(1);
        Self {
            find: params.text("find").unwrap_or_default(),
            order,
            word,
            reverse: params.text("reverse").is_some(),
            page: usize::try_from(page).unwrap_or(1).clamp(1, 1_000),
        }
    }

    fn href(&self, site: &Site, path: &str, page: usize) -> String {
        let page = match page {
            1 => String::new(),
            page => page.to_string(),
        };
        let reverse = if self.reverse { "1" } else { "" };
        let params = [
            ("find", self.find),
            ("sort", self.word),
            ("reverse", reverse),
            ("page", &page),
        ];
        site.href(path, &params)
    }

    fn shown(&self, site: &Site) -> Shown {
        let from = (self.page - 1) * MOST;
        site.board
            .show(self.find, self.order, self.reverse, from, MOST)
    }
}

/// The page.
pub fn page(site: &Site, params: &Params) -> Page {
    let view = View::read(params);
    let shown = view.shown(site);
    let pages = shown.matching.div_ceil(MOST).max(1);
    let body = html! {
        h1 { "Queues" }
        form.search role="search" action=(site.href("/", &[])) {
            label for="find" { "Find" }
            input id="find" type="search" name="find" value=(view.find) placeholder="a part of the name";
            input type="hidden" name="sort" value=(view.word);
            button { "Find" }
        }
        div data-live=(view.href(site, "/live/queues", view.page)) {
            (table(site, &view, &shown))
        }
        @if pages > 1 {
            nav.pages aria-label="Pages" {
                @if view.page > 1 {
                    a rel="prev" href=(view.href(site, "/", view.page - 1)) { "← before" }
                }
                span { "page " (view.page) " of " (pages) }
                @if view.page < pages {
                    a rel="next" href=(view.href(site, "/", view.page + 1)) { "next →" }
                }
            }
        }
    };
    Page {
        title: "Queues".into(),
        renews: true,
        body,
    }
}

/// The table alone.
pub fn part(site: &Site, params: &Params) -> Markup {
    let view = View::read(params);
    table(site, &view, &view.shown(site))
}

fn table(site: &Site, view: &View<'_>, shown: &Shown) -> Markup {
    let heads = [
        ("queue", "Queue", ""),
        ("ready", "Ready", "number"),
        ("delayed", "Delayed", "number wide"),
        ("locked", "Locked", "number"),
        ("dead", "Dead", "number"),
        ("oldest", "Oldest", "number"),
        ("in", "In /s", "number wide"),
        ("out", "Out /s", "number wide"),
    ];
    html! {
        p.quiet data-cell="state" {
            @if shown.matching == shown.total {
                (ask::count(shown.total as u64, "queue"))
            } @else {
                (shown.matching) " of " (ask::count(shown.total as u64, "queue"))
            }
            @if !shown.complete { ", still looking" }
            @if shown.known < shown.total { ", " (number(shown.known as u64)) " counted" }
            @if shown.more { "; there are more than are shown" }
        }
        @if !shown.rows.is_empty() {
            div.scroll {
                table {
                    thead { tr {
                        @for (word, label, class) in heads {
                            th scope="col" class=(class)
                                aria-sort=[(word == view.word).then_some(sorted(view))] {
                                a href=(head_href(site, view, word)) { (label) }
                            }
                        }
                        th.wide scope="col" { "Ready, lately" }
                        th scope="col" { "State" }
                    } }
                    tbody { @for row in &shown.rows { (line(site, row)) } }
                }
            }
        }
    }
}

fn sorted(view: &View<'_>) -> &'static str {
    // Names begin with the smallest, numbers with the largest.
    match (view.order == Order::Name) != view.reverse {
        true => "ascending",
        false => "descending",
    }
}

fn head_href(site: &Site, view: &View<'_>, word: &'static str) -> String {
    let other = View {
        find: view.find,
        order: view.order,
        word,
        // The same head once more turns the order round.
        reverse: word == view.word && !view.reverse,
        page: 1,
    };
    other.href(site, "/", 1)
}

fn line(site: &Site, row: &Row) -> Markup {
    let key = spelled(&row.name);
    let cell = |name: &str| format!("{name} {key}");
    let known = row.info.is_some();
    let count = |count: u64| match known {
        true => number(count),
        false => "…".into(),
    };
    let rate = |rate: Option<f64>| rate.map_or("…".into(), show_rate);
    let oldest = row.oldest_ms().map_or("–".into(), duration::show);
    html! {
        tr data-row=(key) {
            th scope="row" { a href=(site.queue_href("/queue", &row.name, &[])) { (name(&row.name)) } }
            td.number data-cell=(cell("ready")) { (count(row.count("queued"))) }
            td.number.wide data-cell=(cell("delayed")) { (count(row.count("queued-with-backoff"))) }
            td.number data-cell=(cell("locked")) { (count(row.locked())) }
            td.number data-cell=(cell("dead")) {
                @if row.count("dead") > 0 {
                    a.bad href=(site.queue_href("/queue", &row.name, &[("status", "dead")])) {
                        (number(row.count("dead")))
                    }
                } @else { (count(0)) }
            }
            td.number data-cell=(cell("oldest")) { @if known { (oldest) } @else { "…" } }
            td.number.wide data-cell=(cell("in")) { (rate(row.rate_in)) }
            td.number.wide data-cell=(cell("out")) { (rate(row.rate_out)) }
            td.wide data-cell=(cell("spark")) { (spark(&row.ready_before)) }
            td data-cell=(cell("state")) { (state(site, row)) }
        }
    }
}

/// Whether deliveries go on, and the button that changes it.
pub fn state(site: &Site, row: &Row) -> Markup {
    let queue = spelled(&row.name);
    html! {
        @if let Some(line) = &row.refused {
            span.bad { (line) }
        } @else if row.info.is_none() {
            "…"
        } @else {
            (deliveries(site, &queue, row.is_paused()))
            @if row.age > OLD { " " span.quiet { (duration::show(duration::millis(row.age))) " ago" } }
        }
    }
}

fn deliveries(site: &Site, queue: &str, paused: bool) -> Markup {
    let act = |what, label| {
        button(
            site,
            label,
            &[("do", what), ("name", queue), ("back", "queues")],
        )
    };
    html! {
        @if paused {
            span.badge { "paused" } " "
            (act("resume", "Resume"))
        } @else {
            (act("pause", "Pause"))
        }
    }
}

/// A rate in a second.
pub fn show_rate(rate: f64) -> String {
    match rate {
        rate if rate < 0.005 => "0".into(),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => number(rate.round() as u64),
    }
}

/// The last samples as a line.
fn spark(values: &[u64]) -> Markup {
    let most = values.iter().copied().max().unwrap_or(0);
    let (width, height) = SPARK;
    let step = width / (values.len().max(2) - 1) as f64;
    let points: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(at, value)| {
            let share = *value as f64 / most.max(1) as f64;
            format!(
                "{:.1},{:.1}",
                at as f64 * step,
                1.0 + (height - 2.0) * (1.0 - share)
            )
        })
        .collect();
    html! {
        @if values.len() > 1 {
            svg.spark viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height)
                role="img" aria-label=(format!("at most {most} of the last {}", values.len())) {
                polyline points=(points.join(" ")) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        for (rate, shown) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (9.94, "9.9"),
            (1234.5, "1\u{202f}235"),
        ] {
            assert_eq!(show_rate(rate), shown);
        }
    }

    #[test]
    fn sparklines_reach_from_top_to_bottom() {
        let drawn = spark(&[0, 5, 10]).0;
        assert!(drawn.contains("0.0,19.0 40.0,10.0 80.0,1.0"), "{drawn}");
        assert_eq!(spark(&[1]).0, "");
        assert!(spark(&[0, 0]).0.contains("0.0,19.0 80.0,19.0"));
    }
}
