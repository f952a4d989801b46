"""The page and what is printed, made from the results."""

import re
import statistics

from . import plots, tables, targets
from .sections import SECTIONS

# A median has to be better by this much, and the rounds must not overlap, to be called better.
MARGIN = 1.05


def as_text(results, facts):
    """Everything, for a terminal."""
    parts = [_machine_line(facts)]
    rows = targets.rows(results)
    if rows:
        head = ["goal", "at most / at least", "measured", ""]
        parts += ["", "GOALS", tables.plain(head, rows)]
    for section in SECTIONS:
        if section.key in results.samples:
            parts += ["", section.title.upper(), tables.plain(*_table(results, section))]
    lines = better_elsewhere(results)
    if lines:
        head = "WHERE ANOTHER IS BETTER"
        if facts["quick"]:
            head += " (one or two rounds: small differences are noise)"
        parts += ["", head, *(f"- {line}" for line in lines)]
    return "\n".join(parts)


def write(folder, results, facts):
    """Writes the page, its plots, and the numbers that both were made from."""
    home = folder / "benchmarks"
    home.mkdir(parents=True, exist_ok=True)
    results.save(home / "results.json", **facts)
    plots.draw(home, results)
    (folder / "benchmarks.md").write_text(_page(results, facts))


def _page(results, facts):
    parts = [
        INTRODUCTION,
        "## The run",
        tables.markdown(["", ""], _machine_rows(facts)),
        COMMANDS,
        "## Goals",
        tables.markdown(["what", "goal", "measured", ""], targets.rows(results)),
        "## Where another is better",
        WHY,
        "\n".join(f"- {line}" for line in better_elsewhere(results)) or "Nowhere in this run.",
    ]
    for section in SECTIONS:
        if section.key not in results.samples:
            continue
        parts += [f"## {section.title}", section.text]
        if section.plot:
            parts.append(f"![{section.title}](benchmarks/{section.plot})")
        parts.append(tables.markdown(*_table(results, section)))
        parts += results.notes.get(section.key, [])
    return "\n\n".join(parts) + "\n"


def _table(results, section):
    metrics = results.samples[section.key]
    if section.turned:
        head = ["", *metrics]
        names = list(dict.fromkeys(system for row in metrics.values() for system in row))
        rows = [
            [
                _label(system),
                *(
                    tables.cell(results, section.key, metric, system, system)
                    for metric in metrics
                ),
            ]
            for system in names
        ]
        return head, rows
    systems = [
        system for system in section.systems if any(system in row for row in metrics.values())
    ]
    head = ["", *(tables.name(system) for system in systems)]
    rows = [
        [
            section.labels.get(metric, metric),
            *(tables.cell(results, section.key, metric, system, "mq") for system in systems),
        ]
        for metric in metrics
    ]
    return head, rows


def _label(system):
    head, comma, rest = system.partition(",")
    return tables.name(head) + comma + rest


def better_elsewhere(results):
    """Sentences: every measurement in which another beats redis-mq by more than the spread."""
    lines = []
    for section in SECTIONS:
        if section.turned or section.key not in results.samples:
            continue
        for metric, row in _that_differ(results.samples[section.key]).items():
            winners = [
                f"{tables.name(system)} {tables.number(statistics.median(values))}"
                for system, values in row.items()
                if system not in ("mq", "PING")
                and row.get("mq")
                and _wins(values, row["mq"], section.more_is_better(metric))
            ]
            if winners:
                label = section.labels.get(metric, metric)
                mine = tables.number(statistics.median(row["mq"]))
                lines.append(f"{section.title}, {label}: {', '.join(winners)}; redis-mq {mine}")
    return lines


LENGTH = re.compile(r" at ([\d,]+)$")


def _that_differ(metrics):
    """Leaves out all lengths of the queue but the last: the cost is the same or told by the plot."""
    lengths = [found[1] for found in map(LENGTH.search, metrics) if found]
    longest = max(lengths, key=lambda text: int(text.replace(",", "")), default=None)

    def kept(metric):
        found = LENGTH.search(metric)
        return found is None or found[1] == longest

    return {metric: row for metric, row in metrics.items() if kept(metric)}


def _wins(theirs, mine, more):
    if more:
        theirs, mine = [-value for value in theirs], [-value for value in mine]
        return min(mine) > max(theirs) and abs(statistics.median(theirs)) > MARGIN * abs(
            statistics.median(mine)
        )
    return max(theirs) < min(mine) and statistics.median(theirs) * MARGIN < statistics.median(mine)


def _machine_rows(facts):
    rows = [
        ["date", facts["date"]],
        ["machine", f"{facts['processor']}, {facts['cores']} cores, {facts['memory']} memory"],
        ["system", facts["system"]],
        ["server", facts["server"]],
        ["redis-mq", facts["module"]],
        ["load generator", facts["rust"]],
        ["RQ", f"{facts['rq']} on Python {facts['python']}"],
    ]
    if facts.get("bullmq"):
        rows.append(["BullMQ", f"{facts['bullmq']} on Node {facts['node']}"])
    rows += [
        ["load average before", ", ".join(map(str, facts["load"]))],
        ["kind", "short run" if facts["quick"] else "full run"],
        ["took", f"{facts['seconds']} s"],
    ]
    if facts.get("scheduling"):
        rows.append(["scheduling", facts["scheduling"]])
    return rows


def _machine_line(facts):
    return "; ".join(f"{name}: {value}" for name, value in _machine_rows(facts)[:5])


INTRODUCTION = """# Benchmarks

<!-- Written by `make bench`. Change benches/suite, not this page. -->

redis-mq next to what people would use instead, on one machine in one run: a bare list with a second list for what
is in work, Redis Streams, a queue of Lua scripts of the older kind (nine keys, a circle that is polled), BullMQ and RQ.

Numbers are medians over the rounds; in brackets the least and the greatest round. Rounds of all systems are interleaved, so
that a busy moment of the machine hits all of them alike. ×N is the ratio to redis-mq in the same round, median over the
rounds. Trust ratios more than digits: absolute numbers belong to this machine."""

COMMANDS = """```
make bench            # everything, ten to fifteen minutes; writes this page
make bench QUICK=1    # under two minutes; prints, and leaves this page alone
make bench SERVER=redis-8.2    # on another server of scripts/servers.sh
make bench ONLY=cost,memory    # single chapters; prints only
```"""

WHY = """Every measurement of this run in which another beats redis-mq by more than the spread of the rounds. A bare list
keeps neither ids nor locks nor attempts, so it stores and pushes for less, and many values go in one LPUSH; a message in
its second list stays there for ever if its consumer dies. A stream stores a queued message in fewer bytes, because
entries are packed together and have no lock, delay, priority or id of one's own until they are delivered."""
