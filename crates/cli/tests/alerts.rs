//! ops/: the alert rules do what they say on what an exporter told of real servers, and they and the
//! dashboard name nothing that it does not tell.

mod common;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use common::exporter::{promtool, value, Exporter};
use redis_mq_testkit::ReplyExt as _;
use redis_mq_testkit::{call, redis::Connection, wait_until, workspace_root, Server, PATIENCE};
use serde_json::Value as Json;

fn ops(file: &str) -> PathBuf {
    workspace_root().join("ops").join(file)
}

/// The names of this project's metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    words.filter(|word| word.starts_with("redis_mq_")).collect()
}

/// What happens to a queue `q`, as an exporter tells of it: ten minutes of what was first, then two
/// hours of what is last. A message that waits grows older by a minute a minute.
struct Story {
    server: Server,
    exporter: Exporter,
    first: String,
}

const CHANGES_AT: usize = 10;
const ENDS_AT: usize = 130;

impl Story {
    /// A queue that has done its work.
    fn begin() -> Self {
        let server = Server::start();
        let mut conn = server.conn();
        call!(conn, "MQ.ENQUEUE", "q", "x").unwrap();
        deliver(&mut conn, "SUCCESS", &[]);
        let exporter = Exporter::start(&server.url(), &[]);
        let first = exporter.metrics();
        Self {
            server,
            exporter,
            first,
        }
    }

    /// What is firing at these minutes: names of alerts, without what they all begin with.
    #[track_caller]
    fn fires(&self, at: &[(usize, &[&str])]) {
        self.fires_in(&self.series(), at);
    }

    fn series(&self) -> String {
        let last = self.exporter.metrics();
        let ready = value(&last, "redis_mq_messages{queue=\"q\",status=\"queued\"}");
        let waits = ready > Some(0.0);
        let mut series = String::new();
        let samples = self.first.lines().filter(|line| !line.starts_with('#'));
        for sample in samples.filter_map(|line| Some(line.rsplit_once(' ')?.0)) {
            let before = value(&self.first, sample).unwrap();
            let of_minutes = |begin: f64, growth: f64, count: usize| {
                let value = |minute| begin + growth * minute as f64;
                (0..count)
                    .map(value)
                    .map(|value| value.to_string())
                    .collect::<Vec<_>>()
            };
            let mut values = of_minutes(before, 0.0, CHANGES_AT);
            let rest = ENDS_AT - CHANGES_AT;
            // The tests of rules have a clock that begins at 0, so an instant is told from there.
            let began = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
            values.extend(match value(&last, sample) {
                Some(next) if sample.contains("next_timestamp") => {
                    of_minutes(next - began + CHANGES_AT as f64 * 60.0, 0.0, rest)
                }
                Some(now) if sample.contains("oldest_seconds") && waits => {
                    of_minutes(now, 60.0, rest)
                }
                Some(now) => of_minutes(now, 0.0, rest),
                None => vec!["_".into(); rest],
            });
            let sample = sample.replace('\'', "''");
            let values = values.join(" ");
            writeln!(series, "      - {{series: '{sample}', values: '{values}'}}").unwrap();
        }
        series
    }

    #[track_caller]
    fn fires_in(&self, series: &str, at: &[(usize, &[&str])]) {
        let mut test = format!(
            "rule_files: ['{}']\ntests:\n  - interval: 1m\n    input_series:\n{series}    \
             promql_expr_test:\n",
            ops("alerts.yml").display()
        );
        for (minute, alerts) in at {
            let firing = "count by (alertname) (ALERTS{alertstate=\"firing\"})";
            writeln!(
                test,
                "      - {{expr: '{firing}', eval_time: {minute}m, exp_samples: ["
            )
            .unwrap();
            for alert in *alerts {
                writeln!(
                    test,
                    "          {{labels: '{{alertname=\"RedisMq{alert}\"}}', value: 1}},"
                )
                .unwrap();
            }
            test += "        ]}\n";
        }
        let ended = promtool(
            self.server.dir(),
            &["test", "rules", "promtool-input"],
            &test,
        );
        assert_eq!(ended.code, 0, "{}{}\n{test}", ended.out, ended.err);
    }
}

/// Takes the next message and ends it with that verdict.
fn deliver(conn: &mut Connection, verdict: &str, more: &[&str]) {
    let delivery = call!(*conn, "MQ.DEQUEUE", "q").unwrap();
    let delivery = delivery.items();
    let (id, token) = (delivery[0].bytes(), delivery[3].int());
    call!(*conn, "MQ.DONE", "q", id, token, verdict, more).unwrap();
}

#[test]
fn a_queue_that_does_its_work_is_quiet() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    for _ in 0..5 {
        call!(conn, "MQ.ENQUEUE", "q", "x").unwrap();
        deliver(&mut conn, "SUCCESS", &[]);
    }
    story.fires(&[(9, &[]), (11, &[]), (30, &[]), (129, &[])]);
}

#[test]
fn messages_that_nobody_takes() {
    let story = Story::begin();
    call!(story.server.conn(), "MQ.ENQUEUE", "q", "x").unwrap();
    let both: &[_] = &["NobodyWorks", "OldestWaits"];
    story.fires(&[(9, &[]), (14, &[]), (20, both), (129, both)]);
}

#[test]
fn a_message_that_is_held_by_its_group_is_no_sign_that_nobody_works() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    for _ in 0..2 {
        call!(conn, "MQ.ENQUEUE", "q", "x", "GROUP", "g").unwrap();
    }
    call!(conn, "MQ.DEQUEUE", "q", "LOCK", 3_600_000).unwrap();
    story.fires(&[(14, &[]), (129, &["OldestWaits"])]);
}

#[test]
fn a_worker_that_dies() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    call!(conn, "MQ.ENQUEUE", "q", "x", "ATTEMPTS", 5).unwrap();
    call!(conn, "MQ.DEQUEUE", "q", "LOCK", 1).unwrap();
    let expired = || {
        value(
            &story.exporter.metrics(),
            "redis_mq_expired_locks_total{queue=\"q\"}",
        )
    };
    wait_until(PATIENCE, || expired() == Some(1.0));
    // The message is back, and nobody takes it.
    let later: &[_] = &["NobodyWorks", "OldestWaits"];
    story.fires(&[(9, &[]), (12, &["LocksExpire"]), (40, later)]);
}

#[test]
fn a_poison_message() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    call!(conn, "MQ.ENQUEUE", "q", "x", "ATTEMPTS", 2).unwrap();
    for _ in 0..2 {
        deliver(&mut conn, "RETRY", &[]);
    }
    story.fires(&[
        (9, &[]),
        (12, &["DeadLettersRise"]),
        (40, &[]),
        (129, &["DeadLettersWait"]),
    ]);
}

#[test]
fn one_dead_letter_of_many_messages_is_no_rise_and_many_retries_are_told() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    for _ in 0..30 {
        call!(conn, "MQ.ENQUEUE", "q", "x").unwrap();
        deliver(&mut conn, "SUCCESS", &[]);
    }
    call!(conn, "MQ.ENQUEUE", "q", "x").unwrap();
    deliver(&mut conn, "ERROR", &[]);
    story.fires(&[(12, &[]), (40, &[]), (129, &["DeadLettersWait"])]);
    call!(conn, "MQ.PURGE", "q", "dead").unwrap();
    call!(conn, "MQ.ENQUEUE", "q", "x").unwrap();
    for _ in 0..50 {
        deliver(&mut conn, "RETRY", &[]);
    }
    deliver(&mut conn, "SUCCESS", &[]);
    story.fires(&[(12, &[]), (17, &["Retries"]), (60, &[])]);
}

#[test]
fn dead_letters_that_are_dropped() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    call!(conn, "CONFIG", "SET", "mq.max-dead", 1)
        .or_else(|_| call!(conn, "MQ.LIMIT", "q", "DEAD", 1))
        .unwrap();
    for _ in 0..2 {
        call!(conn, "MQ.ENQUEUE", "q", "x").unwrap();
        deliver(&mut conn, "ERROR", &[]);
    }
    story.fires(&[(12, &["DeadLettersDropped", "DeadLettersRise"])]);
}

#[test]
fn a_queue_that_stays_paused() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    call!(conn, "MQ.ENQUEUE", "q", "x").unwrap();
    call!(conn, "MQ.PAUSE", "q").unwrap();
    story.fires(&[(9, &[]), (60, &[]), (71, &["Paused"]), (129, &["Paused"])]);
}

#[test]
fn a_queue_that_is_full() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    call!(conn, "MQ.LIMIT", "q", "LENGTH", 1).unwrap();
    call!(conn, "MQ.ENQUEUE", "q", "x").unwrap();
    call!(conn, "MQ.ENQUEUE", "q", "x").unwrap_err();
    deliver(&mut conn, "SUCCESS", &[]);
    story.fires(&[(9, &[]), (12, &["Full"]), (60, &[])]);
}

#[test]
fn schedules_that_do_not_keep_their_times() {
    let mut story = Story::begin();
    let mut conn = story.server.conn();
    let every = ["EVERY", "3600000"];
    call!(conn, "MQ.SCHEDULE", "q", "hourly", "x", &every).unwrap();
    story.first = story.exporter.metrics();
    let fresh = "redis_mq_schedule_skipped_total{queue=\"q\",schedule=\"hourly\"} 0";
    assert!(story.first.contains(fresh), "{}", story.first);
    // The next run is an hour away when things change, and nothing more is heard of it.
    let overdue: &[_] = &["ScheduleOverdue"];
    story.fires(&[(9, &[]), (70, &[]), (73, overdue), (129, overdue)]);
    // The second run of an unfinished first one is left out.
    let often = ["EVERY", "1000"];
    call!(conn, "MQ.SCHEDULE", "q", "hourly", "x", &often).unwrap();
    let skipped = "redis_mq_schedule_skipped_total{queue=\"q\",schedule=\"hourly\"}";
    wait_until(PATIENCE, || {
        value(&story.exporter.metrics(), skipped) >= Some(1.0)
    });
    call!(conn, "MQ.UNSCHEDULE", "q", "hourly").unwrap();
    let gone = story.exporter.metrics();
    assert!(!gone.contains("schedule=\"hourly\""), "{gone}");
}

#[test]
fn memory_that_ends() {
    let mut story = Story::begin();
    let mut conn = story.server.conn();
    let mut limit = |bytes: f64| call!(conn, "CONFIG", "SET", "maxmemory", bytes as u64).unwrap();
    let used = value(&story.first, "redis_mq_server_memory_bytes").unwrap();
    limit(used * 100.0);
    story.first = story.exporter.metrics();
    limit(used * 1.2);
    story.fires(&[(9, &[]), (13, &[]), (17, &["Memory"])]);
}

#[test]
fn a_server_that_is_gone() {
    let mut story = Story::begin();
    story.server.kill9();
    let up = || value(&story.exporter.metrics(), "redis_mq_up");
    wait_until(PATIENCE, || up() == Some(0.0));
    story.fires(&[(9, &[]), (13, &["ServerDown"]), (129, &["ServerDown"])]);
}

#[test]
fn an_exporter_that_is_gone_or_may_not_look() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    let gone: String = (story.first.lines())
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(sample, value)| {
            let sample = sample.replace('\'', "''");
            format!("      - {{series: '{sample}', values: '{value} {value} stale'}}\n")
        })
        .collect();
    story.fires_in(&gone, &[(1, &[]), (5, &[]), (9, &["ExporterDown"])]);
    let down = "      - {series: 'up{job=\"redis-mq\"}', values: '1 0 0 0 0 0 0 0'}\n      \
                - {series: 'redis_mq_up', values: '1 1 1 1 1 1 1 1'}\n";
    story.fires_in(down, &[(0, &[]), (5, &[]), (7, &["ExporterDown"])]);
    let words = "on nopass ~* +info +scan +mq.info +mq.latency +mq.schedules";
    let words: Vec<_> = words.split(' ').collect();
    call!(conn, "ACL", "SETUSER", "blind", words).unwrap();
    let url = story.server.url().replace("//", "//blind:x@");
    let blind = Story {
        exporter: Exporter::start(&url, &[]),
        ..story
    };
    blind.fires(&[(9, &[]), (15, &[]), (21, &["ScrapeRefused"])]);
}

#[test]
fn rules_and_dashboard_are_sound_and_name_only_what_is_told() {
    let story = Story::begin();
    let mut conn = story.server.conn();
    call!(conn, "CONFIG", "SET", "maxmemory", "1gb").unwrap();
    let folder = story.server.dir();
    let rules = fs::read_to_string(ops("alerts.yml")).unwrap();
    let checked = promtool(folder, &["check", "rules", "promtool-input"], &rules);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    let dashboard = fs::read_to_string(ops("grafana-dashboard.json")).unwrap();
    check_expressions(folder, &dashboard);
    let told = story.exporter.metrics();
    let told = metrics_in(&told);
    for (file, text) in [("alerts", &rules), ("dashboard", &dashboard)] {
        let named = metrics_in(text);
        assert!(named.len() > 10, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&told).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

/// Every expression of the dashboard is PromQL, and no two panels have one place.
fn check_expressions(folder: &Path, dashboard: &str) {
    let dashboard: Json = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut rules = String::from("groups:\n- name: dashboard\n  rules:\n");
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "{panel}");
        let place = &panel["gridPos"];
        assert!(
            places.insert((place["y"].as_u64(), place["x"].as_u64())),
            "{panel}"
        );
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let expression = expression.replace("$__rate_interval", "5m");
            let number = rules.lines().count();
            let expression = Json::String(expression);
            writeln!(rules, "  - {{record: 'a:b{number}', expr: {expression}}}").unwrap();
        }
    }
    let checked = promtool(folder, &["check", "rules", "promtool-input"], &rules);
    assert_eq!(checked.code, 0, "{}{}\n{rules}", checked.out, checked.err);
}

#[test]
fn operations_tell_what_to_do_about_every_alert() {
    let rules = fs::read_to_string(ops("alerts.yml")).unwrap();
    let page = fs::read_to_string(workspace_root().join("docs/operations.md")).unwrap();
    let alerts: Vec<_> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() > 10);
    for alert in alerts {
        assert!(page.contains(&format!("| `{alert}` |")), "{alert}");
    }
}

#[test]
fn prometheus_takes_the_configuration_that_the_page_shows() {
    let page = fs::read_to_string(workspace_root().join("docs/operations.md")).unwrap();
    let (_, block) = page.split_once("```yaml\n").expect("one is shown");
    let (shown, rest) = block.split_once("```").expect("it ends");
    assert!(!rest.contains("```yaml"), "the others are not checked");
    let folder = tempfile::tempdir().unwrap();
    fs::copy(ops("alerts.yml"), folder.path().join("alerts.yml")).unwrap();
    let checked = promtool(folder.path(), &["check", "config", "promtool-input"], shown);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    assert!(
        checked.out.contains("1 rule files found"),
        "{}",
        checked.out
    );
}
