"""Tables: counting, asking, adding, saving."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.counting import count_sets
from strategies import examples

import twoway as tw
from twoway.data.records import Records
from twoway.data.stored_records import Block
from twoway.data.weights import WeightTotals
from twoway.errors import DataError, FileFormatError, TwowayError, UnknownNameError
from twoway.schema import Schema, Variable
from twoway.storage.container import read_container, write_container
from twoway.tables import counting
from twoway.tables.tables import Tables

SCHEMA = Schema(
    (
        Variable("age", ("young", "middle", "old")),
        Variable("vote", ("no", "yes")),
        Variable("stars", (1, 2, 3)),
        Variable("region", ("north", "south")),
    )
)


def make_records(seed=0, n_records=200, schema=SCHEMA, observed=0.6, weights=None):
    rng = np.random.default_rng(seed)
    columns = {}
    for variable in schema:
        codes = rng.integers(0, len(variable), n_records)
        seen = rng.random(n_records) < observed
        columns[variable.name] = [
            variable.categories[code] if here else None for code, here in zip(codes, seen, strict=True)
        ]
    return Records(columns, schema=schema, weights=weights)


def make_tables(seed=0, **options):
    return Tables.count(make_records(seed, **options))


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_equal_the_slow_twin(order, weighted):
    weights = np.random.default_rng(1).integers(0, 7, 200) + 1.0 if weighted else None
    records = make_records(weights=weights)
    tables = Tables.count(records, order)
    twin = count_sets(records.pointers, records.cells, weights, SCHEMA.sizes, order)
    assert len(tables) == len(twin)
    for index, (positions, counts) in enumerate(sorted(twin.items())):
        assert tuple(tables.sets[index]) == positions
        np.testing.assert_array_equal(tables.array(index), counts)
    np.testing.assert_array_equal(tables.totals, [counts.sum() for _, counts in sorted(twin.items())])


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_rows_blocks_and_threads_does_not_matter_to_the_byte(order, weighted):
    # Weights that no binary fraction holds: added up as floats they would depend on the order.
    weights = np.random.default_rng(2).random(12_000) * 0.1 + 0.1 if weighted else None
    records = make_records(n_records=12_000, weights=weights)
    shuffled = np.random.default_rng(3).permutation(records.n_records)
    codes = records.codes()[shuffled]
    seen = codes >= 0
    again = Records.from_cells(
        SCHEMA,
        np.concatenate([[0], np.cumsum(seen.sum(axis=1))]).astype(np.int64),
        (codes + SCHEMA.offsets[:-1])[seen].astype(records.cells.dtype),
        None if weights is None else weights[shuffled],
    )
    one, other = Tables.count(records, order, threads=1), Tables.count(again, order, threads=2)
    assert one.flat.tobytes() == other.flat.tobytes()
    if order == 2:
        np.testing.assert_allclose(one["age", "vote"], records.marginal(["age", "vote"]), rtol=1e-12)


class Shards:
    """A source of many blocks, some of which have weights; combined from the right, as a cluster might."""

    def __init__(self, records, n_blocks, weighted_every=0):
        self.schema, self.n_records, self.n_observed = records.schema, records.n_records, records.n_observed
        edges = np.linspace(0, records.n_records, n_blocks + 1).astype(int)
        self.blocks = [
            Block(
                records.pointers[a : b + 1],
                records.cells,
                np.full(b - a, 3.0) if weighted_every and place % weighted_every == 0 else None,
            )
            for place, (a, b) in enumerate(pairwise(edges))
        ]
        self.weight_totals = sum(
            (WeightTotals.of(b.weights, None, b.n_records) for b in self.blocks),
            WeightTotals(),
        )

    def map_reduce(self, per_block, combine, *, threads=None):
        return reduce(lambda right, left: combine(left, right), [per_block(block) for block in self.blocks[::-1]])


@pytest.mark.parametrize("order", [2, 3])
def test_any_blocks_count_as_one(order):
    records = make_records(n_records=500)
    assert Tables.count(Shards(records, 7), order) == Tables.count(records, order)
    some = Shards(records, 5, weighted_every=2)
    weights = np.concatenate([np.ones(100) if block.weights is None else block.weights for block in some.blocks])
    assert Tables.count(some, order) == Tables.count(records.reweighted(weights), order)


def test_a_pair_agrees_with_the_records_in_the_order_asked_for():
    records = make_records()
    tables = Tables.count(records)
    for names in (("age", "vote"), ("stars", "age"), ("region", "stars")):
        from_records = records.marginal(names)
        for answer in (tables[names], tables.marginal(names)):
            np.testing.assert_allclose(answer, from_records, rtol=1e-14)
            assert answer.names == names
            assert answer.total == from_records.total


def test_one_variable_of_complete_records_agrees_with_the_records():
    records = make_records(observed=1.0)
    for order in (2, 3):
        tables = Tables.count(records, order)
        for name in SCHEMA.names:
            np.testing.assert_allclose(tables.marginal(name), records.marginal(name), rtol=1e-12)
            assert tables.marginal(name).total == 200
    np.testing.assert_allclose(tables.marginal(["stars", "age"]), records.marginal(["stars", "age"]), rtol=1e-12)


def test_one_variable_is_pooled_by_totals():
    sets = [[0, 1], [0, 2]]
    schema = Schema(tuple(Variable(name, (0, 1)) for name in "abc"))
    tables = Tables(schema, sets, [9, 0, 0, 1, 0, 20, 10, 0])
    np.testing.assert_allclose(tables.marginal("a"), [29 / 40, 11 / 40])
    assert tables.marginal("a").total == 30


def test_tables_without_counts_are_left_out():
    records = Records({"a": [0, 1, None], "b": [0, None, 1], "c": [None, 1, None]})
    tables = Tables.count(records)
    assert tables.names == tables.pairs == (("a", "b"), ("a", "c"))
    assert ("b", "a") in tables
    assert ("b", "c") not in tables
    assert ("b", "unknown") not in tables
    assert [table.names for table in tables] == [("a", "b"), ("a", "c")]
    with pytest.raises(UnknownNameError, match=r"'b' × 'c'; 'b' .* 'a'; 'c' .* 'a'"):
        tables["b", "c"]
    with pytest.raises(UnknownNameError, match="no table has 'a' × 'b' × 'c'"):
        tables.marginal(["a", "b", "c"])


def test_records_that_show_nothing_give_no_tables():
    schema = Schema((Variable("a", (0, 1)), Variable("b", (0, 1))))
    for records in (Records({"a": [None, None]}, schema=schema), Records({"a": []}, schema=schema)):
        tables = Tables.count(records)
        assert len(tables) == 0
        assert repr(tables) == "<Tables: no pairs of 2 variables>"
        assert tables.components() == (("a",), ("b",))
        assert tables.as_records().n_records == 0
        with pytest.raises(UnknownNameError, match="no table has 'a'"):
            tables.marginal("a")
    assert len(Tables.count(Records({"a": [0, 1]}))) == 0


def test_arrays_cannot_be_written_to():
    tables = make_tables()
    for array in (tables.flat, tables.sets, tables.starts, tables.totals, tables.weights, tables.array(0)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        tables.flat = np.zeros(1)


def test_the_caller_may_go_on_writing_to_an_array_that_was_given():
    flat = np.ones(4)
    tables = Tables(Schema((Variable("a", (0, 1)), Variable("b", (0, 1)))), [[0, 1]], flat)
    flat[0] = 5
    assert tables.flat[0] == 1


@examples(30)
@given(seeds=st.lists(st.integers(0, 1000), min_size=3, max_size=3), data=st.data())
def test_tables_are_a_commutative_monoid(seeds, data):
    parts = []
    for seed in seeds:
        names = data.draw(st.permutations(SCHEMA.names))[: data.draw(st.integers(2, 4))]
        parts.append(make_tables(seed, n_records=8, schema=SCHEMA.subset(names), observed=0.5))
    a, b, c = parts
    assert (a + b) + c == a + (b + c)
    assert b + a == (a + b).subset((b + a).schema.names)
    nothing = Tables(a.schema, np.zeros((0, 2), dtype=int), np.zeros(0))
    assert a + nothing == nothing + a == a
    assert sum([a, b, c]) == a + b + c


@pytest.mark.parametrize("order", [2, 3])
def test_tables_of_shards_add_up_to_tables_of_all(order):
    records = make_records(n_records=90)
    edges = [0, 10, 55, 90]
    parts = [
        Tables.count(Records.from_cells(SCHEMA, records.pointers[a : b + 1], records.cells), order)
        for a, b in pairwise(edges)
    ]
    assert sum(parts) == Tables.count(records, order)


def test_tables_that_differ_do_not_add():
    tables = make_tables()
    with pytest.raises(DataError, match=r"tables of 2 .* 3 "):
        tables + Tables.count(make_records(), 3)
    text = Schema((Variable("vote", ("no", "yes")), Variable("stars", ("1", "2"))))
    with pytest.raises(DataError, match=r"'stars' .*int 1 .*text '1'"):
        tables + make_tables(schema=text)
    valued = Schema((Variable("vote", ("no", "yes"), (0, 1)), Variable("age", ("young", "middle", "old"))))
    with pytest.raises(DataError, match="'vote' has the values"):
        tables + make_tables(schema=valued)
    with pytest.raises(TypeError):
        tables + 3
    with pytest.raises(TypeError):
        3 + tables


def test_subset_and_select():
    tables = make_tables()
    part = tables.subset(["stars", "age"])
    assert part.schema.names == ("stars", "age")
    np.testing.assert_array_equal(part.array(0), tables.array(tables.names.index(("age", "stars"))).T)
    chosen = tables.select([("vote", "age"), ("stars", "region")])
    assert chosen.names == (("age", "vote"), ("stars", "region"))
    assert chosen.schema == SCHEMA
    np.testing.assert_array_equal(chosen["stars", "region"], tables["stars", "region"])
    assert not chosen.is_connected
    assert chosen.components() == (("age", "vote"), ("stars", "region"))
    assert tables.is_connected
    with pytest.raises(UnknownNameError, match="'age' × 'stars'"):
        chosen.select([("age", "stars")])
    with pytest.raises(UnknownNameError, match="did you mean 'vote'"):
        tables.subset(["age", "vot"])


def test_triples_connect_all_three():
    triples = Tables.count(make_records(), 3).select([("age", "stars", "region")])
    assert triples.components() == (("age", "stars", "region"), ("vote",))


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("pair_weights", ["counts", "equal"])
def test_records_of_tables_have_the_same_tables(order, pair_weights):
    counted = Tables.count(make_records(n_records=60), order)
    tables = Tables(counted.schema, counted.sets, counted.flat, counted.totals * 2 + 1)
    records = tables.as_records(pair_weights)
    assert records.n_records == np.count_nonzero(tables.flat)
    assert records.cells.dtype == np.uint8
    assert (np.diff(records.pointers) == order).all()
    assert (np.diff(records.cells.reshape(-1, order).astype(int), axis=1) > 0).all()
    again = Tables.count(records, order)
    expected = tables.weights if pair_weights == "counts" else np.full(len(tables), tables.weights.mean())
    np.testing.assert_allclose(again.totals, expected)
    for index in range(len(tables)):
        np.testing.assert_allclose(
            again.array(index) / again.totals[index], tables.array(index) / tables.totals[index], atol=1e-15
        )
    with pytest.raises(UnknownNameError, match=r"'equl'; did you mean 'equal'"):
        tables.as_records("equl")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_is_read_back(library):
    tables = make_tables()
    frame = tables.to_frame(library)
    again = Tables.from_crosstabs(frame)
    assert again == tables
    assert Tables.from_crosstabs(frame, schema=SCHEMA) == tables
    heavier = Tables(tables.schema, tables.sets, tables.flat, tables.weights * 1.5)
    assert Tables.from_crosstabs(heavier.to_frame(library)) == heavier
    assert list(Tables.count(make_records(), 3).to_frame().columns)[4:] == ["layer_variable", "layer_category", "value"]


@pytest.mark.parametrize("order", [2, 3])
def test_a_file_is_read_back_and_written_again_to_the_byte(tmp_path, order):
    tables = Tables.count(make_records(), order)
    noted = Tables(
        tables.schema, tables.sets, tables.flat, tables.totals / 3, ("age × vote has no total", "twice", "twice")
    )
    noted.save(tmp_path / "one")
    again = Tables.load(tmp_path / "one")
    assert again == noted
    assert again.notes == ("age × vote has no total", "twice")
    again.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("change", ["flat", "sets", "weights", "nan", "schema"])
def test_a_damaged_file_is_an_error(tmp_path, change):
    make_tables().save(tmp_path / "file")
    header, arrays = read_container(tmp_path / "file")
    if change == "schema":
        header["schema"][0]["categories"].append("extra")
    elif change == "nan":
        arrays["flat"] = np.where(np.arange(len(arrays["flat"])) == 3, np.nan, arrays["flat"])
    elif change == "sets":
        arrays["sets"] = arrays["sets"][::-1]
    else:
        arrays[change] = arrays[change][:-1]
    header = {key: value for key, value in header.items() if key not in ("format", "version", "kind")}
    write_container(tmp_path / "file", "tables", header, arrays)
    with pytest.raises(FileFormatError, match="file' is not a valid tables file"):
        Tables.load(tmp_path / "file")
    write_container(tmp_path / "model", "model", header, arrays)
    with pytest.raises(FileFormatError, match="holds 'model', not 'tables'"):
        Tables.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("sets", "flat", "weights", "message"),
    [
        ([[0, 1]], [1, 2, 3, 4, 5, -6], None, "'age' = 'old', 'vote' = 'yes' .*-6"),
        ([[0, 1]], [1, np.nan, 3, 4, 5, 6], None, "'age' = 'young', 'vote' = 'yes' .*nan"),
        ([[0, 1]], [1, 2, 3, 4, 5, np.inf], None, "inf$"),
        ([[0, 1]], [1, 2, 3], None, r"6 cells .*\(3,\)"),
        ([[1, 0]], [1, 2, 3, 4, 5, 6], None, "ascend"),
        ([[0, 1], [0, 1]], np.ones(12), None, "lexicographic order"),
        ([[0, 9]], np.ones(12), None, "0 to 9"),
        ([0, 1], np.ones(12), None, r"shape \(n_tables, 2\)"),
        ([[0, 1.5]], np.ones(6), None, "got float64"),
        ([[0, 1]], np.ones(6), [1, 2], r"weights .*\(2,\)"),
        ([[0, 1]], np.ones(6), [0], "weight .*'age' × 'vote'"),
    ],
)
def test_bad_tables_are_errors(sets, flat, weights, message):
    with pytest.raises(DataError, match=message):
        Tables(SCHEMA, sets, flat, weights)


@pytest.mark.parametrize(
    ("empty", "message"),
    [
        ([[0, 1, 2]], r"empty must have the shape \(n_tables, 2\)"),
        ([[0, 9]], "empty must be positions .*0 to 9"),
        ([[0, 1.5]], "empty .*got float64"),
        (np.array([[1, 0]], dtype=np.uint64), "empty must ascend"),
    ],
)
def test_bad_sets_without_a_record_are_errors(empty, message):
    with pytest.raises(DataError, match=message):
        Tables(SCHEMA, [[0, 1]], np.ones(6), empty=empty)


def test_bad_questions_are_errors():
    tables = make_tables()
    with pytest.raises(DataError, match=r"order .*got 4"):
        Tables.count(make_records(), 4)
    with pytest.raises(UnknownNameError, match="no variable 'vot'; did you mean 'vote'"):
        tables["age", "vot"]
    with pytest.raises(DataError, match="'age'"):
        tables.marginal(["age", "age"])
    with pytest.raises(TwowayError, match="at least one variable"):
        tables.marginal([])


def test_counts_beyond_memory_are_refused_before_anything_is_counted(monkeypatch):
    monkeypatch.setattr(counting, "MAX_BYTES", 2**8)
    with pytest.raises(DataError, match="37 cells"):
        make_tables()
    sizes = [2, 3, 5, 1, 4]
    assert counting.count_cells(sizes, 3) == sum(
        sizes[i] * sizes[j] * sizes[k] for i in range(5) for j in range(i) for k in range(j)
    )


def test_repr_is_one_line():
    assert repr(make_tables(observed=1.0)) == "<Tables: 6 pairs of 4 variables, total 200>"
    tables = make_tables()
    low, high = f"{tables.totals.min():g}", f"{tables.totals.max():g}"
    assert repr(tables) == f"<Tables: 6 pairs of 4 variables, totals {low} to {high}>"
    noted = Tables(SCHEMA, [[0, 1, 2]], np.ones(18), notes=("something",))
    assert repr(noted) == "<Tables: 1 triple of 4 variables, total 18, 1 note>"
    assert tables != 3


THREE = Schema((Variable("vote", ("no", "yes")), Variable("XXage", ("Xa", "b")), Variable("stars", (1, 2, 3))))


def sparse_tables(**options):
    columns = {"vote": ["no", "yes", "yes", None], "XXage": ["Xa", "b", None, "b"], "stars": [None, None, 3, None]}
    return Tables.count(Records(columns, schema=THREE), **options)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["stars"], "^no table has 'stars'; tables of 2 variables: 'vote × XXage'$"),
        (["vote", "stars"], "^no table has 'vote' × 'stars'; 'vote' .* 'XXage'; 'stars' [^']*none$"),
        (
            ["vote", "XXage", "stars"],
            "^no table has 'vote' × 'XXage' × 'stars'; 'vote' .* 'XXage'; 'XXage' .* 'vote'; 'stars' .*none; "
            "tables of 2 variables: 'vote × XXage'$",
        ),
    ],
)
def test_the_error_for_an_unknown_table_lists_those_that_exist(names, message):
    one = sparse_tables().select([("vote", "XXage")])
    with pytest.raises(UnknownNameError, match=message):
        one.marginal(names)
    with pytest.raises(UnknownNameError, match=r"^no table has 'vote'; tables of 2 variables: none$"):
        one.select([]).marginal("vote")


def test_chosen_tables_keep_their_weights_and_notes():
    whole = sparse_tables()
    marked = Tables(whole.schema, whole.sets, whole.flat, whole.weights * 2, ("first", "second"))
    kept = marked.select([("XXage", "vote")])
    assert kept.weights.tolist() == (2 * whole.weights[:1]).tolist()
    assert kept.notes == ("first", "second")
    assert repr(kept).endswith(", 2 notes>")
    assert repr(Tables(whole.schema, whole.sets, whole.flat, None, ("one",))).endswith(", 1 note>")


def test_a_table_of_one_weighs_its_own_mean():
    one = sparse_tables().select([("vote", "XXage")])
    np.testing.assert_allclose(one.as_records("equal").weights, one.as_records("counts").weights)


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
    write_container(tmp_path / "x.tables", "tables", {"schema": THREE.to_dict(), "notes": []}, {})
    with pytest.raises(FileFormatError, match=r"x\.tables' .*'sets'"):
        Tables.load(tmp_path / "x.tables")


def test_only_missing_categories_are_noted():
    one = Tables.count(Records({"a": ["x", "y"], "b": ["p", "q"], "c": [1, 2]}))
    two = Tables.count(Records({"a": ["x", "z"], "b": ["p", "q"], "d": [1, 2]}))
    (note,) = (one + two).notes
    assert "lack categories of 'a'" in note


def test_a_bad_count_is_named_at_its_place():
    """The first cell of the second table, which begins where the first one ends."""
    flat = np.ones(10)
    flat[4] = -1.0
    with pytest.raises(DataError, match=r"'vote' = 'no', 'stars' = 1 .*-1\.0$"):
        Tables(THREE, np.array([[0, 1], [0, 2]]), flat)


def test_a_bad_weight_is_named():
    with pytest.raises(DataError, match=r"-2\.0"):
        Tables(THREE, np.array([[0, 1], [0, 2]]), np.ones(10), np.array([0.5, -2.0]))


SHARES = np.array([[0.125, 0.25], [0.25, 0.375]])


@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_shares_are_no_counts(factor):
    """Of one or of a hundred: they count as a usual number of records, with a note, and give the same model."""
    schema = Schema((Variable("a", "xy"), Variable("b", "xy"), Variable("c", "xy")))
    sets = np.array([[0, 1], [0, 2], [1, 2]])
    tables = Tables(schema, sets, np.tile(SHARES.ravel(), 3) * factor)
    assert tables.lacks_totals
    assert tables.notes == ("3 tables of shares have no total; counted as 1000 records",)
    assert tables.weights.tolist() == [1000.0] * 3
    assert (tables + tables).lacks_totals
    model = tw.fit(tables)
    np.testing.assert_allclose(model.marginal(["b", "c"]), SHARES, atol=0.02)
    assert model.counts.lacks_totals
    assert np.isnan(tw.observed(model, "P(a | b)").records).all()


@pytest.mark.parametrize("counts", [[[12, 25], [50, 13]], [[1, 0], [0, 0]], [[120.5, 80], [10, 7]]])
def test_counts_are_counts(counts):
    schema = Schema((Variable("a", "xy"), Variable("b", "xy")))
    tables = Tables(schema, np.array([[0, 1]]), np.ravel(counts).astype(float))
    assert not tables.lacks_totals
    assert tables.weights.tolist() == [np.sum(counts)]


def test_percentages_that_were_called_counts_are_no_counts():
    percentages = pd.DataFrame([[12.3, 25.1], [49.9, 12.6]], index=["x", "y"], columns=["u", "v"])
    tables = Tables.from_crosstabs({("a", "b"): percentages})
    assert tables.notes == ("a × b has no total; counted as 1000 records",)
    assert Tables.from_crosstabs({("a", "b"): percentages}, totals=400).weights.tolist() == [400]


def test_bases_follow_their_tables(tmp_path):
    frame = pd.DataFrame({"a": list("xyzx") * 30, "b": list("uv") * 60, "c": list("pqr") * 40})
    weights = np.random.default_rng(0).lognormal(0, 1, 120)
    counted = tw.count(tw.Records(frame, weights=weights))
    first, second = (tw.Records(frame[rows], weights=weights[rows]) for rows in (slice(1), slice(1, None)))
    parts = tw.count(first) + tw.count(second)  # the first has one category of each
    assert parts.schema == counted.schema
    np.testing.assert_allclose(parts.bases, counted.bases, rtol=1e-12)
    turned = counted.subset(["c", "a"])
    table = pd.crosstab(frame["c"], frame["a"])
    np.testing.assert_array_equal(turned.bases[0].reshape(3, 3), table)
    squares = pd.crosstab(frame["c"], frame["a"], weights**2, aggfunc="sum")
    np.testing.assert_allclose(turned.bases[1].reshape(3, 3), squares.fillna(0), rtol=1e-9)
    assert counted.select([("b", "c")]).bases.shape == (2, 6)
    # Records without weights are people; of published tables with a weight of their own, nobody knows.
    both = counted + tw.count(frame)
    np.testing.assert_array_equal(both.bases[0], 2 * counted.bases[0])
    assert both.n_records.tolist() == [240] * 3
    odd = tw.Tables(counted.schema, counted.sets, counted.flat, counted.weights)
    assert (counted + odd).bases is None
    # Noise hides records: nothing exact is left.
    noisy = counted.with_noise(1.0, 1e-6, max_weight=50, public_schema=True, seed=0)
    assert noisy.bases is (noisy + counted).bases is None
    with pytest.raises(DataError, match="bases"):
        tw.Tables(counted.schema, counted.sets, counted.flat, bases=counted.bases[:, 1:])
