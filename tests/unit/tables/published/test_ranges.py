"""Ranges of whole numbers: what is finest where tables differ in them."""

import pytest

from twoway.tables.published.ranges import groups_of_ranges


@pytest.mark.parametrize(
    ("sides", "members"),
    [
        ([["0-14", "15-60"], ["0-60"]], {"0-60": ("0-14", "15-60")}),
        ([["u15", "15-60"], ["u20", "20-60"]], {"15-60": ("15-19", "20-60"), "u20": ("u15", "15-19")}),
        ([["0-14", "20-60"], ["0-14", "20-29", "30-60"]], {"20-60": ("20-29", "30-60")}),
        ([["15-64", "65+"], ["15+"]], {"15+": ("15-64", "65+")}),
    ],
)
def test_the_finest_ranges_end_where_the_highest_does(sides, members):
    assert groups_of_ranges(sides) == members
