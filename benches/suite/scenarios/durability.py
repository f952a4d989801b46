"""The same work with an append-only file, and what the file grows by."""

from ..load import run
from .throughput import record

SECTION = "durability"
SYSTEMS = ["list", "mq", "stream", "lua"]


def run_scenario(bench):
    """Both policies; nothing else differs from the throughput scenario."""
    for fsync in ("no AOF", "everysec", "always"):
        settings = {"appendonly": "no"}
        if fsync != "no AOF":
            # A rewrite during a measurement would be measured too.
            settings = {
                "appendonly": "yes", "appendfsync": fsync, "auto_aof_rewrite_percentage": 0,
            }
        with bench.server(**settings) as server:
            for number in bench.rounds(3, 1):
                bench.say(f"AOF: {fsync}, round {number + 1}")
                for system in SYSTEMS:
                    one(bench, server, system, fsync)
                if bench.has_bullmq:
                    bullmq(bench, server, fsync)


def size(server):
    """Bytes of the file; 0 without one."""
    return server.info("persistence").get("aof_current_size", 0)


def one(bench, server, system, fsync):
    """A queue used by its commands."""
    server.clear()
    count = bench.size(50_000, 10_000)
    before = size(server)
    record(
        bench, SECTION, f"{fsync}: enqueue, batches of 50", system, server,
        lambda: run(
            "load", server, job="enqueue", system=system, count=count, payload=40, batch=50
        ),
    )
    record(
        bench, SECTION, f"{fsync}: consume, batches of 100", system, server,
        lambda: run(
            "load", server, job="consume", system=system, batch=100, count=count
        ),
    )
    if fsync == "everysec":
        grown = (size(server) - before) / count
        bench.results.add(SECTION, "AOF bytes a message, batches", system, grown)
    few = count // (50 if fsync == "always" else 10)
    run(
        "load", server, job="enqueue", system=system, count=few, payload=40, batch=100
    )
    record(
        bench, SECTION, f"{fsync}: consume, one in flight", system, server,
        lambda: run(
            "load", server, job="consume", system=system, batch=1, count=few
        ),
    )


def bullmq(bench, server, fsync):
    """The library."""
    server.clear()
    count = bench.size(5_000, 1_000)
    before = size(server)
    record(
        bench, SECTION, f"{fsync}: enqueue, batches of 50", "bullmq", server,
        lambda: run("bullmq", server, job="enqueue", count=count, payload=40, batch=50),
    )
    record(
        bench, SECTION, f"{fsync}: consume, batches of 100", "bullmq", server,
        lambda: run("bullmq", server, job="consume", count=count, concurrency=100),
    )
    if fsync == "everysec":
        grown = (size(server) - before) / count
        bench.results.add(SECTION, "AOF bytes a message, batches", "bullmq", grown)
