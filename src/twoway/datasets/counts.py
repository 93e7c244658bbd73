"""Famous published tables of counts, typed in and expanded to one record per person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_TITANIC = {
    "class": ("first", "second", "third", "crew"),
    "sex": ("male", "female"),
    "age": ("child", "adult"),
    "survived": ("no", "yes"),
}
# In the order of the categories above, the last variable fastest: a line for each class.
_TITANIC_COUNTS = (
    *(0, 5, 118, 57, 0, 1, 4, 140),
    *(0, 11, 154, 14, 0, 13, 13, 80),
    *(35, 13, 387, 75, 17, 14, 89, 76),
    *(0, 0, 670, 192, 0, 0, 3, 20),
)
_BERKELEY = {"department": tuple("ABCDEF"), "sex": ("male", "female"), "admitted": ("no", "yes")}
# Likewise: four numbers for each department.
_BERKELEY_COUNTS = (
    *(313, 512, 19, 89, 207, 353, 8, 17, 205, 120, 391, 202),
    *(279, 138, 244, 131, 138, 53, 299, 94, 351, 22, 317, 24),
)


def titanic() -> pd.DataFrame:
    """Return the 2201 people on board the Titanic: "class", "sex", "age" and "survived".

    The counts are those of the British Board of Trade's inquiry (1912), as printed by Dawson (The "unusual episode"
    data revisited, Journal of Statistics Education, 1995).

    Examples
    --------
    >>> titanic()["survived"].value_counts().to_dict()
    {'no': 1490, 'yes': 711}
    """
    return _expand(_TITANIC, _TITANIC_COUNTS)


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
    return _expand(_BERKELEY, _BERKELEY_COUNTS)


def _expand(variables: Mapping[str, tuple[str, ...]], counts: tuple[int, ...]) -> pd.DataFrame:
    import pandas as pd

    cells = pd.MultiIndex.from_product(list(variables.values()), names=list(variables)).to_frame(index=False)
    return cells.loc[cells.index.repeat(counts)].reset_index(drop=True)
