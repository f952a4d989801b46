//! One message with all that is known of it.

use maud::{html, Markup};
use redis_mq_client::redis::{self, Value};

use super::{button, instant, name, note, queue_head, spelled, Page};
use crate::{
    commands::{
        get,
        web::{params::Params, site::Site},
    },
    duration,
    failure::{Exit, Failure},
    output::{self, payload},
    reply::{self, Fields},
};

/// How many bytes of a payload are shown, and how many of them in hex.
const SHOWN: usize = 64 << 10;
const HEX_SHOWN: usize = 4 << 10;

/// The fields that are shown at length.
const BYTES: [(&str, &str); 3] = [
    ("payload", "Payload"),
    ("requeue", "Payload of the waiting copy"),
    ("result", "Result"),
];

/// The page.
pub async fn page(site: &Site, params: &Params) -> Result<Page, Failure> {
    let (queue, id) = (params.needed("name")?, params.needed("id")?);
    let message = message(site, &queue, &id).await?;
    let hex = params.text("as") == Some("hex");
    let body = html! {
        (queue_head(site, &queue, "/message"))
        (note(params))
        h2 { (name(&id)) }
        dl.facts {
            @for (field, value) in message.iter() {
                @if let Some(shown) = fact(field, value) {
                    div { dt { (label(field)) } dd { (shown) } }
                }
            }
        }
        (actions(site, &queue, &id, &message))
        @if let Some(headers) = message.bytes("headers") {
            h3 { "Headers" }
            pre tabindex="0" { (payload::show(payload::beginning(headers, SHOWN)).1) }
        }
        @for (field, title) in BYTES {
            @if let Some(bytes) = message.bytes(field) {
                (body_of(site, &queue, &id, field, title, bytes, hex))
            }
        }
    };
    Ok(Page {
        title: output::name(&id),
        renews: false,
        body,
    })
}

/// The payload as it is.
pub async fn payload(site: &Site, params: &Params) -> Result<Vec<u8>, Failure> {
    let (queue, id) = (params.needed("name")?, params.needed("id")?);
    let field = match params.text("of") {
        Some("requeue") => "requeue",
        Some("result") => "result",
        _ => "payload",
    };
    let message = message(site, &queue, &id).await?;
    let bytes = message.bytes(field).map(<[u8]>::to_vec);
    bytes.ok_or_else(|| Failure::no("there is no such payload"))
}

async fn message(site: &Site, queue: &[u8], id: &[u8]) -> Result<Fields, Failure> {
    let mut command = redis::cmd("MQ.GET");
    command.arg(queue).arg(id);
    let mut message = get::read(&site.link.ask(&command).await?)?;
    if get::asks_for_result(message.as_ref()) {
        // A module without results, or a user who may not see them: then there is none.
        match site.link.ask(&get::ask_result(queue, id)).await {
            Ok(known) => message = get::with_result(message, id, &known),
            Err(failure) if failure.exit() == Exit::REFUSED => {}
            Err(failure) => return Err(failure),
        }
    }
    message.ok_or_else(|| Failure::no(format!("no such message: {}", output::name(id))))
}

fn body_of(
    site: &Site,
    queue: &[u8],
    id: &[u8],
    field: &str,
    title: &str,
    bytes: &[u8],
    hex: bool,
) -> Markup {
    let head = payload::beginning(bytes, if hex { HEX_SHOWN } else { SHOWN });
    let (form, shown) = match hex {
        true => ("hex", as_hex(head)),
        false => payload::show(head),
    };
    let id = spelled(id);
    html! {
        h3 { (title) }
        p.quiet {
            (bytes.len()) " bytes, " (form)
            @if head.len() < bytes.len() { ", the first " (head.len()) " shown" }
            " · "
            @if hex {
                a href=(site.queue_href("/message", queue, &[("id", &id)])) { "as it looks" }
            } @else {
                a href=(site.queue_href("/message", queue, &[("id", &id), ("as", "hex")])) { "as hex" }
            }
            " · "
            a href=(site.queue_href("/payload", queue, &[("id", &id), ("of", field)])) { "save" }
        }
        pre tabindex="0" { (shown) }
    }
}

/// Lines of sixteen bytes.
fn as_hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let plain = |byte: &u8| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        };
        let text: String = line.iter().map(plain).collect();
        format!("{:47}  {text}\n", digits.join(" "))
    };
    bytes.chunks(16).map(line).collect()
}

fn label(field: &str) -> String {
    output::name(field.as_bytes()).replace('-', " ")
}

/// A field as it is shown; none if there is nothing to it, or it has a place of its own.
fn fact(field: &str, value: &Value) -> Option<Markup> {
    let number = reply::unsigned(value).unwrap_or(0);
    match (field, value) {
        ("id" | "payload" | "requeue" | "result" | "headers", _) | (_, Value::Nil) => None,
        (field, Value::Int(_)) if field.ends_with("-at") => (number > 0).then(|| instant(number)),
        ("lock-ms", Value::Int(_)) => (number > 0).then(|| html! { (duration::show(number)) }),
        ("max-attempts", Value::Int(0)) => Some(html! { "no limit" }),
        (_, other) => Some(html! { bdi { (output::one_line(other)) } }),
    }
}

fn actions(site: &Site, queue: &[u8], id: &[u8], message: &Fields) -> Markup {
    let (queue, id) = (spelled(queue), spelled(id));
    let fields = |what| [("do", what), ("name", &*queue), ("id", &*id)];
    let dead = message.bytes("status") == Some(b"dead");
    html! {
        div.actions {
            @if dead { (button(site, "Send it again", &fields("redrive"))) }
            (button(site, "Remove it", &fields(if dead { "drop" } else { "cancel" })))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_the_text_beside_it() {
        let shown = as_hex(b"0123456789abcdef\x00<b>");
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("  0123456789abcdef"), "{shown}");
        assert!(lines[1].starts_with("00 3c 62 3e") && lines[1].ends_with("  .<b>"));
    }
}
