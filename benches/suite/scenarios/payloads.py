"""Payloads of different sizes: enqueue and consume with acknowledgement, in batches."""

from ..load import run
from .throughput import record

SECTION = "payloads"
SYSTEMS = ["list", "mq", "stream", "lua"]


def run_scenario(bench):
    """Sizes in turn, all systems in each round."""
    sizes = {40: (100_000, 30_000), 1_000: (50_000, 20_000), 100_000: (4_000, 1_000)}
    with bench.server() as server:
        for number in bench.rounds(3, 1):
            bench.say(f"payloads, round {number + 1}")
            for payload, counts in sizes.items():
                # Small batches of large payloads, as nobody sends ten megabytes at once.
                batch = 100 if payload < 10_000 else 10
                for system in SYSTEMS:
                    one(bench, server, system, payload, bench.size(*counts), batch)


def one(bench, server, system, payload, count, batch):
    """One size of one system."""
    server.clear()
    name = f"{payload:,} bytes" if payload < 1_000 else f"{payload // 1_000} KB"
    record(
        bench, SECTION, f"enqueue, {name}", system, server,
        lambda: run(
            "load", server, job="enqueue", system=system, count=count, payload=payload, batch=batch
        ),
    )
    record(
        bench, SECTION, f"consume, {name}", system, server,
        lambda: run(
            "load", server, job="consume", system=system, batch=batch, count=count
        ),
    )
