"""Messages a second from end to end: bulk enqueue, and consuming with acknowledgement."""

from ..load import fill, run
from ..server import Cost

SECTION = "throughput"
SYSTEMS = ["list", "mq", "stream", "lua"]

BULK = "enqueue, batches of 50"
ONE = "consume, one in flight"
MANY = "consume, 16 connections, one in flight each"
BATCH = "consume, batches of 100 on one connection"
WORKER = "worker process, 100 in flight, queue filled before"
BOTH = "worker process, 100 in flight, producing at the same time"


def record(bench, section, metric, system, server, job):
    """Runs a job; adds its rate, and the server's processor time a message."""
    with Cost(server) as cost:
        result = job()
    bench.results.add(section, metric, system, result["count"] / result["seconds"])
    cpu = cost.cpu_us / result["count"]
    bench.results.add(section, f"{metric}: server µs a message", system, cpu)


def run_scenario(bench):
    """Ours and the hand-made ones on one server in turn, then the libraries."""
    with bench.server() as server:
        for number in bench.rounds(5, 1):
            bench.say(f"throughput, round {number + 1}")
            for system in SYSTEMS:
                by_hand(bench, server, system)
            workers(bench, server)
            if bench.has_bullmq:
                bullmq(bench, server)
            rq(bench, server, number)


def by_hand(bench, server, system):
    """The queues that are used by their commands."""
    count = bench.size(200_000, 50_000)
    server.clear()
    record(
        bench, SECTION, BULK, system, server,
        lambda: run(
            "load", server, job="enqueue", system=system, count=count, payload=40, batch=50
        ),
    )
    record(
        bench, SECTION, BATCH, system, server,
        lambda: run(
            "load", server, job="consume", system=system, batch=100, count=count
        ),
    )
    for metric, connections, few in ((ONE, 1, count // 20), (MANY, 16, count // 4)):
        server.clear()
        fill_for_consumers(server, system, few)
        record(
            bench, SECTION, metric, system, server,
            lambda: run(
                "load", server, job="consume", system=system, batch=1,
                connections=connections, count=few,
            ),
        )


def fill_for_consumers(server, system, count):
    """As `fill`, for all systems by the way that producers use."""
    run(
        "load", server, job="enqueue", system=system, count=count, payload=40, batch=100
    )


def workers(bench, server):
    """The client crate's worker."""
    count = bench.size(500_000, 100_000)
    server.clear()
    fill(server, "mq", count)
    job = {"job": "worker", "handlers": 100, "count": count, "threads": 1}
    record(bench, SECTION, WORKER, "mq", server, lambda: run("load", server, **job))
    server.clear()
    record(bench, SECTION, BOTH, "mq", server, lambda: run("load", server, **job, produce=True))


def bullmq(bench, server):
    """One Node process."""
    count = bench.size(20_000, 2_000)
    server.clear()
    record(
        bench, SECTION, BULK, "bullmq", server,
        lambda: run("bullmq", server, job="enqueue", count=count, payload=40, batch=50),
    )
    record(
        bench, SECTION, WORKER, "bullmq", server,
        lambda: run("bullmq", server, job="consume", count=count, concurrency=100),
    )
    few = count // 5
    run("bullmq", server, job="enqueue", count=few, payload=40, batch=50)
    record(
        bench, SECTION, ONE, "bullmq", server,
        lambda: run("bullmq", server, job="consume", count=few, concurrency=1),
    )


def rq(bench, server, number):
    """One worker process; the one that forks for each job is slow, so fewer of them."""
    count = bench.size(2_000, 200)
    server.clear()
    record(
        bench, SECTION, BULK, "rq", server,
        lambda: run("rq", server, job="enqueue", count=count, payload=40, batch=50),
    )
    record(
        bench, SECTION, ONE, "rq", server,
        lambda: run("rq", server, job="consume", count=count, worker="simple"),
    )
    if number == 0:
        few = count // 20
        run("rq", server, job="enqueue", count=few, payload=40, batch=few)
        record(
            bench, SECTION, ONE, "rq, forking (its default)", server,
            lambda: run("rq", server, job="consume", count=few, worker="forking"),
        )
