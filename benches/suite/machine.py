"""Where and with what the run took place."""

import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from .bench import cores
from .load import NODE_HOME


def facts(bench):
    """Everything a reader needs to repeat the run."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC",
        "quick": bench.quick,
        "processor": _processor(),
        "cores": cores(),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "server": _line([bench.binary, "--version"]),
        "module": _commit(),
        "rust": _line(["rustc", "--version"]),
        "python": platform.python_version(),
        "rq": version("rq"),
        "node": _line(["node", "--version"]) if bench.has_bullmq else None,
        "bullmq": _node_package("bullmq") if bench.has_bullmq else None,
        "scheduling": _scheduling(),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def _scheduling():
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        return "real time (chrt), all processes of the run alike"
    if os.nice(0) != 0:
        return f"nice {os.nice(0)}, all processes of the run alike"
    return None


def _line(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _commit():
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"


def _processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory():
    total = next(
        line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line
    )
    return f"{int(total.split()[1]) / 1024**2:.0f} GiB"


def _node_package(name):
    code = f"console.log(require('{NODE_HOME}/node_modules/{name}/package.json').version)"
    return _line(["node", "-e", code])
