"""Tables, as Markdown and for a terminal."""

from statistics import median

NAMES = {
    "mq": "redis-mq",
    "list": "bare list",
    "stream": "stream",
    "lua": "Lua scripts",
    "bullmq": "BullMQ",
    "rq": "RQ",
    "PING": "PING",
}


def name(system):
    """What a reader knows the system as."""
    return NAMES.get(system, system)


def number(value):
    """Three digits that count."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.095 else f"{value:.3f}"


def spread(values):
    """The median, and where more than one round was done the least and the greatest."""
    middle = number(median(values))
    if len(values) < 2:
        return middle
    return f"{middle} ({number(min(values))}..{number(max(values))})"


def cell(results, section, metric, system, base):
    """The samples, and their ratio to the base system."""
    values = results.of(section, metric, system)
    if not values:
        return "–"
    text = spread(values)
    ratio = results.ratio(section, metric, system, base)
    if system == base or ratio is None:
        return text
    return f"{text} ×{number(ratio)}"


def markdown(head, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def plain(head, rows):
    """The same table with columns of equal width."""
    everything = [head, *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(len(head))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
        for row in everything
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
