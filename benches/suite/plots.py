"""Plots as SVG, where a curve says more than a table."""

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend has to be chosen first)

from .tables import name  # noqa: E402

COLOURS = {
    "mq": "#c0392b",
    "list": "#2c7fb8",
    "stream": "#238b45",
    "lua": "#8856a7",
    "bullmq": "#e08214",
    "rq": "#7f7f7f",
    "PING": "#000000",
}
plt.rcParams.update(
    {
        # Text stays text, and the same numbers give the same file.
        "svg.fonttype": "none",
        "svg.hashsalt": "redis-mq",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
    }
)


def draw(folder, results):
    """Draws what there are curves for."""
    if "depth" in results.curves:
        _cost_by_length(folder / "cost-by-length.svg", results.curves["depth"])
    for key, title in (
        ("latency", "enqueue to delivery"),
        ("due", "due instant to delivery"),
    ):
        if key in results.curves:
            _distribution(folder / f"{key}.svg", results.curves[key], title)


def _save(figure, path):
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def _cost_by_length(path, curves):
    steps = [("enqueue", "enqueue"), ("dequeue", "dequeue"), ("done", "finish")]
    figure, panels = plt.subplots(1, 3, figsize=(9.5, 3.2), sharey=True)
    for panel, (step, title) in zip(panels, steps):
        for system in ("mq", "list", "stream", "lua"):
            points = curves.get(f"{system} {step}")
            if points:
                lengths, values = zip(*points)
                panel.plot(lengths, values, marker="o", ms=3, color=COLOURS[system], label=name(system))
        panel.set(xscale="log", yscale="log", title=title, xlabel="messages in the queue")
    panels[0].set_ylabel("server µs a message")
    panels[-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _save(figure, path)


def _distribution(path, curves, title):
    figure, panel = plt.subplots(figsize=(7, 3.4))
    for label, points in curves.items():
        points = [(percent, value) for percent, value in points if percent < 100]
        # Nines are equally far apart: 90, 99, 99.9.
        nines = [1 / (1 - percent / 100) for percent, _ in points]
        system = label.partition(",")[0]
        style = "--" if "lock" in label else "-"
        text = label.replace(system, name(system), 1)
        values = [max(value, 1e-3) for _, value in points]
        panel.plot(nines, values, style, color=COLOURS.get(system), label=text)
    panel.set(xscale="log", yscale="log", xlabel="percentile", ylabel="ms", title=title)
    panel.set_xticks([2, 10, 100, 1000, 10000], ["50", "90", "99", "99.9", "99.99"])
    panel.minorticks_off()
    panel.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _save(figure, path)
