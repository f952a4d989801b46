"""RQ under load: the jobs of the load generator, the way its documentation does it.

usage: rq_peer.py JOB, a JSON object
"""

import json
import sys
import time

import rq_tasks
from redis import Redis
from rq import Queue, SimpleWorker, Worker

job = json.loads(sys.argv[1])
connection = Redis(port=job["port"])
queue = Queue("bench", connection=connection)


def enqueue():
    payload = "x" * job["payload"]
    start = time.monotonic()
    for _ in range(0, job["count"], job["batch"]):
        queue.enqueue_many(
            [
                Queue.prepare_data(rq_tasks.noop, (payload,), result_ttl=0)
                for _ in range(job["batch"])
            ]
        )
    return {"count": job["count"], "seconds": time.monotonic() - start}


def worker():
    # The default forks for each job; the simple one runs it in the worker's own process.
    kind = SimpleWorker if job["worker"] == "simple" else Worker
    return kind([queue], connection=connection)


def consume():
    start = time.monotonic()
    worker().work(burst=True, logging_level="ERROR")
    return {"count": job["count"], "seconds": time.monotonic() - start}


def latency_consume():
    runner = worker()
    print(json.dumps({"ready": True}), flush=True)
    runner.work(max_jobs=job["count"], logging_level="ERROR")
    return {}


def latency_produce():
    begin = time.monotonic()
    for seq in range(job["count"]):
        due = begin + seq / job["rate"]
        time.sleep(max(0.0, due - time.monotonic()))
        queue.enqueue(rq_tasks.stamp, time.monotonic_ns(), result_ttl=0)
    return {"count": job["count"]}


JOBS = {
    "enqueue": enqueue,
    "consume": consume,
    "latency-consume": latency_consume,
    "latency-produce": latency_produce,
}
print(json.dumps(JOBS[job["job"]]()), flush=True)
