#!/usr/bin/env python3
"""Whether the pages that are written by hand fit an editor: at most 120 columns, tables, code and
links aside. Pages that programs write (benchmarks, licences) are not looked at."""

import pathlib
import re
import subprocess
import sys

WIDEST = 120
WRITTEN_BY_PROGRAMS = {"docs/benchmarks.md", "docs/licenses.md"}
FREE = re.compile(r"\s*\||\[[^\]]*\]: |<!--")

root = pathlib.Path(__file__).resolve().parent.parent
pages = subprocess.check_output(["git", "ls-files", "*.md"], cwd=root, text=True).split()
wide = 0
for page in sorted(set(pages) - WRITTEN_BY_PROGRAMS):
    code = False
    for number, line in enumerate((root / page).read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif len(line) > WIDEST and not code and not FREE.match(line):
            print(f"{page}:{number}: {len(line)} columns")
            wide += 1
sys.exit(min(wide, 1))
