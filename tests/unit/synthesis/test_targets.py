"""Published tables of any kind as targets: coarser categories, parts of all people, shares, bounds, rules."""

import numpy as np
import pytest
from random_models import random_pmf

import twoway as tw
from twoway.errors import DataError
from twoway.synthesis import persons
from twoway.synthesis.targets import published_targets

AGES, SEXES, WORKS, MARITAL = ("0-14", "15-64", "65-79", "80+"), ("m", "f"), ("yes", "no"), ("single", "married")
SCHEMA = tw.Schema(
    tuple(
        tw.Variable(name, own) for name, own in {"age": AGES, "sex": SEXES, "works": WORKS, "marital": MARITAL}.items()
    )
)
GROUPS = {"age": {"65+": ("65-79", "80+"), "15+": ("15-64", "65-79", "80+")}}
RULES = [{"age": "0-14", "marital": "married"}, {"age": "0-14", "works": "yes"}]
N = 2000


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    monkeypatch.setattr(persons, "_FEWEST_DRAWS", 20_000)


@pytest.fixture(scope="module")
def people():
    """Return persons of whom no child is married or works."""
    frame = random_pmf(SCHEMA, 3, seed=4).sample(3 * N, seed=1)
    is_child = frame.age == "0-14"
    return frame[~(is_child & ((frame.marital == "married") | (frame.works == "yes")))][:N].astype(str)


@pytest.fixture(scope="module")
def published(people):
    """Return tables of these persons as an office would publish them."""

    def table(names, frame=people, **options):
        return tw.PublishedTable.of(names, frame.value_counts(names), **options)

    adults = people[people.age != "0-14"]
    coarse = people.replace({"age": {"65-79": "65+", "80+": "65+"}})
    rows = people.groupby("sex").works.value_counts(normalize=True)
    marital = dict(coarse.value_counts(["age", "marital"])) | {("0-14", "married"): 0}
    few = min((number, key) for key, number in marital.items() if number)[1]
    return tw.PublishedTables.of(
        [
            table(["age", "sex"]),
            table(["sex", "works"], adults, within={"age": ("15-64", "65+")}),
            tw.PublishedTable.of(["age", "marital"], marital | {few: f"<{marital[few] + 3}"}),
            tw.PublishedTable.of(["sex", "works"], rows, kind="shares", given="sex", total=N),
        ],
        groups=GROUPS,
        impossible=RULES,
        exact=[("age", "sex")],
        schema=SCHEMA,
    )


def test_a_population_has_all_that_was_published(people, published):
    pmf = random_pmf(SCHEMA, 3, seed=4)
    found = tw.population(pmf, N, tables=published).to_frame().astype(str)
    is_child = found.age == "0-14"
    assert is_child.any()
    assert not (is_child & ((found.marital == "married") | (found.works == "yes"))).any()
    names = ["age", "sex"]
    assert dict(found.value_counts(names)) == dict(people.value_counts(names))
    for frame in (found, people):  # of the coarser categories
        frame["group"] = frame.age.replace({"65-79": "65+", "80+": "65+"})
    shares = (people.value_counts(["group", "marital"]) - found.value_counts(["group", "marital"])).fillna(0)
    assert shares.abs().max() <= 4  # the cell that is a bound may be off by three
    for own in ("m", "f"):
        works = [np.mean(frame[frame.sex == own].works == "yes") for frame in (found, people)]
        assert works[0] == pytest.approx(works[1], abs=0.003)


def test_what_targets_count(people, published):
    """The sums of all persons are within the bounds of each target, once sums that are not known are those of them."""
    codes = tw.Records(people[list(SCHEMA.names)], schema=SCHEMA).codes().T
    targets = published_targets(published, N, published.exact)
    assert [target.is_exact for target in targets] == [False, False, False, True]
    assert [target.blocks is None for target in targets] == [False, True, False, True]
    for target in targets:
        cells = target.cells(codes)
        sums = np.bincount(cells[cells >= 0], minlength=len(target.low)).astype(float)
        low, high = target.low, target.high
        if target.blocks is not None:
            middle = np.bincount(target.blocks, (low + high) / 2)
            scale = (np.bincount(target.blocks, sums) / middle)[target.blocks]
            low, high = low * scale, high * scale
        assert (sums >= low - 1e-6).all()
        assert (sums <= high + 1e-6).all()


def test_a_model_is_fitted_to_published_tables_first(published, monkeypatch):
    monkeypatch.setattr("twoway.synthesis.population.fit", lambda source, **_: random_pmf(source.schema, 3, seed=4))
    assert tw.population(published, 100).report.exact == (("age", "sex"),)


def test_schemas_must_be_the_same(published):
    other = random_pmf(tw.Schema((tw.Variable("age", AGES[:3]),)), 1)
    with pytest.raises(DataError, match="same variables and categories as the model"):
        tw.population(other, 10, tables=published)


def test_an_exact_margin_of_a_part_of_all_people(published):
    pmf = random_pmf(SCHEMA, 3, seed=4)
    with pytest.raises(DataError, match="exact margin 'sex × works'"):
        tw.population(pmf, 10, tables=published, exact=[("sex", "works")])
