"""One queue over several servers: messages a second against shards."""

from contextlib import ExitStack

from ..load import run

SECTION = "sharding"
SHARDS = [1, 2, 4]


def run_scenario(bench):
    """Each number of shards in turn, so that what disturbs one round disturbs all."""
    count = bench.size(400_000, 40_000)
    with ExitStack() as stack:
        servers = [stack.enter_context(bench.server()) for _ in range(max(SHARDS))]
        for number in bench.rounds(5, 1):
            bench.say(f"sharding, round {number + 1}")
            for shards in SHARDS:
                measure(bench, servers[:shards], count)


def measure(bench, servers, count):
    """Fills the queue and has it emptied."""
    for server in servers:
        server.clear()
    before = sum(server.cpu_seconds() for server in servers)
    result = run(
        "load", servers[0], job="sharded", ports=[server.port for server in servers],
        count=count, handlers=128, threads=1,
    )
    spent = sum(server.cpu_seconds() for server in servers) - before
    shards = f"{len(servers)} shard" + ("s" if len(servers) > 1 else "")
    for metric, value in [
        (f"enqueue, {shards}", count / result["filled"]),
        (f"worker, {shards}", count / result["seconds"]),
        (f"{shards}: server µs a message", spent * 1e6 / count),
    ]:
        bench.results.add(SECTION, metric, "mq", value)
