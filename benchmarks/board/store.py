"""Results in a file of JSON lines, one for each section, data set, case, method and seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

Key = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class Result:
    """What one method reached on one split."""

    section: str
    data: str
    case: str
    method: str
    seed: int
    scores: Mapping[str, float]
    seconds: float
    """CPU seconds, tuning included."""
    note: str = ""
    """The options that were chosen, or the form of the model."""

    @property
    def key(self) -> Key:
        return self.section, self.data, self.case, self.method, self.seed


@dataclass
class Store:
    """Results that outlive an interrupted run: each is written as soon as it is there."""

    path: Path
    results: dict[Key, Result] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> Store:
        """Read what is there: of two lines with the same key the later one; no half line of a run that died."""
        store = cls(path)
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                result = Result(**json.loads(line))
            except ValueError:
                continue
            store.results[result.key] = result
        return store

    def add(self, result: Result) -> None:
        self.results[result.key] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")

    def tidy(self) -> None:
        """Write the file anew, in the order of the keys and without lines that later ones replaced."""
        lines = (json.dumps(asdict(self.results[key])) + "\n" for key in sorted(self.results))
        part = self.path.with_suffix(".part")
        part.write_text("".join(lines))
        part.replace(self.path)

    def missing(self, section: str, data: str, case: str, methods: Iterable[str], seed: int) -> list[str]:
        """Return the methods without a result."""
        return [method for method in methods if (section, data, case, method, seed) not in self.results]

    def of(self, section: str, data: str, case: str, method: str) -> list[Result]:
        """Return the results of all seeds, in their order."""
        found = [result for key, result in self.results.items() if key[:4] == (section, data, case, method)]
        return sorted(found, key=lambda result: result.seed)
