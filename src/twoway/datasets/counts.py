"""Famous published tables of counts, typed in and expanded to one record a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# Counts by the columns named in each key, in the order of the last column's categories.
_TITANIC: Mapping[tuple[str, ...], tuple[int, int]] = {
    ("first", "male", "child"): (0, 5),
    ("first", "male", "adult"): (118, 57),
    ("first", "female", "child"): (0, 1),
    ("first", "female", "adult"): (4, 140),
    ("second", "male", "child"): (0, 11),
    ("second", "male", "adult"): (154, 14),
    ("second", "female", "child"): (0, 13),
    ("second", "female", "adult"): (13, 80),
    ("third", "male", "child"): (35, 13),
    ("third", "male", "adult"): (387, 75),
    ("third", "female", "child"): (17, 14),
    ("third", "female", "adult"): (89, 76),
    ("crew", "male", "adult"): (670, 192),
    ("crew", "female", "adult"): (3, 20),
}
_BERKELEY: Mapping[tuple[str, ...], tuple[int, int]] = {
    ("A", "male"): (313, 512),
    ("A", "female"): (19, 89),
    ("B", "male"): (207, 353),
    ("B", "female"): (8, 17),
    ("C", "male"): (205, 120),
    ("C", "female"): (391, 202),
    ("D", "male"): (279, 138),
    ("D", "female"): (244, 131),
    ("E", "male"): (138, 53),
    ("E", "female"): (299, 94),
    ("F", "male"): (351, 22),
    ("F", "female"): (317, 24),
}


def titanic() -> pd.DataFrame:
    """Return the 2201 people on board the Titanic: "class", "sex", "age" and "survived".

    The counts are those of the British Board of Trade's inquiry (1912), as printed by Dawson (The "unusual episode"
    data revisited, Journal of Statistics Education, 1995).

    Examples
    --------
    >>> titanic()["survived"].value_counts().to_dict()
    {'no': 1490, 'yes': 711}
    """
    return _expand(("class", "sex", "age", "survived"), _TITANIC, ("no", "yes"))


def berkeley_admissions() -> pd.DataFrame:
    """Return the 4526 applicants to the six largest departments of Berkeley in 1973: "department", "sex", "admitted".

    A smaller share of the women was admitted overall, but hardly in any department: they had applied where few were.
    The counts are those of Bickel, Hammel and O'Connell (Sex bias in graduate admissions, Science, 1975).

    Examples
    --------
    >>> frame = berkeley_admissions()
    >>> (frame["admitted"] == "yes").groupby(frame["sex"]).mean().round(2).to_dict()
    {'female': 0.3, 'male': 0.45}
    """
    return _expand(("department", "sex", "admitted"), _BERKELEY, ("no", "yes"))


def _expand(
    columns: tuple[str, ...], counts: Mapping[tuple[str, ...], tuple[int, int]], outcomes: tuple[str, str]
) -> pd.DataFrame:
    import pandas as pd

    cells = [((*key, outcome), n) for key, pair in counts.items() for outcome, n in zip(outcomes, pair, strict=True)]
    table = pd.DataFrame([cell for cell, _ in cells], columns=list(columns))
    return table.loc[table.index.repeat([n for _, n in cells])].reset_index(drop=True)
