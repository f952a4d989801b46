"""One enqueue while many consumers wait on the queue."""

from ..load import run

SECTION = "blocked"
SYSTEMS = ["list", "mq", "stream"]


def run_scenario(bench):
    """The same number of waiters for all, then one, to tell the waiters' part from the rest."""
    turns = bench.size(2_000, 500)
    with bench.server() as server:
        for number in bench.rounds(5, 2):
            bench.say(f"enqueue with waiting consumers, round {number + 1}")
            for waiters in (1, 1_000):
                for system in SYSTEMS:
                    server.clear()
                    result = run(
                        "load", server, job="blocked", system=system, waiters=waiters, count=turns
                    )
                    name = f"{waiters:,} waiting" if waiters > 1 else "1 waiting"
                    for metric, value in (
                        ("enqueue answered, p50 µs", result["enqueue"]["p50"]),
                        ("delivered, p50 µs", result["delivery"]["p50"]),
                        ("server's processor time, µs", result["cpu_us"]),
                    ):
                        bench.results.add(SECTION, f"{name}: {metric}", system, value)
