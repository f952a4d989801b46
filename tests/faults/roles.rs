//! Primaries that become replicas, and replicas that become primaries.

use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{call, wait_until, ReplyExt, Server, Value, PATIENCE};

fn role(conn: &mut Connection) -> String {
    call!(*conn, "ROLE").unwrap().items()[0].text()
}

/// Hands the role over by FAILOVER and waits until both servers know.
#[track_caller]
pub fn fail_over(from: &Server, to: &Server) {
    let mut conn = from.conn();
    let mut result = Ok(Value::Nil);
    wait_until(PATIENCE, || {
        result = call!(
            conn,
            "FAILOVER",
            "TO",
            "127.0.0.1",
            to.port(),
            "TIMEOUT",
            30_000
        );
        // It takes a moment until a new replica counts as one.
        !result
            .as_ref()
            .is_err_and(|error| error.contains("not online"))
    });
    result.unwrap();
    wait_until(PATIENCE, || {
        role(&mut conn) == "slave" && role(&mut to.conn()) == "master"
    });
}

/// Kills the first, makes the second the primary and the first its replica, and swaps them, so that the
/// first is the primary again.
#[track_caller]
pub fn kill_and_promote(first: &mut Server, second: &mut Server) {
    first.kill9();
    second.promote();
    // The dead one comes back as a follower of the new one: as a primary, be it for a moment, it would
    // offer what it knew long ago.
    first.configure_next_start("replicaof", &format!("127.0.0.1 {}", second.port()));
    first.start_again();
    first.wait_for_sync(second);
    std::mem::swap(first, second);
}
