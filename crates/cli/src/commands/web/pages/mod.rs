//! What is shown: one file for each page. Whatever comes from the server is put in as text; the
//! macro escapes it.

pub mod groups;
pub mod limits;
pub mod message;
pub mod queue;
pub mod queues;
pub mod schedules;
pub mod search;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maud::{html, Markup, DOCTYPE};

use super::{names, params::Params, site::Site};
use crate::{
    duration,
    failure::Failure,
    output::{self, payload},
};

/// How many bytes of a payload a line of a table is made from.
const PREVIEW: usize = 400;

/// What stands between head and foot.
pub struct Page {
    /// Shown by the browser, the queue or what else it is about.
    pub title: String,
    /// The page is renewed after some seconds where there are no scripts.
    pub renews: bool,
    /// All the rest.
    pub body: Markup,
}

/// The whole document.
pub fn whole(site: &Site, page: Page) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) " · redis-mq" }
                link rel="stylesheet" href=(site.href("/style.css", &[]));
                link rel="icon" href=(site.href("/icon.svg", &[]));
                script src=(site.href("/live.js", &[])) defer {}
                @if page.renews {
                    noscript { meta http-equiv="refresh" content="10"; }
                }
            }
            body {
                a.skip href="#main" { "To the content" }
                header {
                    a.home href=(site.href("/", &[])) { "redis-mq" }
                    @if site.access.read_only() { span.badge { "read only" } }
                }
                main id="main" tabindex="-1" {
                    @if let Some(error) = site.board.error() {
                        p.note.bad role="alert" { "The server does not answer: " (error) }
                    }
                    (page.body)
                }
            }
        }
    }
}

/// A page that says why there is no other.
pub fn failed(failure: &Failure) -> Page {
    let line = failure.line().unwrap_or_default();
    Page {
        title: "Not done".into(),
        renews: false,
        body: html! {
            h1 { "Not done" }
            p.note.bad role="alert" { (line) }
        },
    }
}

/// A name of anything: text that cannot turn what stands around it.
pub fn name(bytes: &[u8]) -> Markup {
    html! { bdi.name { (output::name(bytes)) } }
}

/// The head of all pages about a queue.
pub fn queue_head(site: &Site, queue: &[u8], here: &str) -> Markup {
    let views = [
        ("/queue", "Messages"),
        ("/groups", "Groups"),
        ("/limits", "Limits"),
        ("/schedules", "Schedules"),
    ];
    html! {
        h1 { (name(queue)) }
        nav.tabs aria-label="Views of the queue" {
            @for (path, label) in views {
                a href=(site.queue_href(path, queue, &[]))
                    aria-current=[(path == here).then_some("page")] { (label) }
            }
        }
    }
}

/// A form of one button that asks for something to be done.
pub fn button(site: &Site, label: &str, fields: &[(&str, &str)]) -> Markup {
    html! {
        @if !site.access.read_only() {
            form.inline method="post" action=(site.href("/act", &[])) {
                @for (name, value) in fields {
                    input type="hidden" name=(name) value=(value);
                }
                button { (label) }
            }
        }
    }
}

/// What was done just now, as the address says.
pub fn note(params: &Params) -> Markup {
    let count = params.number("count").unwrap_or(0);
    let line = match params.text("note") {
        Some("redriven") => format!("{count} sent again"),
        Some("removed") => format!("{count} removed"),
        Some("limits") => "the limits are set".into(),
        Some("same") => "nothing was changed".into(),
        Some("fired") => "enqueued".into(),
        Some("waits") => "not enqueued: the run before is not over".into(),
        _ => return html! {},
    };
    html! { p.note role="status" { (line) } }
}

/// An instant of Unix milliseconds, with how far away it is; nothing for 0.
pub fn instant(ms: u64) -> Markup {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    let Some(at) = at.filter(|_| ms > 0) else {
        return html! { "–" };
    };
    let written = humantime::format_rfc3339_seconds(at).to_string();
    let away = match SystemTime::now().duration_since(at) {
        Ok(ago) => format!("{} ago", duration::show(duration::millis(ago))),
        Err(ahead) => format!("in {}", duration::show(duration::millis(ahead.duration()))),
    };
    html! { time datetime=(written) title=(written) { (away) } }
}

/// The beginning of a payload in one line.
pub fn preview(bytes: &[u8]) -> String {
    payload::preview(bytes, PREVIEW)
}

/// A number with a gap every three digits.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// The spelling of a name, for addresses and forms.
pub fn spelled(bytes: &[u8]) -> String {
    names::spell(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_gaps() {
        for (given, shown) in [(0, "0"), (999, "999"), (1_234_567, "1 234 567")] {
            assert_eq!(number(given).replace('\u{202f}', " "), shown);
        }
    }

    #[test]
    fn names_are_no_markup() {
        let shown = name(b"<script>alert(1)</script>").0;
        assert!(!shown.contains("<script"), "{shown}");
    }
}
