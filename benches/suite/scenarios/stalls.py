"""What could hold the server up: big steps, with another client that pings meanwhile."""

import time

from ..load import Load, fill
from .depth import slowest_us

SECTION = "stalls"
LOCKS = 50_000


class Watch:
    """Within `with Watch(bench, server, name)`: the longest command, and another client's PING."""

    def __init__(self, bench, server, metric, settle=0.5):
        self._bench, self._server, self._metric = bench, server, metric
        self._settle = settle

    def __enter__(self):
        self._server.redis.slowlog_reset()
        self._pinger = Load("load", self._server.port, job="ping", every_us=2_000)
        time.sleep(0.1)
        return self

    def __exit__(self, *_):
        time.sleep(self._settle)
        ping = self._pinger.result()["ping"]
        slow = slowest_us(self._server) / 1000
        for name, value in (
            ("longest command, ms", slow),
            ("PING p99, ms", ping["p99"] / 1000),
            ("PING longest, ms", ping["max"] / 1000),
        ):
            self._bench.results.add(SECTION, name, self._metric, value)


def run_scenario(bench):
    """Everything at the largest length, then what time does to many messages at once."""
    length = bench.size(10_000_000, 1_000_000)
    # From 200 µs on, so that the longest command is told even where all are short.
    settings = {"slowlog_log_slower_than": 200, "slowlog_max_len": 1000}
    with bench.server(**settings) as server:
        for number in bench.rounds(3, 1):
            bench.say(f"stalls with {length} messages, round {number + 1}")
            big_queue(bench, server, length)
        for number in bench.rounds(5, 1):
            bench.say(f"{LOCKS} locks that end together, round {number + 1}")
            locks(bench, server, waiting=True)
            locks(bench, server, waiting=False)


def big_queue(bench, server, length):
    """Nothing, growing, cancelling, and dropping."""
    server.clear()
    with Watch(bench, server, "nothing (the machine itself)"):
        time.sleep(bench.size(2, 1))
    with Watch(bench, server, "growing", settle=0):
        fill(server, "mq", length - 20_000)
    ids = enqueue_ids(server, 10_000)
    fill(server, "mq", 10_000)
    with Watch(bench, server, "CANCEL of 10,000 ids in one command"):
        removed = server.redis.execute_command("MQ.CANCEL", "bench", *ids)
        assert removed == len(ids), removed
    ids = enqueue_ids(server, 10_000)
    with Watch(bench, server, "CANCEL of 10,000 ids, 100 a command"):
        for start in range(0, len(ids), 100):
            server.redis.execute_command("MQ.CANCEL", "bench", *ids[start : start + 100])
    settle = bench.size(3, 1)
    with Watch(bench, server, "UNLINK", settle=settle):
        server.redis.unlink("bench")
    fill(server, "mq", length)
    with Watch(bench, server, "FLUSHALL ASYNC", settle=settle):
        server.redis.flushall(asynchronous=True)


def enqueue_ids(server, count):
    """Enqueues messages and gives their ids."""
    pipeline = server.redis.pipeline(transaction=False)
    for _ in range(count):
        pipeline.execute_command("MQ.ENQUEUE", "bench", b"x" * 40)
    return [reply[1] for reply in pipeline.execute()]


def locks(bench, server, waiting):
    """All locks are given by one command and so end in one millisecond."""
    server.clear()
    fill(server, "mq", LOCKS)
    lock_ms = 1500
    taken = server.redis.execute_command("MQ.DEQUEUE", "bench", "COUNT", LOCKS, "LOCK", lock_ms)
    begun = time.monotonic()
    assert len(taken) == LOCKS, len(taken)
    metric = f"{LOCKS:,} locks end in one millisecond, "
    metric += "a consumer waits" if waiting else "nobody waits"
    consumer = None
    if waiting:
        consumer = Load("load", server.port, job="idle", system="mq", consumers=1).await_ready()
    with Watch(bench, server, metric):
        time.sleep(max(0.0, begun + lock_ms / 1000 + 0.5 - time.monotonic()))
        # The next command after the instant, too, must not pay for all of them.
        server.redis.execute_command("MQ.STATUS", "bench", taken[-1][0])
        server.redis.execute_command("MQ.ENQUEUE", "bench", b"x")
        server.redis.execute_command("MQ.INFO", "bench")
    if consumer:
        consumer.result()
