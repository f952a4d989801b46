"""Bytes that a message takes beyond its payload, in each status."""

from ..load import fill, run

SECTION = "memory"
PAYLOAD = 40
# Durations so long that nothing moves by time during the measurement.
LONG_MS = "86400000"


def _each(server, commands):
    """Sends commands in batches and gives all replies."""
    replies = []
    commands = list(commands)
    for start in range(0, len(commands), 1000):
        pipeline = server.redis.pipeline(transaction=False)
        for command in commands[start : start + 1000]:
            pipeline.execute_command(*command)
        replies += pipeline.execute()
    return replies


def _take(server, count):
    deliveries = []
    while len(deliveries) < count:
        deliveries += server.redis.execute_command("MQ.DEQUEUE", "bench", "COUNT", 1000)
    return deliveries


def _finish(server, count, *verdict):
    _each(server, (("MQ.DONE", "bench", d[0], d[3], *verdict) for d in _take(server, count)))


def _queued(server, count):
    fill(server, "mq", count, PAYLOAD)


def _delayed(server, count):
    payload = b"x" * PAYLOAD
    _each(server, (("MQ.ENQUEUE", "bench", payload, "DELAY", LONG_MS) for _ in range(count)))


def _locked(server, count):
    _queued(server, count)
    _take(server, count)


def _copied(server, count):
    _queued(server, count)
    payload = b"x" * PAYLOAD
    _each(
        server,
        (("MQ.ENQUEUE", "bench", payload, "ID", d[0], "REQUEUE") for d in _take(server, count)),
    )


def _retried(server, count):
    _queued(server, count)
    _finish(server, count, "RETRY", "BACKOFF", LONG_MS)


def _done(server, count):
    _queued(server, count)
    _finish(server, count, "BACKOFF", LONG_MS)


def _dead(server, count):
    _queued(server, count)
    _finish(server, count, "ERROR")


def _named(server, count):
    payload = b"x" * PAYLOAD
    commands = (
        ("MQ.ENQUEUE", "bench", payload, "ID", f"order:{number:014d}") for number in range(count)
    )
    _each(server, commands)


STATUSES = {
    "queued": _queued,
    "queued, an id of 20 bytes of one's own": _named,
    "queued-with-backoff (delay)": _delayed,
    "queued-with-backoff (retry)": _retried,
    "locked": _locked,
    "locked-with-requeue, beyond both payloads": _copied,
    "done-with-backoff, beyond the payload it had": _done,
    "dead": _dead,
}


def _peer_held(server, system, count):
    """Takes all without finishing: what each system keeps of messages being worked on."""
    if system == "list":
        for _ in range(0, count, 1000):
            _each(server, [("LMOVE", "bench", "bench:processing", "RIGHT", "LEFT")] * 1000)
    elif system == "stream":
        for _ in range(0, count, 1000):
            server.redis.xreadgroup("workers", "one", {"bench": ">"}, count=1000)
    else:
        run("load", server, job="consume", system=system, batch=100, count=count, hold=True)


def _beyond(server, base, count, payloads=1):
    return (server.memory() - base) / count - payloads * PAYLOAD


def run_scenario(bench):
    """Every status of the module, then queued and held in the others."""
    count = bench.size(200_000, 20_000)
    with bench.server(**{"mq.max-dead": 10_000_000}) as server:
        bench.say(f"memory of {count} messages in each status")
        for status, prepare in STATUSES.items():
            base = _empty(server)
            prepare(server, count)
            payloads = 2 if "both" in status else 1
            beyond = _beyond(server, base, count, payloads)
            bench.results.add(SECTION, status, "mq", beyond)
        for system in ("list", "stream", "lua"):
            base = _empty(server)
            run(
                "load", server, job="enqueue", system=system, count=count, payload=PAYLOAD, batch=100,
            )
            bench.results.add(SECTION, "queued", system, _beyond(server, base, count))
            _peer_held(server, system, count)
            bench.results.add(SECTION, "locked", system, _beyond(server, base, count))
        _libraries(bench, server, bench.size(20_000, 2_000))


def _libraries(bench, server, count):
    programs = [("rq", "rq"), *([("bullmq", "bullmq")] if bench.has_bullmq else [])]
    for program, system in programs:
        base = _empty(server)
        run(program, server, job="enqueue", count=count, payload=PAYLOAD, batch=50)
        bench.results.add(SECTION, "queued", system, _beyond(server, base, count))


def _empty(server):
    server.clear()
    server.redis.script_flush()
    server.redis.memory_purge()
    return server.memory()
