"""What the page says about each thing that is measured."""

from dataclasses import dataclass, field


@dataclass
class Section:
    """One chapter: its table is made of the samples, its text stands here."""

    key: str
    title: str
    text: str
    systems: list = field(default_factory=list)
    better: str = "less"
    # Labels of metrics whose names in the results are short.
    labels: dict = field(default_factory=dict)
    # Whether the metrics, not the systems, are the columns; then there are no ratios.
    turned: bool = False
    # Words that mark metrics of which more is better, where less is for the rest.
    more_words: tuple = ()
    plot: str = ""

    def more_is_better(self, metric):
        """Whether a greater number wins."""
        if any(word in metric for word in ("µs", "bytes a message")):
            return False
        if any(word in metric for word in self.more_words):
            return True
        return self.better == "more"


SECTIONS = [
    Section(
        "cost",
        "Server time of a message's life",
        "Microseconds a message, by the server's own count (`INFO commandstats`), replication included: an effect "
        "is built and handed to the server whether or not a replica or an AOF listens. Payloads of 40 bytes, ids made by "
        "the server, single commands in pipelines of 100, so that the network does not hide the difference. "
        "List: LPUSH, LMOVE, LREM. Stream: XADD, XREADGROUP, XACK + XDEL (XACKDEL where there is one). Lua scripts: "
        "the poll that later sweeps a finished message counts as part of finishing it. The last row is the processor time "
        "of the whole server process for all three steps, network and protocol included.",
        systems=["mq", "list", "stream", "lua"],
        labels={
            "enqueue": "enqueue",
            "dequeue": "dequeue",
            "done": "finish",
            "life": "the three together",
            "dequeue-100": "dequeue, COUNT 100, a message",
            "done-100": "finish after COUNT 100, a message",
            "cpu": "whole server, all three",
        },
    ),
    Section(
        "memory",
        "Bytes a message takes",
        "Growth of the server's allocated memory (`used_memory`) a message, less its 40 bytes of payload. One "
        "measurement: the allocator gives the same number each time. *locked* is, for the others, a message that a "
        "consumer has taken and not finished. BullMQ and RQ keep a hash a job, with the library's own fields.",
        systems=["mq", "list", "stream", "lua", "bullmq", "rq"],
    ),
    Section(
        "depth",
        "Cost against the length of the queue",
        "Microseconds a command at different lengths of the queue. While the queue grew from the last length but one to the "
        "last, in pipelines of 50, another client sent a PING every 2 ms. The Lua queue was filled by HSET and LPUSH, "
        "which leave what its script would, and its finish is here without the sweep, which meets a finished message "
        "only after a lap of the whole circle.",
        systems=["mq", "list", "stream", "lua"],
        more_words=("a second",),
        plot="cost-by-length.svg",
    ),
    Section(
        "stalls",
        "What could hold the server up",
        "The longest command in the slow log (0: none over 0.2 ms) and the round trips of another client that sends a PING "
        "every 2 ms, counted from when it was due. The first row is the same machine with nothing going on: what the "
        "others exceed it by is ours.",
        turned=True,
    ),
    Section(
        "throughput",
        "Messages a second, end to end",
        "Load generator and server on the same machine, no persistence. All commands go through the same Rust client "
        "library. The worker is the client crate's, one process with one runtime thread, 100 handlers that do nothing; "
        "BullMQ is one Node process with `concurrency` 100, its bulk enqueue is `addBulk`; RQ is `enqueue_many` and one "
        "worker process. A worker also decodes, dispatches and keeps locks alive, which the rows by hand do not.",
        systems=["mq", "list", "stream", "lua", "bullmq", "rq", "rq, forking (its default)"],
        better="more",
    ),
    Section(
        "sharding",
        "One queue over several servers",
        "Messages a second against shards, each a server of its own on this machine: the Rust client's queue over "
        "them is filled in batches of 4,000, and then emptied by its worker, one process with one runtime thread and 128 "
        "handlers that do nothing. Client and servers share the machine's processors: with no more of them than the client "
        "takes by itself, further shards cannot make it faster, and what the table shows is what they cost. The server's "
        "processor time a message is that of all shards together.",
        systems=["mq"],
        better="more",
    ),
    Section(
        "payloads",
        "Payload sizes",
        "Messages a second in batches of 100 (10 for 100 KB), and the server's processor time a message.",
        systems=["mq", "list", "stream", "lua"],
        better="more",
    ),
    Section(
        "durability",
        "With an append-only file",
        "`appendfsync everysec` and `always`; rewriting was off. With `always` each group of commands waits for the disk: "
        "one in flight measures the disk, not the queue. AOF bytes are those of enqueue, delivery and finish together.",
        systems=["mq", "list", "stream", "lua", "bullmq"],
        better="more",
    ),
    Section(
        "latency",
        "From enqueue to delivery",
        "Milliseconds from the instant at which a producer should have sent a message to its arrival at a consumer that "
        "waits for it. Two producers and four consumers at 1,000 messages a second; BullMQ 500, RQ 50 (one worker, the one "
        "that does not fork), the Lua queue 5, because a worker of it polls five times a second. The bare "
        "round trip (PING) is taken under the same load. A list's consumer is a BLMOVE, a stream's an XREADGROUP BLOCK.",
        systems=["PING", "mq", "list", "stream", "lua", "bullmq", "rq"],
        plot="latency.svg",
    ),
    Section(
        "due",
        "From the due instant to delivery",
        "Milliseconds after the instant at which a delay or a lock ended, to the arrival at a consumer that waits; an "
        "instant every 2 ms, for BullMQ every 20 ms. Deadlines are whole milliseconds. Neither the list nor the stream of "
        "this server knows delays or locks that end; RQ's scheduler looks once a second by default; the Lua queue "
        "finds them by going round its circle, one id a poll.",
        turned=True,
        plot="due.svg",
    ),
    Section(
        "blocked",
        "One enqueue while many consumers wait",
        "The consumer that is served waits again at once. List: RPUSH and BLPOP. Stream: XADD and XREADGROUP BLOCK.",
        systems=["mq", "list", "stream"],
    ),
    Section(
        "idle",
        "Consumers with nothing to do",
        "The server's load from consumers that wait. The Lua queue's poll five times a second each; commands inside "
        "scripts count too.",
        turned=True,
    ),
]
