"""What consumers with nothing to do cost the server."""

import time

from ..load import Load

SECTION = "idle"


def run_scenario(bench):
    """The consumers of each system wait in its own way."""
    seconds = bench.size(10, 1)
    consumers = bench.size(1_000, 500)
    programs = [("load", system) for system in ("mq", "list", "stream")]
    with bench.server() as server:
        idle(bench, server, "nobody", None, 0, seconds)
        for program, system in programs:
            idle(bench, server, system, program, consumers, seconds)
        idle(bench, server, "lua", "load", consumers, seconds)
        if bench.has_bullmq:
            idle(bench, server, "bullmq", "bullmq", bench.size(500, 100), seconds)


def idle(bench, server, system, program, consumers, seconds):
    """One system, for that long."""
    bench.say(f"{consumers} idle consumers: {system}")
    server.clear()
    load = None
    if program:
        job = {"job": "idle", "system": system, "consumers": consumers}
        load = Load(program, server.port, **job).await_ready()
        time.sleep(1)
    before = server.info("stats")["total_commands_processed"]
    cpu, start = server.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    spent, passed = server.cpu_seconds() - cpu, time.monotonic() - start
    commands = server.info("stats")["total_commands_processed"] - before
    bench.results.add(SECTION, "consumers", system, consumers)
    bench.results.add(SECTION, "commands a second", system, max(0, commands - 2) / passed)
    bench.results.add(SECTION, "server's processor, %", system, 100 * spent / passed)
    if load:
        load.result()
