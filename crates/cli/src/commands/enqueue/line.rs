//! One message, and how it is read from a line.

use std::collections::BTreeMap;

use base64::{prelude::BASE64_STANDARD, Engine as _};
use redis_mq_client::redis::{self, Cmd};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Options;
use crate::duration;

/// A message as it is to be sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Message {
    payload: Vec<u8>,
    id: Option<Vec<u8>>,
    at: Option<u64>,
    delay: Option<u64>,
    lock: Option<u64>,
    attempts: Option<u32>,
    priority: Option<u8>,
    group: Option<Vec<u8>>,
    ttl: Option<u64>,
    bury: bool,
    retain: Option<u64>,
    headers: Option<Vec<u8>>,
}

/// A line of JSON. Whatever else it has is a slip of the pen, and an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    id: Option<String>,
    #[serde(rename = "id-base64")]
    id_base64: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(rename = "payload-base64")]
    payload_base64: Option<String>,
    at: Option<u64>,
    delay: Option<u64>,
    lock: Option<u64>,
    attempts: Option<u32>,
    priority: Option<u8>,
    group: Option<String>,
    ttl: Option<u64>,
    #[serde(default)]
    bury: bool,
    retain: Option<u64>,
    headers: Option<Headers>,
}

/// Headers as they are sent, or by their names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Headers {
    Lines(String),
    Named(BTreeMap<String, String>),
}

impl Message {
    /// A message with this payload and nothing else.
    pub fn plain(payload: impl AsRef<[u8]>) -> Self {
        Self {
            payload: payload.as_ref().to_vec(),
            ..Self::default()
        }
    }

    /// Reads a JSON object.
    pub fn from_json(line: &[u8]) -> Result<Self, String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| {
            // There is one line only, and its number is told by who has it.
            let text = error.to_string();
            text.split(" at line ").next().unwrap_or(&text).to_owned()
        })?;
        let decode = |name: &str, text: String| {
            let decoded = BASE64_STANDARD.decode(text);
            decoded.map_err(|_| format!("`{name}` is not base64"))
        };
        let payload = match (line.payload, line.payload_base64) {
            (Some(payload), None) => match serde_json::from_str::<String>(payload.get()) {
                Ok(text) => text.into_bytes(),
                Err(_) => payload.get().as_bytes().to_vec(),
            },
            (None, Some(text)) => decode("payload-base64", text)?,
            (None, None) => return Err("`payload` is missing".into()),
            (Some(_), Some(_)) => return Err("`payload` stands twice".into()),
        };
        let id = match (line.id, line.id_base64) {
            (Some(_), Some(_)) => return Err("`id` stands twice".into()),
            (Some(id), None) => Some(id.into_bytes()),
            (None, Some(text)) => Some(decode("id-base64", text)?),
            (None, None) => None,
        };
        if id
            .as_ref()
            .is_some_and(|id| id.is_empty() || id.len() > 512)
        {
            return Err("`id` has to be 1 to 512 bytes long".into());
        }
        if line.at.is_some() && line.delay.is_some() {
            return Err("`at` and `delay` exclude each other".into());
        }
        if line.priority.is_some_and(|priority| priority > 9) {
            return Err("`priority` has to be 0 to 9".into());
        }
        let longest = 315_360_000_000;
        if line.delay.is_some_and(|delay| delay > longest) {
            return Err("`delay` is longer than ten years".into());
        }
        if line.lock.is_some_and(|lock| lock == 0 || lock > longest) {
            return Err("`lock` has to be 1 ms to ten years".into());
        }
        if line.ttl.is_some_and(|ttl| ttl == 0 || ttl > longest) {
            return Err("`ttl` has to be 1 ms to ten years".into());
        }
        if line.retain.is_some_and(|retain| retain > longest) {
            return Err("`retain` is longer than ten years".into());
        }
        if line.bury && line.ttl.is_none() {
            return Err("`bury` goes with `ttl`".into());
        }
        let group = line.group.map(String::into_bytes);
        if group
            .as_ref()
            .is_some_and(|group| group.is_empty() || group.len() > 128)
        {
            return Err("`group` has to be 1 to 128 bytes long".into());
        }
        let headers = match line.headers {
            None => None,
            Some(Headers::Lines(text)) => Some(text),
            Some(Headers::Named(named)) => {
                let lines: Vec<_> = named
                    .iter()
                    .map(|(name, value)| header(&format!("{name}: {value}")))
                    .collect::<Result<_, _>>()?;
                Some(lines.join("\n"))
            }
        };
        let headers = headers.map(String::into_bytes);
        if headers
            .as_ref()
            .is_some_and(|headers| headers.is_empty() || headers.len() > 4096)
        {
            return Err("`headers` have to be 1 to 4096 bytes long".into());
        }
        Ok(Self {
            payload,
            id,
            at: line.at,
            delay: line.delay,
            lock: line.lock,
            attempts: line.attempts,
            priority: line.priority,
            group,
            ttl: line.ttl,
            bury: line.bury,
            retain: line.retain,
            headers,
        })
    }

    /// The command that sends it; the options count where it says nothing itself.
    pub fn command(&self, queue: &[u8], options: &Options) -> Cmd {
        let mut command = redis::cmd("MQ.ENQUEUE");
        command.arg(queue).arg(&self.payload);
        if let Some(id) = self
            .id
            .as_deref()
            .or(options.id.as_deref().map(str::as_bytes))
        {
            command.arg("ID").arg(id);
        }
        let own = self.at.is_some() || self.delay.is_some();
        let (at, delay) = match own {
            true => (self.at, self.delay),
            false => (options.at, options.delay.map(duration::millis)),
        };
        for (name, value) in [
            ("AT", at),
            ("DELAY", delay),
            ("LOCK", self.lock.or(options.lock.map(duration::millis))),
            (
                "RETAIN",
                self.retain.or(options.retain.map(duration::millis)),
            ),
            (
                "ATTEMPTS",
                self.attempts.or(options.attempts).map(u64::from),
            ),
            (
                "PRIORITY",
                self.priority.or(options.priority).map(u64::from),
            ),
        ] {
            if let Some(value) = value {
                command.arg(name).arg(value);
            }
        }
        let (ttl, bury) = match self.ttl {
            Some(ttl) => (Some(ttl), self.bury),
            None => (options.ttl.map(duration::millis), options.bury),
        };
        if let Some(ttl) = ttl {
            command.arg("TTL").arg(ttl);
            if bury {
                command.arg("BURY");
            }
        }
        let group = options.group.as_deref().map(str::as_bytes);
        if let Some(group) = self.group.as_deref().or(group) {
            command.arg("GROUP").arg(group);
        }
        if let Some(headers) = &self.headers {
            command.arg("HEADERS").arg(headers);
        } else if !options.header.is_empty() {
            command.arg("HEADERS").arg(options.header.join("\n"));
        }
        if options.update {
            command.arg("UPDATE");
        }
        if options.requeue {
            command.arg("REQUEUE");
        }
        command
    }
}

/// A line of headers: a name in lower case, and a value.
pub fn header(line: &str) -> Result<String, String> {
    let Some((name, value)) = line.split_once(':') else {
        return Err("a header is `name: value`".into());
    };
    let name = name.trim().to_ascii_lowercase();
    let value = value.trim();
    if name.is_empty() || name.contains(char::is_whitespace) || value.contains(['\n', '\r']) {
        return Err("a header is `name: value` in one line".into());
    }
    Ok(format!("{name}: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_a_string_as_it_is_or_json_as_it_is_written() {
        for (line, payload) in [
            (r#"{"payload":"a\nb"}"#, &b"a\nb"[..]),
            (r#"{"payload":{"to": "ada"}}"#, br#"{"to": "ada"}"#),
            (r#"{"payload":7}"#, b"7"),
            (r#"{"payload-base64":"/w=="}"#, &[0xff]),
        ] {
            assert_eq!(
                Message::from_json(line.as_bytes()),
                Ok(Message::plain(payload))
            );
        }
    }

    #[test]
    fn wrong_lines_say_what_is_wrong() {
        for (line, why) in [
            ("{\"payload\":\"a", "EOF"),
            ("{}", "`payload` is missing"),
            (r#"{"payload":1,"delya":5}"#, "delya"),
            (r#"{"payload":1,"at":5,"delay":5}"#, "exclude"),
            (r#"{"payload":1,"id":""}"#, "1 to 512"),
            (r#"{"payload":1,"priority":10}"#, "0 to 9"),
            (r#"{"payload":1,"lock":0}"#, "`lock`"),
            (r#"{"payload":1,"attempts":-1}"#, "-1"),
            (r#"{"payload":1,"ttl":0}"#, "`ttl`"),
            (r#"{"payload":1,"bury":true}"#, "`bury`"),
            (r#"{"payload":1,"retain":400000000000}"#, "`retain`"),
            (r#"{"payload":1,"group":""}"#, "`group`"),
            (r#"{"payload":1,"headers":{"a b":"c"}}"#, "header"),
        ] {
            let error = Message::from_json(line.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn headers_by_name_become_lines() {
        let line =
            br#"{"payload":1,"headers":{"Traceparent":"00-ab","b":"c"},"group":"g","ttl":5,"retain":0}"#;
        let message = Message::from_json(line).unwrap();
        assert_eq!(
            message.headers.as_deref(),
            Some(&b"traceparent: 00-ab\nb: c"[..])
        );
        let options = Options::default();
        let sent = message.command(b"q", &options).get_packed_command();
        let sent = String::from_utf8(sent).unwrap();
        assert!(sent.contains("TTL") && sent.contains("GROUP"), "{sent}");
        assert!(sent.contains("RETAIN\r\n$1\r\n0\r\n"), "{sent}");
    }
}
