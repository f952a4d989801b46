"""Producers at a steady rate, consumers that wait: how long from enqueue to delivery."""

import math
import os
import tempfile
from pathlib import Path

from ..load import Load, run

SECTION = "latency"
PERCENTILES = {"p50": "p50, ms", "p99": "p99, ms", "p999": "p99.9, ms", "max": "longest, ms"}


def run_scenario(bench):
    """All systems at a rate that each can keep, round by round on one server."""
    with bench.server() as server:
        for number in bench.rounds(3, 1):
            bench.say(f"latency at a steady rate, round {number + 1}")
            loopback(bench, server)
            for system in ("list", "mq", "stream"):
                by_hand(bench, server, system, rate=1_000)
            # A worker thread polls five times a second, so no more can be asked of it.
            by_hand(bench, server, "lua", rate=5)
            if bench.has_bullmq:
                bullmq(bench, server)
            rq(bench, server)


def add(bench, system, summary):
    """Adds the percentiles; the curve is the last round's."""
    for name, metric in PERCENTILES.items():
        bench.results.add(SECTION, metric, system, summary[name] / 1000)
    points = [[percent, value / 1000] for percent, value in summary["curve"]]
    bench.results.curve(SECTION, system, points)


def loopback(bench, server):
    """A bare round trip under the same load: what no queue can be faster than."""
    seconds = bench.size(5, 1)
    pinger = Load("load", server.port, job="ping", every_us=1_000)
    run(
        "load", server, job="latency", system="list", rate=1_000, seconds=seconds,
        producers=2, consumers=4, payload=40,
    )
    add(bench, "PING", pinger.result()["ping"])
    server.clear()


def by_hand(bench, server, system, rate):
    """Two producers and four consumers over blocking connections."""
    server.clear()
    # Few messages need longer to make percentiles.
    seconds = bench.size(5, 1) if rate >= 100 else bench.size(12, 3)
    result = run(
        "load", server, job="latency", system=system, rate=rate, seconds=seconds,
        producers=2, consumers=4, payload=40,
    )
    assert result["delivery"]["count"] == result["sent"], result
    add(bench, system, result["delivery"])


def bullmq(bench, server):
    """A producer process and a worker process."""
    server.clear()
    rate, seconds = 500, bench.size(5, 1)
    worker = Load(
        "bullmq", server.port, job="latency-consume", count=rate * seconds, concurrency=4
    ).await_ready()
    run("bullmq", server, job="latency-produce", count=rate * seconds, rate=rate)
    add(bench, "bullmq", worker.result()["delivery"])


def rq(bench, server):
    """A producer process and a worker process, the simple one."""
    server.clear()
    rate, count = 50, bench.size(250, 50)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BENCH_STAMPS"] = str(Path(folder) / "stamps")
        worker = Load(
            "rq", server.port, job="latency-consume", count=count, worker="simple"
        ).await_ready()
        run("rq", server, job="latency-produce", count=count, rate=rate)
        worker.result()
        lines = Path(os.environ["BENCH_STAMPS"]).read_text().split()
    add(bench, "rq", summary(int(nanos) / 1000 for nanos in lines))


def summary(micros):
    """The same percentiles as the load generator gives."""
    ordered = sorted(micros)

    def at(percent):
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]

    curve = [1, 5, 10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.9, 100]
    return {
        "p50": at(50), "p99": at(99), "p999": at(99.9), "max": at(100),
        "curve": [[percent, at(percent)] for percent in curve],
    }
