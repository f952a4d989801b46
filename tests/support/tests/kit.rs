//! The kit against a real server, without the module.

use std::time::Duration;

use redis_mq_testkit::redis;
use redis_mq_testkit::{
    call, wait_until, Cluster, Direction, Persistence, Proxy, ReplyExt, Sentinels, Server,
    ServerBuilder, Shutdown, Wire, PATIENCE,
};

fn bare() -> ServerBuilder {
    Server::builder().no_module()
}

#[test]
fn data_survives_a_restart_and_a_crash_where_it_is_kept() {
    for persistence in Persistence::DURABLE {
        let mut server = bare().persistence(persistence).start();
        call!(server.conn(), "SET", "key", "value").unwrap();
        server.restart(Shutdown::Save);
        assert_eq!(call!(server.conn(), "GET", "key").unwrap().text(), "value");
        server.crash_and_restart();
        assert_eq!(call!(server.conn(), "GET", "key").unwrap().text(), "value");
    }
}

#[test]
fn replica_follows_and_can_be_promoted() {
    let (primary, replica) = (bare().start(), bare().start());
    call!(primary.conn(), "SET", "key", "value").unwrap();
    replica.replica_of(&primary);
    assert_eq!(call!(replica.conn(), "GET", "key").unwrap().text(), "value");
    let refused = call!(replica.conn(), "SET", "key", "other").unwrap_err();
    assert!(refused.starts_with("READONLY "), "{refused}");
    replica.promote();
    call!(replica.conn(), "SET", "key", "other").unwrap();
}

#[test]
fn the_wire_shows_which_null_it_is() {
    let server = bare().start();
    let mut wire = server.wire();
    wire.send(&["BLPOP", "list", "0.01"]);
    assert_eq!(wire.frame().unwrap(), b"*-1\r\n");
    wire.send(&["GET", "key"]);
    assert_eq!(wire.frame().unwrap(), b"$-1\r\n");
    let mut wire = server.wire().resp3();
    wire.send(&["GET", "key"]);
    assert_eq!(wire.frame().unwrap(), b"_\r\n");
    assert!(!wire.has_reply_within(Duration::from_millis(10)));
}

#[test]
fn proxy_cuts_after_the_exact_byte_and_resumes() {
    let server = bare().start();
    let proxy = Proxy::start(server.addr());
    let mut wire = Wire::connect(proxy.addr());
    wire.call(&["PING"]).unwrap();
    proxy.cut_after(Direction::ToClient, 3);
    wire.send(&["PING"]);
    wire.frame().unwrap_err();
    assert_eq!((proxy.cuts(), proxy.passed(Direction::ToClient)), (1, 10));

    proxy.refuse();
    std::net::TcpStream::connect(proxy.addr()).unwrap_err();
    proxy.resume();

    let mut wire = Wire::connect(proxy.addr());
    proxy.silence();
    wire.send(&["PING"]);
    assert!(!wire.has_reply_within(Duration::from_millis(30)));
    proxy.resume();
    assert_eq!(wire.reply().unwrap().text(), "PONG");
}

#[test]
fn cluster_serves_every_slot_and_survives_a_primary() {
    let mut cluster = Cluster::start_with(3, 1, bare());
    let mut conn = cluster.conn();
    for key in ["a", "b", "c", "d{a}"] {
        redis::cmd("SET").arg(key).arg(key).exec(&mut conn).unwrap();
        let owner = cluster.owner(key);
        assert_eq!(call!(owner.conn(), "GET", key).unwrap().text(), key);
    }
    cluster.primary_mut(0).kill9();
    wait_until(PATIENCE, || {
        let role = call!(cluster.replicas()[0].conn(), "ROLE").unwrap();
        role.items()[0].text() == "master"
    });
    cluster.wait_until_ok();
}

#[test]
fn sentinels_replace_a_dead_primary() {
    let (mut primary, replica) = (bare().start(), bare().start());
    replica.replica_of(&primary);
    let sentinels = Sentinels::start(3, &primary, 1);
    assert_eq!(sentinels.primary(), primary.addr());
    primary.kill9();
    assert_eq!(sentinels.wait_for_failover(&primary), replica.addr());
}

#[test]
fn a_server_that_cannot_start_gives_its_log() {
    let error = bare()
        .config("no-such-setting", "1")
        .try_start()
        .unwrap_err();
    assert!(error.log.contains("no-such-setting"), "{error}");
}

#[test]
fn the_shipped_configuration_is_accepted_and_durable() {
    let mut server = bare().shipped_conf().start();
    let mut conn = server.conn();
    call!(conn, "SET", "key", "value").unwrap();
    for (name, value) in [
        ("appendonly", "yes"),
        ("maxmemory-policy", "noeviction"),
        ("protected-mode", "yes"),
    ] {
        let setting = call!(conn, "CONFIG", "GET", name).unwrap();
        assert_eq!(setting.fields()[name].text(), value, "{name}");
    }
    server.restart(Shutdown::NoSave);
    assert_eq!(call!(server.conn(), "GET", "key").unwrap().text(), "value");
}
