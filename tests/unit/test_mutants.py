"""What no other test held fast: changes to the code that the mutation run (make mutate) made and nobody noticed."""

import math
import re

import numpy as np
import pytest

from twoway.data.records import Records
from twoway.datasets import dirichlet_rows
from twoway.errors import DataError, FileFormatError, QuestionError, UnknownNameError
from twoway.fitting.fit import fit
from twoway.model.pmf import JointPMF
from twoway.questions import ask, parse
from twoway.questions.answer import suppose
from twoway.questions.complete import complete
from twoway.questions.language import KINDS, quote
from twoway.questions.parse import EXAMPLES, parse_terms
from twoway.report import Progress
from twoway.schema import Schema, Variable
from twoway.solvers import base, find_solver
from twoway.solvers.auto import Auto
from twoway.solvers.base import Smoothing, Watch
from twoway.solvers.coupled_nmf import CoupledNMF
from twoway.solvers.pairs import PairMatrix
from twoway.solvers.spa import SPA
from twoway.storage.container import write
from twoway.tables.tables import Tables

SCHEMA = Schema((Variable("vote", ("no", "yes")), Variable("XXage", ("Xa", "b")), Variable("stars", (1, 2, 3))))


def told(error):
    return rf"^{re.escape(error)}$"


# Questions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P(vote = no, vo", [" vote"]),
        ("P(vote = no, stars = 1 | XXage = ", [" Xa", " b"]),
        ("P(", ["vote", "XXage", "stars"]),
        ("P(X", ["XXage"]),
        ("P('X", ["XXage"]),
        ("P(vote | 'XXage' = X", [" Xa"]),
        ("X", []),
        ("", ["P(", "E(", "H(", "I(", "mode("]),
    ],
)
def test_completion(text, expected):
    assert sorted(complete(text, SCHEMA)) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("P(vote = no", "           ^"),  # behind the end
        ("P(vote) now", "        ^^^"),
        ("P(nix)", "  ^^^"),
        ("P(nix in {no})", "  ^^^"),
        ("P(vote = yes, nix not in {no})", "              ^^^"),
        ("H(vote = no)", "  ^^^^^^^^^"),
        ("P(" + "x" * 70 + ")", "  " + "^" * 70),  # longer than a cell of a table may be
    ],
)
def test_the_mark_stands_below_what_is_meant(text, mark):
    with pytest.raises(QuestionError) as caught:
        parse(text, SCHEMA)
    shown, below = str(caught.value).splitlines()[-2:]
    assert shown == f"    {text}"
    assert below == f"    {mark}"


def test_a_condition_without_a_value_is_marked_whole():
    with pytest.raises(QuestionError, match="what of 'stars' is known") as caught:
        parse_terms("vote = no, stars", SCHEMA)
    assert str(caught.value).endswith("    vote = no, stars\n    ^^^^^^^^^^^^^^^^")


# Models


def test_expectations_of_what_has_no_numbers():
    message = "give them with Variable(name, categories, values)"
    with pytest.raises(DataError, match=rf"{re.escape(message)}$"):
        JointPMF([1.0], [[[0.5], [0.5]]], Schema((Variable("vote", ("no", "yes")),))).expect("vote")


# Tables


def tables(**options):
    columns = {"vote": ["no", "yes", "yes", None], "XXage": ["Xa", "b", None, "b"], "stars": [None, None, 3, None]}
    return Tables.count(Records(columns, schema=SCHEMA), **options)


def test_tables_that_are_not_there_are_told_with_those_that_are():
    some = tables().select([("vote", "XXage")])
    with pytest.raises(
        UnknownNameError, match=told("no table holds 'stars'; tables of 2 variables are there: 'vote × XXage'")
    ):
        some.marginal("stars")
    with pytest.raises(
        UnknownNameError,
        match=told("no table holds 'vote' × 'stars'; 'vote' stands with 'XXage'; 'stars' stands with no other"),
    ):
        some.marginal(["vote", "stars"])
    three = (
        "no table holds 'vote' × 'XXage' × 'stars'; 'vote' stands with 'XXage'; 'XXage' stands with 'vote'; "
        "'stars' stands with no other; tables of 2 variables are there: 'vote × XXage'"
    )
    with pytest.raises(UnknownNameError, match=told(three)):
        some.marginal(["vote", "XXage", "stars"])
    with pytest.raises(UnknownNameError, match=told("no table holds 'vote'; tables of 2 variables are there: none")):
        some.select([]).marginal("vote")
    with pytest.raises(DataError, match=told("a marginal needs at least one variable; got none")):
        some.marginal([])


def test_chosen_tables_keep_their_weights_and_notes():
    whole = tables()
    marked = Tables(whole.schema, whole.sets, whole.flat, whole.weights * 2, ("first", "second"))
    kept = marked.select([("XXage", "vote")])
    assert kept.weights.tolist() == (2 * whole.weights[:1]).tolist()
    assert kept.notes == ("first", "second")
    assert repr(kept).endswith(", 2 notes>")
    assert repr(Tables(whole.schema, whole.sets, whole.flat, None, ("one",))).endswith(", 1 note>")


def test_a_table_of_one_weighs_its_own_mean():
    one = tables().select([("vote", "XXage")])
    np.testing.assert_allclose(one.as_records("equal").weights, one.as_records("counts").weights)
    message = "no way of weighing pairs 'equl'; did you mean 'equal'? known: 'counts', 'equal'"
    with pytest.raises(UnknownNameError, match=told(message)):
        one.as_records("equl")


@pytest.mark.parametrize("n_cells", [254, 255, 256, 257])
def test_the_type_of_cells_is_wide_enough_and_no_wider(n_cells):
    schema = Schema((Variable("a", tuple(range(n_cells - 2))), Variable("b", (0, 1))))
    columns = {"a": [0, n_cells - 3], "b": [0, 1]}
    records = Tables.count(Records(columns, schema=schema)).as_records()
    assert records.cells.dtype == (np.uint8 if n_cells <= 256 else np.uint16)
    assert records.pointers.dtype == np.int64
    assert records.pointers.tolist() == [0, 2, 4]
    assert records.cells.tolist() == [0, n_cells - 2, n_cells - 3, n_cells - 1]


def test_labels_of_one_type_keep_it_in_every_frame():
    pytest.importorskip("polars", reason="polars is not there")
    numbers = Tables.count(Records({"a": [1, 2], "b": [3, 3]}))
    assert numbers.to_frame("polars")["row_category"].to_list() == [1, 2]
    assert type(numbers.to_frame("pyarrow")).__module__.startswith("pyarrow")
    mixed = Tables.count(Records({"a": [1, 2], "b": ["x", "x"]}))
    assert mixed.to_frame("polars")["row_category"].to_list() == ["1", "2"]
    assert mixed.to_frame("pandas")["row_category"].tolist() == [1, 2]


def test_a_file_without_tables_is_named(tmp_path):
    write(tmp_path / "x.tables", "tables", {"schema": SCHEMA.to_dict(), "notes": []}, {})
    with pytest.raises(FileFormatError, match=r"x\.tables' holds no valid tables"):
        Tables.load(tmp_path / "x.tables")


def test_probabilities_of_modes_are_at_most_one():
    """Rounding may add up to a little more."""
    pmf = JointPMF([0.1] * 10, [np.ones((1, 10))], Schema((Variable("a", (0,)),)))
    assert pmf.mode(["a"]).probability <= 1.0
    assert dirichlet_rows(2, 2, 2).mode().probability <= 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P(vote in {no, yes}, XXage in {", ["Xa", "b"]),
        ("P(XXage not in {Xa, ", [" Xa", " b"]),
        ("P(vote in {no}, ", [" vote", " XXage", " stars"]),
    ],
)
def test_completion_in_lists(text, expected):
    assert complete(text, SCHEMA) == expected


def test_numbers_between_the_categories_are_compared_and_not_equalled():
    parse("P(stars < 2.5)", SCHEMA)
    for operator in ("=", "!="):
        with pytest.raises(QuestionError, match=r"no category 2\.5 of 'stars'"):
            parse(f"P(stars {operator} 2.5)", SCHEMA)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("P(vote = no, stars)", "either each variable has a value, P(a = x, b = y), or none, P(a, b)"),
        ("P('vote' in {no", "'}' is missing, which closes the list of labels"),
        ("P('vote' in {no)", "'}' is missing here, which closes the list of labels"),
        ("P(vote in {no, })", "a label is missing here"),
        ("", f"a question begins with one of {', '.join(KINDS)}, as in {EXAMPLES[0]}"),
    ],
)
def test_what_questions_lack_is_told(text, message):
    with pytest.raises(QuestionError) as caught:
        parse(text, SCHEMA)
    assert str(caught.value).splitlines()[0].split("; names and labels")[0] == message


def test_conditions_as_text():
    pmf = JointPMF([0.5, 0.5], [[[0.9, 0.2], [0.1, 0.8]], np.eye(2), np.ones((3, 2)) / 3], SCHEMA)
    assert suppose(pmf, " \t") is pmf
    assert suppose(pmf, "XXage = Xa").prob({"vote": "no"}) == pytest.approx(0.9)
    with pytest.raises(QuestionError, match="no variable 'nix'"):
        suppose(pmf, "nix = 1")
    with pytest.raises(QuestionError, match="no category 'maybe' of 'vote'"):
        suppose(pmf, "vote = maybe")


def test_whole_numbers_are_read_to_the_last_digit():
    schema = Schema((Variable("n", (-(2**53) - 1, -(2**53), 2**53, 2**53 + 1)),))
    for number in schema["n"].categories:
        (term,) = parse(f"P(n = {number})", schema).targets
        assert term.labels == (number,)
    (term,) = parse(f"P(n = +{2**53 + 1})", schema).targets
    assert term.labels == (2**53 + 1,)


@pytest.mark.parametrize("label", ["'x", '"x', "'", "''", "x'", "in", "a in", "a!", "=", "1", "-1e3", "TRUE", " a", ""])
def test_labels_that_need_quotes_are_read_back(label):
    schema = Schema((Variable("v", (label, "other")),))
    question = parse(f"P(v = {quote(label)})", schema)
    assert question.targets[0].labels == (label,)
    assert parse(str(question), schema) == question
    assert complete("P(v = ", schema)[0] == f" {quote(label)}"


def test_what_is_left_of_a_large_entropy_is_an_estimate_with_its_error():
    pmf = dirichlet_rows(60, 4, 3, seed=1)
    names = ", ".join(pmf.schema.names[:-1])
    known = pmf.schema.names[-1]
    answer = ask(pmf, f"H({names} | {known})")
    whole, part = pmf.entropy([*pmf.schema.names[:-1], known]), pmf.entropy([known])
    assert float(answer) == pytest.approx(whole - part)
    assert answer.standard_error == np.hypot(whole.standard_error, part.standard_error) > 0


# Tables


def test_categories_that_are_lacking_are_noted_and_others_are_not():
    one = Tables.count(Records({"a": ["x", "y"], "b": ["p", "q"], "c": [1, 2]}))
    two = Tables.count(Records({"a": ["x", "z"], "b": ["p", "q"], "d": [1, 2]}))
    assert (one + two).notes == (
        "some of the tables that were added lack categories of 'a', which count as zero there",
    )


def test_a_bad_count_is_named_at_its_place():
    """The first cell of the second table, which begins where the first one ends."""
    flat = np.ones(10)
    flat[4] = -1.0
    with pytest.raises(
        DataError, match=told("a count must be a number of 0 or more; at 'vote' = 'no', 'stars' = 1 it is -1.0")
    ):
        Tables(SCHEMA, np.array([[0, 1], [0, 2]]), flat)


def test_a_bad_weight_is_told_and_not_a_good_one():
    with pytest.raises(DataError, match=r"-2\.0"):
        Tables(SCHEMA, np.array([[0, 1], [0, 2]]), np.ones(10), np.array([0.5, -2.0]))


# Solvers


def test_spa_says_what_it_minimises_and_what_it_cannot_do():
    report = fit(dirichlet_rows(6, 4, 2, seed=1).sample(300, seed=0), rank=2, solver="spa").report
    assert report.objective_name == "mean Kullback-Leibler divergence a pair"
    many = {"a": range(15_000), "b": range(15_000)}
    with pytest.raises(
        DataError,
        match=told("'spa' takes up to 20000 categories in all, and there are 30000; use solver='coupled-nmf'"),
    ):
        fit(many, rank=1, solver="spa")


@pytest.mark.parametrize("first", [0, 2.5, "a"])
def test_the_first_group_of_spa_is_a_whole_number(first):
    with pytest.raises(DataError, match="first must be a whole number of at least 1"):
        fit(dirichlet_rows(4, 3, 2, seed=1).sample(50, seed=0), rank=2, solver=SPA(first=first))


def test_spa_splits_the_variables_into_halves_first():
    tables = Tables.count(Records(dirichlet_rows(6, 4, 2, seed=1).sample(300, seed=0)))
    first, *others = SPA(n_splits=4).splits(PairMatrix.of(tables), 2, (0, 0))
    assert len(others) == 3
    assert first.tolist() == [True] * 3 + [False] * 3
    assert len({split.tobytes() for split in (first, *others)}) == 4


def test_the_rank_that_pairs_can_carry_at_most():
    pairs = PairMatrix.of(Tables.count(Records({"a": [0, 1, 1], "b": [0, 1, 0]})))
    assert pairs.can_carry(2)
    assert not pairs.can_carry(3)


def test_starts_do_not_change_the_smoothing():
    given = Auto(smoothing=Smoothing(1.0, 2.0))
    assert find_solver(given, 3) == Auto(3, Smoothing(1.0, 2.0))
    assert find_solver(given, None) is given


def test_a_watch_for_a_part_knows_what_the_whole_one_knows(monkeypatch):
    seen, kept = [], object()
    watch = Watch(seen.append, checkpoint=kept)
    monkeypatch.setattr("twoway.solvers.base.time.monotonic", lambda: 30.0)
    part, quiet = watch.part("all", 10, 100, 20.0), watch.quiet()
    assert part.checkpoint is quiet.checkpoint is kept
    part.tell(Progress("own", 5, 50, 1.5))
    part.tell(Progress("own", 500, 50, 1.0))
    assert seen == [Progress("all", 15, 100, 1.5, 10.0 * 85 / 15), Progress("all", 100, 100, 1.0, 0.0)]
    seen.clear()
    begun = watch.part("all", 0, 100, 20.0)
    for done in (2, 3):
        begun.tell(Progress("own", done, 50))
    assert [one.seconds_left for one in seen] == [None, 10.0 * 97 / 3]
    quiet.interrupt()
    assert watch.interrupted
    assert part.interrupted


def test_a_loop_has_settled_when_gains_are_small_and_do_not_grow():
    settled = base._has_settled
    assert settled([math.inf, 1e-9, 1e-9, 1e-9], 1e-8)
    assert settled([math.inf, 3e-9, 2e-9, 1e-9], 1e-8)
    assert settled([math.inf, 1e-8, 1e-8, 1e-8], 1e-8)
    assert not settled([math.inf, 1e-9, 1e-9, 2e-9], 1e-8), "gains that grow: a saddle"
    assert settled([math.inf, -1e-14, 1e-15, 9e-14], 1e-8), "below rounding they neither grow nor shrink"
    assert not settled([math.inf, 1e-9, 1e-9], 1e-8), "too few"
    assert not settled([math.inf, 1e-7, 1e-9, 1e-9], 1e-8)


def test_the_time_left_is_that_of_gains_that_go_on_to_shrink(monkeypatch):
    monkeypatch.setattr("twoway.solvers.base.time.monotonic", lambda: 120.0)
    gains = [math.inf, *(10.0**-power for power in range(9))]  # a tenth each cycle, 1e-8 now
    assert base._seconds_left(gains, 1e-11, 100.0) == pytest.approx(3 * 20.0 / 10)
    assert base._seconds_left(gains, 1e-3, 100.0) == 0.0
    assert base._seconds_left(gains, 0.0, 100.0) is None
    assert base._seconds_left([math.inf, 1e-3, 1e-4, 1e-5], 1e-8, 100.0) is None, "too few to tell"
    assert base._seconds_left([math.inf, 1e-3, 1e-3, 1e-3, 1e-3], 1e-8, 100.0) is None, "they do not shrink"


def test_ctd_does_not_smooth():
    message = "solver 'ctd' fits the tables as they are, without smoothing; 'mle-ad' fits the same tables and smooths"
    with pytest.raises(DataError, match=told(message)):
        fit(dirichlet_rows(4, 3, 2, seed=1).sample(50, seed=0), rank=2, solver="ctd", smoothing=1.0)


def test_mirror_descent_does_not_smooth():
    solver = CoupledNMF(update="mirror")
    with pytest.raises(
        DataError, match=told("mirror descent fits the tables as they are; smoothing needs update='em'")
    ):
        fit(dirichlet_rows(4, 3, 2, seed=1).sample(50, seed=0), rank=2, solver=solver, smoothing=1.0)


@pytest.mark.parametrize("solver", ["em", "coupled-nmf", "mirror", "ctd", "mle-ad"])
def test_progress_has_the_solvers_name(solver):
    told_of = []
    frame = dirichlet_rows(5, 3, 2, seed=1).sample(300, seed=0)
    options = {"solver": CoupledNMF(update="mirror", max_iter=20) if solver == "mirror" else solver}
    fit(frame, rank=2, starts=1, monitor=told_of.append, **options)
    wanted = "coupled-nmf" if solver == "mirror" else solver
    assert {progress.task for progress in told_of} - {"annealing"} == {wanted}


# The PMF


def test_a_model_in_a_line():
    one = JointPMF([1.0], [[[0.5], [0.5]]], Schema((Variable("a", (1, 2)),)))
    assert repr(one) == "JointPMF(rank 1, 1 variable: a (2))"
    assert repr(dirichlet_rows(2, 3, 2)) == "JointPMF(rank 2, 2 variables: x1 (3), x2 (3))"
    listed = ", ".join(f"x{place} (3)" for place in range(1, 7))
    assert repr(dirichlet_rows(8, 3, 2)) == f"JointPMF(rank 2, 8 variables: {listed}, … (2 more))"


def test_no_probability_is_above_one():
    """Sums of all categories are above one by rounding now and then."""
    models = [dirichlet_rows(3, 5, 4, seed=seed) for seed in range(200)]
    sums = [(pmf.weights * np.prod([factor.sum(axis=0) for factor in pmf.factors], axis=0)).sum() for pmf in models]
    assert max(sums) > 1.0
    everything = {name: list(range(5)) for name in ("x1", "x2", "x3")}
    assert max(pmf.prob(everything) for pmf in models) == 1.0
