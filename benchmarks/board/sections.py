"""What a section of the board is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from board.environments import Environments
from board.store import Result

OURS = "twoway"


@dataclass(frozen=True)
class Score:
    """One thing that is measured; the first of a section decides."""

    name: str
    is_low_better: bool
    digits: int = 3


@dataclass(frozen=True)
class Section:
    """Methods that are run on the same splits of data sets."""

    name: str
    title: str
    data: Callable[[], Mapping[str, Sequence[str]]]
    """The data sets at hand, and the cases of each."""
    methods: Sequence[str]
    """Ours first."""
    environments: Mapping[str, str]
    """The environment of each peer that is a package."""
    scores: Sequence[Score]
    run: Callable[[str, str, int, Sequence[str], Environments], Iterator[Result]]
    order: Sequence[str] = ()
    """The order of data sets and cases on the page; others follow."""
    published: Mapping[str, Mapping[str, float]] | None = None
    """Published figures of the first score: by source, then by data set."""
