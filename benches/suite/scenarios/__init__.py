"""One module for each thing that is measured; each has `SECTION` and `run_scenario(bench)`."""

from . import (
    blocked,
    cost,
    depth,
    due,
    durability,
    idle,
    latency,
    memory,
    payloads,
    sharding,
    stalls,
    throughput,
)

ALL = [cost, memory, depth, stalls, throughput, sharding, payloads, durability, latency, due, blocked, idle]
