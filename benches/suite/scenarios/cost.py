"""Server time of each step of a message's life, by the server's own count."""

from ..load import run
from ..server import Cost

SECTION = "cost"
SYSTEMS = ["list", "mq", "stream", "lua"]

ENQUEUE = {"list": ["lpush"], "mq": ["mq.enqueue"], "stream": ["xadd"], "lua": ["evalsha"]}
DEQUEUE = {"list": ["lmove"], "mq": ["mq.dequeue"], "stream": ["xreadgroup"], "lua": ["evalsha"]}
# Inside the polling script neither SADD nor HDEL occurs before a message is swept.
DONE = {
    "list": ["lrem"],
    "mq": ["mq.done"],
    "stream": ["xack", "xdel", "xackdel"],
    "lua": ["sadd", "hdel"],
}


def life(server, system, count, batch=100):
    """Enqueues, takes and finishes `count` messages; microseconds a message, by step."""
    with Cost(server) as enqueue:
        run(
            "load", server, job="enqueue", system=system, count=count, payload=40,
            batch=batch, single=True,
        )
    with Cost(server) as consume:
        run(
            "load", server, job="consume", system=system, batch=batch, count=count, single=True,
        )
    steps = {
        "enqueue": enqueue.usec(*ENQUEUE[system]),
        "dequeue": consume.usec(*DEQUEUE[system]),
        "done": consume.usec(*DONE[system]),
        "cpu": enqueue.cpu_us + consume.cpu_us,
    }
    if system == "lua":
        with Cost(server) as sweep:
            run("load", server, job="consume", system=system, batch=batch, single=True)
        # Each finished message costs one more poll, in which the script does all the work.
        steps["done"] += sweep.usec("evalsha")
        steps["cpu"] += sweep.cpu_us
    return {step: total / count for step, total in steps.items()}


def run_round(bench, server, system, count):
    """One round of one system."""
    server.clear()
    steps = life(server, system, count)
    steps["life"] = steps["enqueue"] + steps["dequeue"] + steps["done"]
    for step, value in steps.items():
        bench.results.add(SECTION, step, system, value)
    if system == "lua":
        return
    server.clear()
    run(
        "load", server, job="enqueue", system=system, count=count, payload=40,
        batch=100, single=True,
    )
    with Cost(server) as cost:
        run("load", server, job="consume", system=system, batch=100, count=count)
    bench.results.add(SECTION, "dequeue-100", system, cost.usec(*DEQUEUE[system]) / count)
    bench.results.add(SECTION, "done-100", system, cost.usec(*DONE[system]) / count)


def run_scenario(bench):
    """All systems in turn, round by round, on one server."""
    count = bench.size(100_000, 30_000)
    with bench.server() as server:
        for number in bench.rounds(5, 2):
            bench.say(f"cost of a message's life, round {number + 1}")
            for system in SYSTEMS:
                run_round(bench, server, system, count)
