//! Every malformed argument of every command gives one error that names it and changes nothing.

mod common;

use common::{contract, Client, Lab, HOUR, TEN_YEARS};
use redis_mq_testkit::{ReplyExt, Value};

/// What is no number of any option.
const NO_NUMBERS: [&str; 24] = [
    "",
    "x",
    "-1",
    "-0",
    "+1",
    " 1",
    "1 ",
    "\t1",
    "01",
    "00",
    "1.0",
    "1.5",
    "1e3",
    "0x1",
    "1_000",
    "१",
    "1\0",
    "\0",
    "--1",
    "NaN",
    "9223372036854775808",
    "18446744073709551616",
    "18446744073709551617",
    "99999999999999999999999999999999999999999",
];

/// A queue with a message in every status, and one that does not exist. Checks that a command fails
/// and leaves both as they are.
struct Scene {
    client: Client,
    queue: String,
    missing: String,
    token: i64,
    digest: String,
}

impl Scene {
    fn build(lab: &Lab<'_>) -> Self {
        let (mut client, queue) = (lab.client(), lab.queue());
        for status in common::STATUSES.iter().rev() {
            client.put(&queue, status, status);
        }
        client.enqueue(&queue, "p", "ID held PRIORITY 0");
        let token = client.take(&queue).token;
        let digest = client.digest(&queue);
        Self {
            client,
            queue,
            missing: lab.queue(),
            token,
            digest,
        }
    }

    /// The error of a command line; `Q` stands for the queue, `T` for the token of the message
    /// `held`, `VALUE` for the value.
    #[track_caller]
    fn refused(&mut self, line: &str, value: &[u8]) -> String {
        let mut errors = Vec::new();
        for queue in [self.queue.clone(), self.missing.clone()] {
            let command: Vec<Vec<u8>> = line
                .split(' ')
                .map(|word| match word {
                    "Q" => queue.clone().into_bytes(),
                    "T" => self.token.to_string().into_bytes(),
                    "VALUE" => value.to_vec(),
                    word => word.as_bytes().to_vec(),
                })
                .collect();
            match self.client.call(&command) {
                Ok(reply) => panic!("{line} {:?}: {reply:?}", value.escape_ascii().to_string()),
                Err(error) => errors.push(error),
            }
        }
        let shown = value.escape_ascii();
        let digest = self.client.digest(&self.queue);
        assert_eq!(digest, self.digest, "{line} {shown} changed the queue");
        let exists = self.client.ok(&format!("EXISTS {}", self.missing));
        assert_eq!(exists, Value::Int(0), "{line} {shown} made a queue");
        // But for a limit that moves with the time.
        let words = |error: &str| error.replace(|c: char| c.is_ascii_digit(), "");
        assert_eq!(words(&errors[0]), words(&errors[1]), "{line} {shown}");
        let error = errors.remove(0);
        assert!(
            error.starts_with("ERR ") && error.is_ascii(),
            "{line}: {error}"
        );
        error
    }

    /// The error names the argument.
    #[track_caller]
    fn names(&mut self, name: &str, line: &str, value: &[u8]) {
        let error = self.refused(line, value);
        let named = error.split(' ').any(|word| word == name);
        assert!(named, "{line} {}: {error}", value.escape_ascii());
    }

    #[track_caller]
    fn is_syntax_error(&mut self, line: &str) {
        let error = self.refused(line, b"");
        let place = error.strip_prefix("ERR syntax error ");
        let near = place.and_then(|place| place.strip_prefix("near argument "));
        let near = near.and_then(|index| index.parse().ok());
        let in_line = near.is_some_and(|index| (1..line.split(' ').count()).contains(&index));
        let at_end = place == Some("at the end of the arguments");
        assert!(in_line || at_end, "{line}: {error}");
    }
}

#[test]
fn a_number_that_is_none_or_out_of_range_names_its_option() {
    let beyond = (TEN_YEARS + 1).to_string();
    let beyond = beyond.as_str();
    contract(|lab| {
        let mut scene = Scene::build(lab);
        let far = (scene.client.now() + TEN_YEARS + HOUR).to_string();
        let far = far.as_str();
        let last = "9223372036854775807";
        for (name, line, out_of_range) in [
            (
                "DELAY",
                "MQ.ENQUEUE Q p ID new DELAY VALUE",
                vec![beyond, last],
            ),
            ("AT", "MQ.ENQUEUE Q p ID new AT VALUE", vec![far, last]),
            (
                "LOCK",
                "MQ.ENQUEUE Q p ID new LOCK VALUE",
                vec!["0", beyond, last],
            ),
            (
                "ATTEMPTS",
                "MQ.ENQUEUE Q p ATTEMPTS VALUE ID new",
                vec!["4294967296", last],
            ),
            (
                "PRIORITY",
                "MQ.ENQUEUE Q p ID new PRIORITY VALUE",
                vec!["10", "256", last],
            ),
            (
                "DELAY",
                "MQ.ENQUEUE Q p ID queued UPDATE DELAY VALUE",
                vec![beyond, last],
            ),
            (
                "LOCK",
                "MQ.ENQUEUE Q p ID locked REQUEUE LOCK VALUE",
                vec!["0", beyond],
            ),
            (
                "COUNT",
                "MQ.DEQUEUE Q COUNT VALUE",
                vec!["0", "4294967296", last],
            ),
            ("LOCK", "MQ.DEQUEUE Q LOCK VALUE", vec!["0", beyond, last]),
            ("BLOCK", "MQ.DEQUEUE Q BLOCK VALUE", vec![beyond, last]),
            (
                "numqueues",
                "MQ.MDEQUEUE VALUE Q COUNT 1",
                vec!["0", "1001", last],
            ),
            (
                "COUNT",
                "MQ.MDEQUEUE 1 Q COUNT VALUE",
                vec!["0", "4294967296", last],
            ),
            ("BLOCK", "MQ.MDEQUEUE 1 Q BLOCK VALUE", vec![beyond, last]),
            ("BLOCK", "MQ.RESULT Q held BLOCK VALUE", vec![beyond, last]),
            ("token", "MQ.DONE Q held VALUE", vec![]),
            ("token", "MQ.DONE Q held VALUE RETRY", vec![]),
            (
                "BACKOFF",
                "MQ.DONE Q held T BACKOFF VALUE",
                vec![beyond, last, "EXPO"],
            ),
            (
                "BACKOFF",
                "MQ.DONE Q held T RETRY BACKOFF VALUE",
                vec![beyond, last],
            ),
            ("count", "MQ.MENQUEUE Q VALUE p", vec!["0", "10001", last]),
            ("LOCK", "MQ.MENQUEUE Q 2 p p LOCK VALUE", vec!["0", beyond]),
            ("count", "MQ.MDONE Q VALUE held T", vec!["0", "10001", last]),
            ("token", "MQ.MDONE Q 2 held T held VALUE", vec![]),
            ("token", "MQ.EXTEND Q held VALUE 5", vec![]),
            ("ms", "MQ.EXTEND Q held T VALUE", vec!["0", beyond, last]),
            ("COUNT", "MQ.PEEK Q COUNT VALUE", vec!["0", "1001", last]),
            ("COUNT", "MQ.SCAN Q 0 COUNT VALUE", vec!["0", "10001", last]),
            ("cursor", "MQ.SCAN Q VALUE", vec![]),
            (
                "COUNT",
                "MQ.REDRIVE Q COUNT VALUE",
                vec!["0", "10001", last],
            ),
            (
                "COUNT",
                "MQ.PURGE Q ALL COUNT VALUE",
                vec!["0", "100001", last],
            ),
        ] {
            for value in NO_NUMBERS.iter().chain(&out_of_range) {
                scene.names(name, line, value.as_bytes());
            }
        }
    });
}

#[test]
fn a_syntax_error_tells_near_which_argument_it_is() {
    contract(|lab| {
        let mut scene = Scene::build(lab);
        for (line, place) in [
            ("MQ.DEQUEUE Q b", "near argument 2"),
            ("MQ.DEQUEUE Q COUNT 1 WHAT 5", "near argument 4"),
            ("MQ.DEQUEUE Q COUNT 1 COUNT 2", "near argument 5"),
            ("MQ.DEQUEUE Q COUNT 1 BLOCK", "at the end of the arguments"),
            ("MQ.ENQUEUE Q p IDS x", "near argument 3"),
            ("MQ.PEEK Q STATUS what", "near argument 3"),
        ] {
            let error = scene.refused(line, b"");
            assert_eq!(error, format!("ERR syntax error {place}"), "{line}");
        }
    });
}

#[test]
fn a_pause_after_eoq_that_is_none_is_refused() {
    let beyond = (TEN_YEARS + 1).to_string();
    contract(|lab| {
        let mut scene = Scene::build(lab);
        for line in [
            "MQ.DEQUEUE Q EOQ VALUE",
            "MQ.DEQUEUE Q EOQ 1 2 3 4 VALUE COUNT 1",
        ] {
            for value in NO_NUMBERS.into_iter().chain([beyond.as_str()]) {
                let error = scene.refused(line, value.as_bytes());
                // What does not look like a number can only be taken for an option.
                let sign = value.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
                let named = error.split(' ').any(|word| word == "EOQ");
                assert!(
                    named || (!sign && error.starts_with("ERR syntax error near argument ")),
                    "{value:?}: {error}"
                );
            }
        }
        scene.is_syntax_error("MQ.DEQUEUE Q EOQ 1 2 3 4 5 6");
    });
}

#[test]
fn an_id_that_is_empty_or_too_long_is_named() {
    contract(|lab| {
        let mut scene = Scene::build(lab);
        for id in [&b""[..], &[b'x'; 513], &[0; 100_000]] {
            for line in [
                "MQ.ENQUEUE Q p ID VALUE",
                "MQ.DONE Q VALUE T",
                "MQ.MENQUEUE Q 2 p p IDS new VALUE",
                "MQ.MDONE Q 2 held T VALUE T",
                "MQ.EXTEND Q VALUE T 5",
                "MQ.STATUS Q VALUE",
                "MQ.GET Q VALUE",
                "MQ.RESULT Q VALUE BLOCK 0",
                "MQ.PEEK Q AFTER VALUE",
                "MQ.REDRIVE Q VALUE",
                "MQ.REDRIVE Q dead VALUE",
                "MQ.CANCEL Q VALUE",
                "MQ.CANCEL Q queued VALUE",
                "MQ.CANCEL Q queued dead VALUE held",
            ] {
                let error = scene.refused(line, id);
                let mut words = error.split(' ');
                assert!(
                    words.any(|word| word.eq_ignore_ascii_case("id")),
                    "{line}: {error}"
                );
            }
        }
    });
}

#[test]
fn a_reason_that_is_too_long_is_named() {
    contract(|lab| {
        let mut scene = Scene::build(lab);
        scene.names(
            "REASON",
            "MQ.DONE Q held T ERROR REASON VALUE",
            &[b'r'; 1025],
        );
        scene.names(
            "REASON",
            "MQ.DONE Q held T REASON VALUE ERROR",
            &[0; 100_000],
        );
    });
}

#[test]
fn an_unknown_repeated_or_incomplete_option_is_a_syntax_error() {
    contract(|lab| {
        let mut scene = Scene::build(lab);
        for options in [
            "zzz",
            "5",
            "ID",
            "DELAY",
            "AT",
            "LOCK",
            "ATTEMPTS",
            "PRIORITY",
            "ID new DELAY",
            "ID new ID new",
            "DELAY 5 DELAY 5",
            "AT 5 AT 5",
            "LOCK 5 LOCK 5",
            "ATTEMPTS 5 attempts 5",
            "PRIORITY 5 PRIORITY 6",
            "REQUEUE REQUEUE",
            "UPDATE update",
            "REQUEUE UPDATE REQUEUE",
            "ID new zzz",
            "BLOCK 5",
            "COUNT 5",
            "BACKOFF 5",
        ] {
            scene.is_syntax_error(&format!("MQ.ENQUEUE Q p {options}"));
        }
        for options in [
            "zzz",
            "5",
            "COUNT",
            "LOCK",
            "BLOCK",
            "COUNT 1 COUNT 1",
            "LOCK 1 lock 1",
            "BLOCK 1 BLOCK 1",
            "EOQ EOQ",
            "EOQ 5 EOQ 5",
            "EOQ zzz",
            "EOQ 5 zzz",
            "COUNT 1 5",
            "DELAY 5",
            "ID held",
        ] {
            scene.is_syntax_error(&format!("MQ.DEQUEUE Q {options}"));
        }
        for options in [
            "zzz",
            "5",
            "STATUS",
            "STATUS zzz",
            "STATUS dead STATUS locked",
            "COUNT",
            "COUNT 5 count 5",
            "AFTER",
            "AFTER dead AFTER dead",
            "REV rev",
            "MATCH a",
        ] {
            scene.is_syntax_error(&format!("MQ.PEEK Q {options}"));
        }
        for options in [
            "zzz",
            "5",
            "STATUS",
            "STATUS zzz",
            "STATUS dead STATUS dead",
            "MATCH",
            "MATCH a MATCH b",
            "COUNT",
            "COUNT 5 COUNT 5",
            "REV",
        ] {
            scene.is_syntax_error(&format!("MQ.SCAN Q 0 {options}"));
        }
        for options in [
            "zzz",
            "5",
            "COUNT",
            "GROUP",
            "GROUP a group b",
            "COUNT 5 COUNT 5",
        ] {
            scene.is_syntax_error(&format!("MQ.GROUPS Q 0 {options}"));
        }
        for options in ["COUNT", "count", "COUNT 5 dead", "COUNT 5 COUNT 5"] {
            scene.is_syntax_error(&format!("MQ.REDRIVE Q {options}"));
        }
        for options in [
            "zzz",
            "ALL dead",
            "dead ALL",
            "dead 5",
            "COUNT 5",
            "STATUS dead",
            "dead COUNT",
            "ALL COUNT 5 COUNT 5",
        ] {
            scene.is_syntax_error(&format!("MQ.PURGE Q {options}"));
        }
        for options in [
            "zzz",
            "5",
            "BACKOFF",
            "SUCCESS SUCCESS",
            "RETRY retry",
            "ERROR ERROR",
            "RELEASE RELEASE",
            "BACKOFF 5 BACKOFF 5",
            "BACKOFF 0 BACKOFF 0",
            "BACKOFF EXP BACKOFF EXP",
            "BACKOFF 5 5",
            "EXP",
            "ERROR REASON",
            "ERROR REASON a REASON b",
            "ERROR why",
        ] {
            scene.is_syntax_error(&format!("MQ.DONE Q held T {options}"));
            scene.is_syntax_error(&format!("MQ.MDONE Q 1 held T {options}"));
        }
        for options in ["2 Q", "1 Q Q", "1 Q EOQ", "1 Q EOQ 5", "2 Q COUNT 5"] {
            scene.is_syntax_error(&format!("MQ.MDEQUEUE {options}"));
        }
        scene.is_syntax_error("MQ.MDONE Q 2 held T");
        for options in [
            "2 p",
            "1 p p",
            "1 p ID new",
            "1 p IDS",
            "2 p p IDS new",
            "1 p IDS new new",
            "1 p IDS new IDS new",
            "1 p DELAY 5 AT 5",
            "1 p BURY",
            "1 p THEN",
            "1 p THENID a",
            "1 p THEN p THEN p",
            "1 p THEN p JOIN a",
        ] {
            scene.is_syntax_error(&format!("MQ.MENQUEUE Q {options}"));
        }
        scene.is_syntax_error("MQ.MDONE Q 1 held T held T");
        for options in ["held", "BLOCK", "BLOCK 1 BLOCK 1", "EOQ", "BLOCK 1 5"] {
            scene.is_syntax_error(&format!("MQ.RESULT Q held {options}"));
        }
    });
}

#[test]
fn options_that_contradict_each_other_are_a_syntax_error() {
    contract(|lab| {
        let mut scene = Scene::build(lab);
        for line in [
            "MQ.ENQUEUE Q p ID new DELAY 5 AT 5",
            "MQ.ENQUEUE Q p AT 5 ID new DELAY 5",
            "MQ.ENQUEUE Q p ID new DELAY 0 AT 0",
            "MQ.DEQUEUE Q BLOCK 5 EOQ",
            "MQ.DEQUEUE Q EOQ BLOCK 5",
            "MQ.DEQUEUE Q EOQ 5 BLOCK 0",
        ] {
            scene.is_syntax_error(line);
        }
        let verdicts = ["SUCCESS", "RETRY", "ERROR", "RELEASE"];
        for one in verdicts {
            for other in verdicts {
                scene.is_syntax_error(&format!("MQ.DONE Q held T {one} {other}"));
            }
        }
        for options in [
            "ERROR BACKOFF 5",
            "BACKOFF EXP ERROR",
            "ERROR REASON why BACKOFF 5",
            "RELEASE BACKOFF 5",
            "BACKOFF EXP RELEASE",
            "REASON why",
            "SUCCESS REASON why",
            "REASON why RELEASE",
            "BACKOFF 5 REASON why",
            "RETRY RESULT x",
            "RESULT x RESULT y",
            "RELEASE RETAIN 5",
        ] {
            scene.is_syntax_error(&format!("MQ.DONE Q held T {options}"));
        }
    });
}

#[test]
fn too_few_and_too_many_arguments_are_refused() {
    contract(|lab| {
        let mut client = lab.client();
        for line in [
            "MQ.ENQUEUE",
            "MQ.ENQUEUE q",
            "MQ.DEQUEUE",
            "MQ.MDEQUEUE",
            "MQ.MDEQUEUE 1",
            "MQ.DONE",
            "MQ.DONE q",
            "MQ.DONE q id",
            "MQ.MENQUEUE",
            "MQ.MENQUEUE q",
            "MQ.MENQUEUE q 1",
            "MQ.MDONE",
            "MQ.MDONE q 1",
            "MQ.MDONE q 1 id",
            "MQ.EXTEND",
            "MQ.EXTEND q id",
            "MQ.EXTEND q id 5",
            "MQ.EXTEND q id 5 5 5",
            "MQ.STATUS",
            "MQ.STATUS q",
            "MQ.STATUS q id id",
            "MQ.GET",
            "MQ.GET q",
            "MQ.GET q id id",
            "MQ.RESULT",
            "MQ.RESULT q",
            "MQ.LATENCY",
            "MQ.LIMITS",
            "MQ.LATENCY q q",
            "MQ.PEEK",
            "MQ.SCAN",
            "MQ.SCAN q",
            "MQ.REDRIVE",
            "MQ.REDRIVE q",
            "MQ.PURGE",
            "MQ.PURGE q",
            "MQ.CANCEL",
            "MQ.CANCEL q",
            "MQ.INFO",
            "MQ.INFO q q",
            "MQ.SCHEDULE",
            "MQ.SCHEDULE q name p EVERY",
            "MQ.UNSCHEDULE q",
            "MQ.SCHEDULES q",
            "MQ.FIRE q",
            "MQ.FIRE q name name",
        ] {
            let error = client.line(line).unwrap_err();
            let text = error.to_lowercase();
            assert!(
                error.starts_with("ERR wrong number of arguments"),
                "{line}: {error}"
            );
            let name = line.split(' ').next().unwrap().to_lowercase();
            assert!(text.contains(&name), "{line}: {error}");
        }
        assert_eq!(client.ok("EXISTS q"), Value::Int(0));
    });
}

#[test]
fn no_error_repeats_what_the_user_sent() {
    contract(|lab| {
        let mut scene = Scene::build(lab);
        let evil = b"zzz%s%n\r\n-ERR injected\r\n\0\xff";
        for line in [
            "MQ.ENQUEUE Q p VALUE",
            "MQ.ENQUEUE Q p DELAY VALUE",
            "MQ.DEQUEUE Q VALUE",
            "MQ.DEQUEUE Q COUNT VALUE",
            "MQ.DEQUEUE Q EOQ VALUE",
            "MQ.MDEQUEUE VALUE Q",
            "MQ.MDEQUEUE 1 Q VALUE",
            "MQ.DONE Q held VALUE",
            "MQ.DONE Q held T VALUE",
            "MQ.MENQUEUE Q VALUE p",
            "MQ.MENQUEUE Q 1 p VALUE",
            "MQ.MDONE Q VALUE held T",
            "MQ.MDONE Q 1 held T VALUE",
            "MQ.EXTEND Q held T VALUE",
            "MQ.SCHEDULE Q name p EVERY VALUE",
            "MQ.SCHEDULE Q name p CRON VALUE",
            "MQ.SCHEDULE Q name p CRON @daily TZ VALUE",
            "MQ.SCHEDULE Q name p EVERY 1000 OVERLAP VALUE",
            "MQ.SCHEDULE Q name p EVERY 1000 VALUE",
            "MQ.SCHEDULES Q VALUE",
        ] {
            let error = scene.refused(line, evil);
            assert!(
                !error.contains("zzz") && !error.contains("injected"),
                "{line}: {error}"
            );
        }
        assert_eq!(scene.client.ok("PING"), Value::SimpleString("PONG".into()));
    });
}

#[test]
fn the_limits_themselves_are_accepted() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let far = client.now() + TEN_YEARS - HOUR;
        for options in [
            format!("LOCK 1 ATTEMPTS 4294967295 PRIORITY 9 DELAY {TEN_YEARS}"),
            format!("LOCK {TEN_YEARS} ATTEMPTS 0 PRIORITY 0 AT {far}"),
            "DELAY 0".into(),
            "AT 0".into(),
        ] {
            assert_eq!(client.enqueue(&queue, "p", &options), "added", "{options}");
        }
        let options = format!("COUNT 4294967295 LOCK {TEN_YEARS} EOQ 0 1 2 3 {TEN_YEARS}");
        let got = client.ok(&format!("MQ.DEQUEUE {queue} {options}"));
        assert_eq!(got.items().len(), 2);
        client.enqueue(&queue, "p", "ID a");
        assert_eq!(
            client.dequeue_many(&queue, 1, "LOCK 1 BLOCK 0")[0].lock_ms,
            1
        );
    });
}
