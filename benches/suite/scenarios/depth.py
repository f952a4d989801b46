"""Server time of a command against the number of messages in the queue."""

from ..load import Load, fill, run
from ..server import Cost
from .cost import life

SECTION = "depth"
SYSTEMS = ["list", "mq", "stream", "lua"]


def depths(bench):
    """The lengths at which the cost is taken."""
    return bench.size(
        [1_000, 10_000, 100_000, 1_000_000, 10_000_000], [1_000, 10_000, 100_000, 1_000_000]
    )


def run_scenario(bench):
    """Each system grows once and is measured on the way; another client pings while it grows."""
    sample = bench.size(20_000, 5_000)
    for system in SYSTEMS:
        with bench.server(slowlog_log_slower_than=2000, slowlog_max_len=1000) as server:
            bench.say(f"cost against length: {system}")
            run_one(bench, server, system, sample)


def run_one(bench, server, system, sample):
    """One system from the first length to the last."""
    length, points = 0, {"enqueue": [], "dequeue": [], "done": []}
    for depth in depths(bench):
        server.redis.slowlog_reset()
        pinger = Load("load", server.port, job="ping", every_us=2_000)
        grown = fill(server, system, depth - length)
        ping = pinger.result()["ping"]
        length = depth
        if depth == depths(bench)[-1]:
            rate = (depth - depths(bench)[-2]) / grown["seconds"]
            bench.results.add(SECTION, "growing: messages a second", system, rate)
            bench.results.add(SECTION, "growing: PING p99, ms", system, ping["p99"] / 1000)
            bench.results.add(SECTION, "growing: PING longest, ms", system, ping["max"] / 1000)
            slow = slowest_us(server)
            bench.results.add(SECTION, "growing: longest command, ms", system, slow / 1000)
        for step, value in measure(server, system, sample, bench).items():
            points[step].append([depth, value])
            bench.results.add(SECTION, f"{step} at {depth:,}", system, value)
    for step, curve in points.items():
        bench.results.curve(SECTION, f"{system} {step}", curve)


def measure(server, system, sample, bench):
    """Medians over a few samples; the length stays what it is."""
    tries = []
    for _ in bench.rounds(3, 3):
        if system == "lua":
            # Its sweep would walk the whole queue: take what the scripts cost without it.
            tries.append(lua_life(server, sample))
        else:
            tries.append(life(server, system, sample))
    return {
        step: sorted(one[step] for one in tries)[len(tries) // 2]
        for step in ("enqueue", "dequeue", "done")
    }


def lua_life(server, sample):
    """As `life`, leaving the finished messages in the circle."""
    with Cost(server) as enqueue:
        run(
            "load", server, job="enqueue", system="lua", count=sample, payload=40,
            batch=100, single=True,
        )
    with Cost(server) as consume:
        run("load", server, job="consume", system="lua", batch=100, count=sample, single=True)
    return {
        "enqueue": enqueue.usec("evalsha") / sample,
        "dequeue": consume.usec("evalsha") / sample,
        "done": consume.usec("sadd", "hdel") / sample,
    }


def slowest_us(server):
    """The longest entry of the slow log, in microseconds; 0 if it is empty."""
    return max((entry["duration"] for entry in server.redis.slowlog_get(1000)), default=0)
