//! The limits of a queue, of its groups, or of one group.

use maud::html;
use redis_mq_client::redis::{self, Cmd, Value};

use super::{name, note, queue_head, spelled, Page};
use crate::{
    commands::{
        limit,
        web::{params::Params, site::Site},
    },
    duration,
    failure::Failure,
    output,
    reply::{self, Fields},
};

/// A limit: its name, whether groups have it, what it is.
pub const LIMITS: [(&str, bool, &str); 8] = [
    (
        "length",
        true,
        "messages that are not finished; one more is refused",
    ),
    (
        "bytes",
        false,
        "memory of the queue, beyond which messages are refused",
    ),
    ("inflight", true, "messages that are worked on at once"),
    ("rate", true, "deliveries in a time, as in 50/1m"),
    (
        "burst",
        true,
        "with a rate: deliveries at once after a pause",
    ),
    ("dead", false, "dead letters that are kept"),
    (
        "dead-age",
        false,
        "how long a dead letter is kept, as in 7d",
    ),
    (
        "attempts",
        false,
        "deliveries of a message that does not say so itself",
    ),
];

/// Whose limits they are.
pub enum Of {
    /// The queue's.
    Queue,
    /// Those of each group alike.
    Groups,
    /// Those of one group.
    Group(Vec<u8>),
}

impl Of {
    /// What the address or the form says.
    pub fn read(params: &Params) -> Result<Self, Failure> {
        Ok(match params.text("of") {
            Some("groups") => Self::Groups,
            Some("group") => Self::Group(params.needed("group")?),
            _ => Self::Queue,
        })
    }

    /// Puts it behind the queue in a command.
    pub fn put(&self, command: &mut Cmd) {
        match self {
            Self::Queue => {}
            Self::Groups => {
                command.arg("GROUPS");
            }
            Self::Group(group) => {
                command.arg("GROUP").arg(group);
            }
        }
    }

    /// Its word in addresses and forms.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Groups => "groups",
            Self::Group(_) => "group",
        }
    }

    /// The limits that it can have.
    pub fn limits(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = matches!(self, Self::Queue);
        let own = LIMITS
            .into_iter()
            .filter(move |(_, groups, _)| all || *groups);
        own.map(|(limit, _, meaning)| (limit, meaning))
    }
}

/// The page.
pub async fn page(site: &Site, params: &Params) -> Result<Page, Failure> {
    let queue = params.needed("name")?;
    let of = Of::read(params)?;
    let mut command = redis::cmd("MQ.LIMITS");
    command.arg(&queue);
    of.put(&mut command);
    let answer = site.link.ask(&command).await?;
    let limits = Fields::read(&answer);
    if limits.is_none() && answer != Value::Nil {
        return Err(Failure::unexpected("MQ.LIMITS"));
    }
    let limits = limits.unwrap_or_default();
    let group = match &of {
        Of::Group(group) => spelled(group),
        _ => String::new(),
    };
    let body = html! {
        (queue_head(site, &queue, "/limits"))
        (note(params))
        nav.tabs aria-label="Whose limits" {
            @for (word, label) in [("queue", "of the queue"), ("groups", "of each group")] {
                a href=(site.queue_href("/limits", &queue, &[("of", word)]))
                    aria-current=[(of.word() == word).then_some("page")] { (label) }
            }
            @if let Of::Group(group) = &of {
                a aria-current="page" href=(site.queue_href("/limits", &queue,
                    &[("of", "group"), ("group", &spelled(group))])) { "of " (name(group)) }
            }
        }
        form method="post" action=(site.href("/act", &[])) {
            input type="hidden" name="do" value="limit";
            input type="hidden" name="name" value=(spelled(&queue));
            input type="hidden" name="of" value=(of.word());
            input type="hidden" name="group" value=(group);
            @for (limit, meaning) in of.limits() {
                @let now = shown(limit, limits.value(limit));
                p.field {
                    label for=(limit) { (limit) }
                    input id=(limit) name=(limit) value=(now) placeholder="off"
                        disabled[site.access.read_only()] aria-describedby={ (limit) "-meaning" };
                    input type="hidden" name={ "was-" (limit) } value=(now);
                    span.quiet id={ (limit) "-meaning" } { (meaning) }
                }
            }
            @if !site.access.read_only() {
                p.actions { button { "Set" } }
            }
        }
    };
    Ok(Page {
        title: output::name(&queue),
        renews: false,
        body,
    })
}

/// A limit as it is written into its field.
fn shown(limit: &str, value: Option<&Value>) -> String {
    let Some(value) = value else {
        return String::new();
    };
    match (limit, limit::rate(value), reply::unsigned(value)) {
        (_, Some((number, ms)), _) => format!("{number}/{}", time(ms)),
        ("dead-age", _, Some(ms)) => time(ms),
        _ => output::one_line(value),
    }
}

/// The time without a loss: with a unit if it is a whole number of them.
fn time(ms: u64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    let whole = units
        .into_iter()
        .find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    whole.map_or(ms.to_string(), |(unit, word)| {
        format!("{}{word}", ms / unit)
    })
}

/// The value for the command: arguments, or what is wrong.
pub fn arguments(limit: &str, given: &str) -> Result<Vec<String>, Failure> {
    let wrong = |line: String| Failure::usage(format!("{limit}: {line}"));
    match (limit, given.trim()) {
        (_, "") => Ok(vec!["OFF".into()]),
        ("rate", rate) => {
            let limit::Rate(rate) = rate.parse().map_err(wrong)?;
            Ok(rate.map_or(vec!["OFF".into()], |(number, time)| {
                vec![number.to_string(), duration::millis(time).to_string()]
            }))
        }
        ("dead-age", age) => {
            let age = duration::parse_above_zero(age).map_err(wrong)?;
            Ok(vec![duration::millis(age).to_string()])
        }
        (_, number) => match number.parse::<u64>() {
            Ok(1..) => Ok(vec![number.into()]),
            _ => Err(wrong("has to be a number of 1 and more, or nothing".into())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_can_be_set() {
        for (limit, given, sent) in [
            ("rate", "50/1m", &["50", "60000"][..]),
            ("rate", "1/1500", &["1", "1500"]),
            ("rate", "", &["OFF"]),
            ("dead-age", "7d", &["604800000"]),
            ("length", " 5 ", &["5"]),
            ("length", "", &["OFF"]),
        ] {
            assert_eq!(arguments(limit, given).unwrap(), sent);
        }
        for (limit, wrong) in [
            ("length", "0"),
            ("length", "x"),
            ("rate", "5"),
            ("dead-age", "0"),
        ] {
            assert!(arguments(limit, wrong).is_err(), "{wrong}");
        }
        let rate = Value::Array(vec![Value::Int(50), Value::Int(60_000)]);
        assert_eq!(shown("rate", Some(&rate)), "50/1m");
        assert_eq!(shown("dead-age", Some(&Value::Int(1_500))), "1500");
    }
}
