"""Runs the scenarios and writes what came of them; `make bench` calls it.

usage: python -m suite [--quick] [--only NAME,…] [--report RESULTS.json]
"""

import argparse
import os
import sys
import time
from pathlib import Path

from . import machine, report
from .bench import Bench
from .results import Results
from .scenarios import ALL

ROOT = Path(__file__).resolve().parent.parent.parent


def arguments():
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="suite", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--only", help="names of scenarios, with commas between")
    parser.add_argument("--report", type=Path, help="write the page anew from saved results")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder for the page")
    return parser.parse_args()


def main():
    """Measures, unless results are given, and reports."""
    options = arguments()
    if options.report:
        results, facts = Results.load(options.report)
    else:
        results, facts = measure(options)
    print(report.as_text(results, facts))
    if options.report or not (options.only or facts["quick"]):
        report.write(options.out, results, facts)
        print(f"written: {options.out / 'benchmarks.md'}")


def measure(options):
    """Runs the scenarios in turn."""
    bench = Bench(os.environ["MQ_SERVER_BIN"], os.environ["MQ_MODULE"], options.quick)
    wanted = options.only.split(",") if options.only else None
    if not bench.has_bullmq:
        bench.say("no Node: without BullMQ")
    facts, start = machine.facts(bench), time.monotonic()
    for scenario in ALL:
        if wanted is None or scenario.SECTION in wanted:
            began = time.monotonic()
            scenario.run_scenario(bench)
            bench.say(f"{scenario.SECTION}: {time.monotonic() - began:.0f} s")
    facts["seconds"] = round(time.monotonic() - start)
    # Before anything is made of them: a run takes long.
    bench.results.save(ROOT / ".deps" / "bench" / "last-run.json", **facts)
    return bench.results, facts


if __name__ == "__main__":
    sys.exit(main())
