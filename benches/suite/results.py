"""What was measured: samples by section, metric and system, one sample a round."""

import json
from statistics import median


class Results:
    """Samples, and curves that cannot be boiled down to numbers."""

    def __init__(self):
        self.samples = {}
        self.curves = {}
        self.notes = {}

    def add(self, section, metric, system, value):
        """Adds the sample of the next round."""
        rows = self.samples.setdefault(section, {})
        rows.setdefault(metric, {}).setdefault(system, []).append(value)

    def curve(self, section, name, points):
        """Adds a curve, a list of pairs; a later one of that name replaces it."""
        self.curves.setdefault(section, {})[name] = points

    def note(self, section, text):
        """Adds a sentence to the section, once."""
        notes = self.notes.setdefault(section, [])
        if text not in notes:
            notes.append(text)

    def of(self, section, metric, system):
        """The samples, in the order of the rounds; empty if there are none."""
        return self.samples.get(section, {}).get(metric, {}).get(system, [])

    def median(self, section, metric, system):
        """The median, or None."""
        values = self.of(section, metric, system)
        return median(values) if values else None

    def ratio(self, section, metric, system, base):
        """The median of the ratios within each round, or None."""
        pairs = zip(self.of(section, metric, system), self.of(section, metric, base))
        ratios = [value / other for value, other in pairs if other]
        return median(ratios) if ratios else None

    def save(self, path, **more):
        """Writes everything as JSON."""
        everything = {**more, "samples": self.samples, "curves": self.curves, "notes": self.notes}
        path.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path):
        """Reads what `save` wrote; gives the results and the rest."""
        everything = json.loads(path.read_text())
        results = cls()
        for name in ("samples", "curves", "notes"):
            setattr(results, name, everything.pop(name))
        return results, everything
