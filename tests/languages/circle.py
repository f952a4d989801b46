"""The main circle with redis-py: circle.py PORT PROTOCOL"""

import sys
import threading

import redis

port, protocol = int(sys.argv[1]), int(sys.argv[2])
client = redis.Redis(port=port, protocol=protocol, socket_timeout=60)
queue = f"python:{protocol}"


def mq(command, *args):
    return client.execute_command("MQ." + command, queue, *args)


def same(is_, should):
    assert is_ == should, f"{is_!r}, not {should!r}"


def fields(reply):
    """A map; in RESP2, and on servers whose modules have no maps, a flat array."""
    if isinstance(reply, dict):
        return reply
    return dict(zip(reply[::2], reply[1::2]))


payload = bytes(range(256))
same(mq("ENQUEUE", payload, "ID", "a", "ATTEMPTS", 2), [b"added", b"a"])
same(mq("ENQUEUE", payload, "ID", "a"), [b"queued", b"a"])
same(fields(mq("GET", "a"))[b"payload"], payload)

ident, got, attempt, token, lock, enqueued_at = mq("DEQUEUE", "LOCK", 60000)
same((ident, got, attempt, lock), (b"a", payload, 1, 60000))
assert token > 1_600_000_000_000_000 and enqueued_at > 1_600_000_000_000
same(mq("STATUS", "a"), b"locked")
try:
    mq("DONE", "a", token - 1)
    raise AssertionError("a wrong token was accepted")
except redis.ResponseError as error:
    assert str(error).startswith("STALE"), error
assert mq("EXTEND", "a", token, 30000) > enqueued_at
same(mq("DONE", "a", token, "RETRY"), b"queued")
[[ident, _, attempt, token, *_]] = mq("DEQUEUE", "COUNT", 5)
same((ident, attempt), (b"a", 2))
same(mq("DONE", "a", token, "ERROR", "REASON", b"why"), b"dead")
same(fields(mq("GET", "a"))[b"reason"], b"why")
same(mq("CANCEL", "a"), 1)
same(mq("STATUS", "a"), None)
same(mq("DEQUEUE"), None)
same(mq("DEQUEUE", "COUNT", 5), None)
same(mq("DEQUEUE", "BLOCK", 1), None)
assert isinstance(mq("DEQUEUE", "EOQ"), int)

# A consumer that waits, and one whose message is only due later.
results = []
waiter = threading.Thread(target=lambda: results.append(mq("DEQUEUE", "BLOCK", 0)))
waiter.start()
same(mq("ENQUEUE", b"later", "DELAY", 50)[0], b"added")
waiter.join(60)
same(results[0][1], b"later")
same(mq("DONE", results[0][0], results[0][3]), b"done")

# In a transaction and in a script nobody waits.
with client.pipeline() as pipe:
    pipe.execute_command("MQ.ENQUEUE", queue, b"x", "ID", "x")
    pipe.execute_command("MQ.DEQUEUE", queue, "BLOCK", 0)
    pipe.execute_command("MQ.DEQUEUE", queue, "BLOCK", 0)
    added, taken, nothing = pipe.execute()
same((added, taken[0], nothing), ([b"added", b"x"], b"x", None))
script = "return redis.call('MQ.DONE', KEYS[1], ARGV[1], ARGV[2])"
same(client.eval(script, 1, queue, taken[0], taken[3]), b"done")

info = fields(mq("INFO"))
same((info[b"messages"], info[b"total-enqueued"], info[b"total-done"]), (0, 3, 2))
print("done")
