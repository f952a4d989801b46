"""From the instant when a delay or a lock ends to the delivery at a consumer that waits."""

from ..load import run

SECTION = "due"
PERCENTILES = {"p50": "p50, ms", "p99": "p99, ms", "p999": "p99.9, ms", "max": "longest, ms"}


def run_scenario(bench):
    """Both kinds of the module, and delays of the library that has them."""
    count = bench.size(1_000, 300)
    with bench.server() as server:
        for number in bench.rounds(3, 1):
            bench.say(f"due instants, round {number + 1}")
            for kind in ("delay", "lock"):
                server.clear()
                late = run("load", server, job="due", kind=kind, count=count, step_ms=2)["late"]
                add(bench, f"mq, {kind} ends", late)
            if bench.has_bullmq:
                server.clear()
                late = run("bullmq", server, job="due", count=count // 5, step_ms=20)["late"]
                add(bench, "bullmq, delay ends", late)


def add(bench, name, summary):
    """Adds the percentiles; the curve is the last round's."""
    for percentile, metric in PERCENTILES.items():
        bench.results.add(SECTION, metric, name, summary[percentile] / 1000)
    points = [[percent, value / 1000] for percent, value in summary["curve"]]
    bench.results.curve(SECTION, name, points)
