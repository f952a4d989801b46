"""Servers of the run: on a free port of this machine, in a temporary folder, stopped by handle."""

import os
import socket
import subprocess
import tempfile
import time

from redis import Redis
from redis.exceptions import ConnectionError as NotThere
from redis.exceptions import RedisError

START_SECONDS = 60


def free_port():
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server process with the module loaded; a context manager that stops it."""

    def __init__(self, binary, module, **settings):
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="mq-bench-")
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self._folder.name,
            "save": "",
            "loadmodule": module,
            "maxclients": 5000,
            **{name.replace("_", "-"): value for name, value in settings.items()},
        }
        command = [binary]
        for name, value in options.items():
            command += [f"--{name}", *([str(value)] if value == "" else str(value).split())]
        self._log = open(os.path.join(self._folder.name, "log"), "w+")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        self.redis = Redis(port=self.port, socket_timeout=600)
        self._await_start()

    def _await_start(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self.redis.ping()
                return
            except (NotThere, RedisError):
                time.sleep(0.02)
        self._log.seek(0)
        log = self._log.read()
        self.stop()
        raise RuntimeError(f"the server did not start:\n{log[-2000:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends the server; nothing of it stays."""
        self.redis.close()
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._folder.cleanup()

    @property
    def alive(self):
        """Whether the process is running."""
        return self._process.poll() is None

    def clear(self):
        """Removes all keys and waits until the memory is free."""
        self.redis.flushall(asynchronous=False)

    def info(self, section):
        """A section of INFO as a dictionary."""
        return self.redis.info(section)

    def cpu_seconds(self):
        """Processor time that the server has used, user and system, all its threads."""
        cpu = self.info("cpu")
        return cpu["used_cpu_user"] + cpu["used_cpu_sys"]

    def memory(self):
        """Bytes that the server has allocated."""
        return self.info("memory")["used_memory"]


class Cost:
    """Within `with Cost(server) as cost`: what the server spent on the commands sent meanwhile."""

    def __init__(self, server):
        self._server = server

    def __enter__(self):
        self._server.redis.config_resetstat()
        self._cpu = self._server.cpu_seconds()
        return self

    def __exit__(self, *_):
        self.cpu_us = (self._server.cpu_seconds() - self._cpu) * 1e6
        self._stats = {
            name.removeprefix("cmdstat_").lower(): values
            for name, values in self._server.info("commandstats").items()
        }

    def usec(self, *commands):
        """Microseconds that these commands took, all their calls together."""
        return sum(self._stats.get(name, {"usec": 0})["usec"] for name in commands)
