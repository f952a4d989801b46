"""What every scenario gets: the servers to start, the sizes to use, and where results go."""

import os
import shutil
import sys
import time

from .load import NODE_HOME
from .results import Results
from .server import Server


class Bench:
    """One run of the suite."""

    def __init__(self, binary, module, quick):
        self.binary = binary
        self.module = module
        self.quick = quick
        self.results = Results()
        self.has_bullmq = bool(NODE_HOME) and shutil.which("node") is not None

    def server(self, **settings):
        """A new server; a context manager."""
        return Server(self.binary, self.module, **settings)

    def rounds(self, full, quick=1):
        """The numbers of the rounds to do."""
        return range(quick if self.quick else full)

    def size(self, full, quick):
        """One of two sizes, by the kind of the run."""
        return quick if self.quick else full

    def say(self, text):
        """Tells what is going on."""
        print(f"    {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def cores():
    """How many processors this run may use."""
    return len(os.sched_getaffinity(0))
