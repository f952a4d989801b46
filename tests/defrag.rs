//! Active defragmentation, on servers that have it.

mod common;

use common::contract_on;
use redis_mq_testkit::{wait_until, Server, PATIENCE};

#[test]
fn active_defragmentation_moves_a_queue_together_and_changes_nothing() {
    contract_on(Server::builder(), |lab| {
        const MANY: usize = 20_000;
        let mut client = lab.client();
        if client.line("CONFIG SET activedefrag yes").is_err() {
            return; // built without it
        }
        client.ok("CONFIG SET activedefrag no");
        for setting in [
            "active-defrag-ignore-bytes 100kb",
            "active-defrag-threshold-lower 1",
            "active-defrag-cycle-min 25",
            "active-defrag-cycle-max 75",
        ] {
            client.ok(&format!("CONFIG SET {setting}"));
        }
        let ids: Vec<String> = (0..MANY).map(|n| format!("m{n}")).collect();
        for (n, id) in ids.iter().enumerate() {
            let payload = "x".repeat([40, 100, 200, 400, 800][n % 7 % 5]);
            client.enqueue("q", payload, &format!("ID {id}"));
        }
        for part in ids.chunks(500) {
            let gone = part.iter().enumerate().filter(|(n, _)| n % 5 != 0);
            let gone: Vec<_> = gone.map(|(_, id)| id.as_str()).collect();
            client.cancel("q", &gone.join(" "));
        }
        let digest = client.digest("q");
        client.ok("CONFIG SET activedefrag yes");
        let hits = || -> i64 {
            let hits = lab.server.info("stats", "active_defrag_hits");
            hits.expect("a field").parse().expect("a number")
        };
        wait_until(PATIENCE, || hits() > 1000);
        assert_eq!(client.digest("q"), digest);
        assert_eq!(client.dequeue_many("q", MANY as u32, "").len(), MANY / 5);
        client.ok("CONFIG SET activedefrag no");
    });
}
