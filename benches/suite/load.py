"""Runs the load generators: ours, and those that drive the libraries of others."""

import json
import os
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).resolve().parent.parent / "peers"
NODE_HOME = os.environ.get("BENCH_NODE", "")


class LoadFailed(RuntimeError):
    """A load generator ended with an error; the text is what it said."""


def _command(program, job):
    text = json.dumps(job)
    if program == "bullmq":
        return ["node", str(PEERS / "bullmq.cjs"), text]
    if program == "rq":
        return [sys.executable, str(PEERS / "rq_peer.py"), text]
    return [os.environ["MQ_LOAD"], text]


class Load:
    """A load generator at work, in the background until `result` is asked for."""

    def __init__(self, program, port, **job):
        self._program = program
        self._process = subprocess.Popen(
            _command(program, {"port": port, **job}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def await_ready(self):
        """Waits for the line that says it stands."""
        line = self._process.stdout.readline()
        if not line:
            self.result()
        return self

    def result(self):
        """Closes its standard input, waits for the end and gives what it measured."""
        out, err = self._process.communicate()
        if self._process.returncode != 0:
            raise LoadFailed(f"{self._program}: {err.strip()[-2000:]}")
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}


def run(program, server, **job):
    """Runs a job to its end and gives what it measured."""
    return Load(program, server.port, **job).result()


def fill(server, system, count, payload=40):
    """Puts `count` messages into the queue of that system, as fast as it goes.

    In batches of 50: with larger ones another client would wait for those, not for the server.
    """
    return run(
        "load", server, job="enqueue", system=system, count=count, payload=payload, batch=50, fill=True
    )
