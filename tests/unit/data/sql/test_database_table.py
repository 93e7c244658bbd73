"""Tables counted inside a database: exactly as in memory, and no row leaves."""

import datetime
import re
import sqlite3
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres_server import postgres  # noqa: F401  # a fixture
from strategies import examples

import twoway as tw
from twoway.cli import run
from twoway.data.sql.grouping import _covering_groups, _group_parts
from twoway.errors import DatabaseError, DataError, UnknownNameError
from twoway.tables.counting_inside import count_inside

ibis = pytest.importorskip("ibis", reason='databases need ibis: pip install "twoway[sql]"')

HOSTILE = 'x"; DROP TABLE survey; --'


def survey(n=300, seed=0):
    rng = np.random.default_rng(seed)

    def column(*labels):
        known = [*labels, None]
        return [known[place] for place in rng.integers(0, len(known), n)]

    return pa.table(
        {
            "n": column("x'; DROP TABLE survey; --", 'say "hi"', "NA", " ? ", "zoë 😀", "a%sb"),
            "c0": pa.array(column(1, 2, 10), pa.int64()),
            HOSTILE: column(0.5, 1.0, 2.25),
            "w": rng.random(n) * 3,
            "select": column(True, False),
            "dag ünd": column(datetime.date(2020, 1, 1), datetime.date(2021, 5, 5)),
            "band": column("5-9", "10-14", ""),
        }
    )


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def database(request, connect):
    if request.param == "postgres":
        backend = connect(request.getfixturevalue("postgres").address())
        yield backend
        for name in backend.list_tables():
            backend.drop_table(name)
    else:
        yield connect(f"{request.param}://")


def same(table, order=2, *, records=None, **options):
    """Assert that a table gives the same counts inside its database, streamed and in memory; return them."""
    in_memory = tw.count(tw.Records(table.to_pyarrow(), **(options if records is None else records)), order)
    for inside in (True, False):
        counted = tw.count(tw.DatabaseTable(table, inside=inside, **options), order)
        assert counted.schema.difference(in_memory.schema) == ""
        assert counted == in_memory
    return counted


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("weights", [None, "w"])
def test_the_same_as_in_memory(database, order, weights):
    table = database.create_table("survey", survey())
    columns = [name for name in table.columns if weights or name != "w"]
    tables = same(table, order, columns=columns, weights=weights)
    assert len(tables) == (15 if order == 2 else 20)
    assert tables.schema["n"].categories == ("a%sb", 'say "hi"', "x'; DROP TABLE survey; --", "zoë 😀")
    assert tables.schema[HOSTILE].categories == (0.5, 1, 2.25)
    assert tables.schema["select"].categories == (False, True)
    assert tables.schema["band"].categories == ("5-9", "10-14")
    assert len(survey()) == database.table("survey").count().to_pyarrow().as_py()


def test_where(database):
    table = database.create_table("survey", survey().drop_columns([HOSTILE, "w"]))
    kept = survey().drop_columns([HOSTILE, "w"]).to_pylist()
    mask = np.array([row["c0"] is not None and row["c0"] > 1 and row["band"] != "it's" for row in kept])
    mask &= np.array([row["band"] is not None for row in kept])
    by_text = tw.count(tw.DatabaseTable(table, where="c0 > 1 AND band <> 'it''s'"))
    by_ibis = tw.count(tw.DatabaseTable(table, where=(table.c0 > 1) & (table.band != "it's")))
    filtered = tw.count(table.filter(table.c0 > 1, table.band != "it's"))
    in_memory = tw.count(tw.Records(table.to_pyarrow(), where=mask))
    assert by_text == by_ibis == filtered == in_memory
    assert by_text.totals.max() < mask.sum() + 1


@pytest.mark.parametrize("text", ["c0 > 1; DROP TABLE survey", "1=1) OR (1=1", "DELETE FROM survey", "c0 >", ""])
def test_where_is_one_condition(connect, text):
    database = connect("duckdb://")
    table = database.create_table("survey", survey())
    with pytest.raises(DataError, match="where must be one condition"):
        tw.count(tw.DatabaseTable(table, where=text))


def test_labels_given_as_missing_that_no_row_has_are_warned_of(connect):
    table = connect("duckdb://").create_table("t", pa.table({"a": ["x", "refused"], "b": [1, -9]}))
    with pytest.warns(UserWarning, match="no cell has 'refusd', given as missing; did you mean 'refused'") as caught:
        tw.count(tw.DatabaseTable(table, missing=["refusd", -9]))
    assert [warning.filename for warning in caught] == [__file__]


def test_a_schema_missing_markers_and_unseen_labels(database):
    table = database.create_table("t", pa.table({"a": ["x", "y", "-9", None], "b": [1, 2, 2, 1]}))
    schema = tw.Schema((tw.Variable("b", (2, 1)), tw.Variable("a", ("x", "z", "y")), tw.Variable("c", ("no",))))
    counted = same(table, schema=schema, missing=["-9"])
    assert counted.totals.tolist() == [2.0]
    with pytest.raises(UnknownNameError, match=r"no category '-9' of 'a'; .* unseen='missing'") as raised:
        tw.count(tw.DatabaseTable(table, schema=schema, inside=True))
    assert "record" not in str(raised.value)
    assert same(table, schema=schema, unseen="missing") == counted
    with pytest.raises(DataError, match="no column for 'd'"):
        tw.count(tw.DatabaseTable(table, schema=tw.Schema((tw.Variable("b", (1, 2)), tw.Variable("d", ("x",))))))


def test_columns_of_one_category_or_one_column(database):
    table = database.create_table("t", pa.table({"a": ["x", "x", None], "b": ["y", None, None]}))
    assert same(table).totals.tolist() == [1.0]
    one = tw.DatabaseTable(table, columns=["a"])
    tables, n_records = count_inside(one)
    assert (len(tables), n_records, tables.schema.names) == (0, 3, ("a",))


def test_nothing_observed(database):
    table = database.create_table("t", pa.table({"a": ["x", "NA"], "b": pa.array([None, "?"], pa.string())}))
    with pytest.raises(DataError, match="column 'b' has no observed cell"):
        tw.count(table)
    with pytest.raises(DataError, match="column 'a' has no observed cell in 0 records"):
        tw.count(tw.DatabaseTable(table, where="a = 'nobody'"))


@pytest.mark.parametrize(
    ("weights", "told"),
    [([1.0, None], "has NULL in 1 row$"), ([1.0, -2.0], "has -2.0 to 1.0"), ([0.0, 0.0], "are all zero")],
)
def test_weights_that_are_none(database, weights, told):
    table = database.create_table("t", pa.table({"a": ["x", "y"], "w": pa.array(weights, pa.float64())}))
    with pytest.raises(DataError, match=told):
        tw.count(tw.DatabaseTable(table, weights="w", inside=True))
    with pytest.raises(DataError, match="weights"):
        tw.count(tw.DatabaseTable(table, weights="w"))


@pytest.mark.parametrize("given", [{"counts": "n"}, {"weights": "w"}, {"counts": "n", "weights": "w"}])
def test_counts_and_weights(database, given):
    random = np.random.default_rng(0)
    columns = {"a": random.choice(["x", "y"], 200), "b": random.choice(["p", "q", "NA"], 200)}
    columns |= {"n": random.integers(0, 4, 200), "w": random.lognormal(0, 0.7, 200)}
    rows = pa.table(columns).select(["a", "b", *given.values()])
    table = database.create_table("t", rows)
    inside, here = tw.count(tw.DatabaseTable(table, **given)), tw.count(tw.Records(rows, **given))
    assert inside == here
    assert (inside.weights < inside.totals).all() == ("weights" in given)


@pytest.mark.parametrize("numbers", [[1.0, 0.5], [1.0, -2.0], [1.0, 1e17]])
def test_counts_that_are_none(database, numbers):
    table = database.create_table("t", pa.table({"a": ["x", "y"], "n": pa.array(numbers, pa.float64())}))
    with pytest.raises(DataError, match="counts must be whole numbers"):
        tw.count(tw.DatabaseTable(table, counts="n"))


@pytest.mark.parametrize("weights", [[1.0, 1e-200], [1.0, 1e200]])
def test_weights_whose_squares_cannot_be_added(database, weights):
    table = database.create_table("t", pa.table({"a": ["x", "y"], "w": pa.array(weights, pa.float64())}))
    with pytest.raises(DataError, match=r"between 1e-100 and 1e\+100; column 'w'"):
        tw.count(tw.DatabaseTable(table, weights="w", inside=True))


def test_infinite_weights_and_text(connect):
    database = connect("duckdb://")
    table = database.create_table("t", pa.table({"a": ["x", "y"], "w": [1.0, float("inf")]}))
    with pytest.raises(DataError, match="finite and not negative"):
        tw.count(tw.DatabaseTable(table, weights="w", inside=True))
    with pytest.raises(DataError, match="inf"):
        tw.count(tw.DatabaseTable(table, weights="w"))
    with pytest.raises(DataError, match="must be numbers; column 'a' holds string"):
        tw.DatabaseTable(table, weights="a")
    with pytest.raises(UnknownNameError, match="no column 'v' for the weights"):
        tw.DatabaseTable(table, weights="v")
    with pytest.raises(UnknownNameError, match="no column 'A'; did you mean 'a'"):
        tw.DatabaseTable(table, columns=["A"])


def test_columns_of_unsupported_types(connect):
    database = connect("duckdb://")
    table = database.create_table("t", pa.table({"a": [[1], [2]], "b": ["x", "y"]}))
    with pytest.raises(DataError, match="column 'a' holds array<int64>, which is not a category"):
        tw.count(table)
    with pytest.raises(DataError, match="needs an ibis table"):
        tw.DatabaseTable({"a": [1]})
    with pytest.raises(DataError, match="unseen must be"):
        tw.DatabaseTable(table, columns=["b"], unseen="ignore")


def test_an_identifier_does_not_leave(database):
    table = database.create_table("t", pa.table({"id": np.arange(2000), "b": ["x", "y"] * 1000}))
    with pytest.raises(DataError, match="column 'id' has more than 1,000 distinct values"):
        tw.count(table)
    with pytest.raises(DataError, match="column 'b' has more than 1 distinct values"):
        tw.count(tw.DatabaseTable(table, columns=["b"], max_categories=1))
    assert same(table, max_categories=2000, records={}).totals.tolist() == [2000.0]


def test_a_fit_is_one_of_tables(database):
    truth = tw.datasets.dirichlet_rows(4, 3, 2, seed=1)
    records = pa.Table.from_pandas(truth.sample(2000, seed=0))
    table = database.create_table("t", records)
    pmf = tw.fit(tw.DatabaseTable(table, inside=True), rank=2, solver="coupled-nmf")
    expected = tw.fit(tw.count(records), rank=2, solver="coupled-nmf")
    assert tw.total_variation(pmf, expected, ["x1", "x2", "x3"]) < 1e-9
    streamed, read = (tw.fit(source, rank=2, solver="em", starts=1) for source in (table, records))
    assert tw.total_variation(streamed, read, ["x1", "x2", "x3"]) < 1e-9


LABELS = st.sampled_from([None, "", "NA", "a", "A", "b'", '"', "1", " x "])


@settings(examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(LABELS, LABELS, st.sampled_from([None, 0, 1, -3]), st.floats(0.01, 100)), min_size=1))
@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_any_labels(connect, engine, rows):
    database = connect(f"{engine}://")
    types = [pa.string(), pa.string(), pa.int64(), pa.float64()]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    table = database.create_table("t", pa.table(dict(zip("abcw", columns, strict=True))))
    try:
        expected = tw.count(tw.Records(table.to_pyarrow(), weights="w"))
    except DataError as error:
        for inside in (True, False):
            with pytest.raises(DataError, match=re.escape(str(error))):
                tw.count(tw.DatabaseTable(table, weights="w", inside=inside))
    else:
        for inside in (True, False):
            assert tw.count(tw.DatabaseTable(table, weights="w", inside=inside)) == expected


# How many statements, and what comes out


def statements(backend, monkeypatch):
    """Record what is asked of a backend, and how many rows come back."""
    asked = []
    original = backend.to_pyarrow

    def to_pyarrow(expression, **options):
        result = original(expression, **options)
        asked.append((backend.compile(expression), len(result)))
        return result

    monkeypatch.setattr(backend, "to_pyarrow", to_pyarrow)
    return asked


def test_one_scan_with_grouping_sets(connect, monkeypatch):
    database = connect("duckdb://")
    records = pa.table({f"x{place}": np.arange(1000) % (place + 2) for place in range(8)})
    table = database.create_table("t", records)
    asked = statements(database, monkeypatch)
    expected = tw.count(tw.Records(records))
    assert tw.count(tw.DatabaseTable(table, inside=True)) == expected
    assert len(asked) == 2  # the categories, the pairs
    asked.clear()
    assert tw.count(tw.DatabaseTable(table, schema=expected.schema, inside=True)) == expected
    ((statement, n_rows),) = asked
    assert statement.count("FROM") - statement.count("FROM (") == 1
    assert n_rows <= len(expected.flat) + 1 < 1000


def test_the_fewest_scans_without(connect, monkeypatch):
    database = connect("sqlite://")
    records = pa.table({f"x{place}": np.arange(1000) % 3 for place in range(9)})
    table = database.create_table("t", records)
    asked = statements(database, monkeypatch)
    expected = tw.count(tw.Records(records))
    assert tw.count(tw.DatabaseTable(table, schema=expected.schema, inside=True)) == expected
    # Blocks of 4 of the 9 variables, two at a time: 3 scans for 36 pairs.
    assert len(asked) == 3
    assert all(statement.count('FROM "main"."t"') + statement.count('FROM "t"') == 1 for statement, _ in asked)
    plan = database.raw_sql("EXPLAIN QUERY PLAN " + asked[0][0]).fetchall()
    assert sum(str(step[3]).startswith("SCAN t") and not re.match(r"SCAN t\d", str(step[3])) for step in plan) <= 1


def test_groupings_are_split_where_a_database_limits_them(connect, monkeypatch):
    sizes = {f"c{place}": 4 for place in range(100)}
    pairs = list(combinations(sizes, 2))
    parts = list(_group_parts(pairs, sizes))
    assert [len(part) for part in parts] == [2000, 2000, 950]
    assert [pair for part in parts for pair in part] == pairs
    assert len(list(_group_parts(pairs[:100], dict.fromkeys(sizes, 300)))) == 34
    for order in (2, 3):
        covers = _covering_groups(dict(list(sizes.items())[:20]), order)
        held = {some for cover in covers for some in combinations(cover, order)}
        assert held == set(combinations(list(sizes)[:20], order))
    monkeypatch.setattr("twoway.data.sql.grouping._MOST_GROUPING_SETS", 2)
    monkeypatch.setattr("twoway.data.sql.grouping._MOST_QUERIES", 2)
    for database in (connect("duckdb://"), connect("sqlite://")):
        same(database.create_table("t", survey(50)), columns=["n", "c0", "select", "w"], weights="w")


def test_a_table_that_changes_while_it_is_counted(connect, monkeypatch):
    database = connect("duckdb://")
    table = database.create_table("t", pa.table({"a": ["x", "y"], "b": ["u", "v"]}))
    original = database.to_pyarrow

    def to_pyarrow(expression, **options):
        result = original(expression, **options)
        database.con.execute("INSERT INTO t VALUES ('new', 'u')")
        return result

    monkeypatch.setattr(database, "to_pyarrow", to_pyarrow)
    with pytest.raises(DataError, match="the table changed while it was counted"):
        tw.count(tw.DatabaseTable(table, inside=True))


# PostgreSQL alone


def test_not_one_row_leaves_postgres(connect, postgres, tmp_path):  # noqa: F811
    backend = connect(postgres.address())
    backend.create_table("secret", survey())
    before = len(postgres.log())
    wanted = ["--table", "secret", "--only", "w,n,c0,band", "--weights", "w", "--inside"]
    assert run(["count", postgres.address(), *wanted, "-o", str(tmp_path / "t")]) == 0
    sent = re.split(r"(?:statement|execute [^:]*): ", postgres.log()[before:])
    reading = [" ".join(statement.split()) for statement in sent if re.search(r'FROM "(public"\.")?secret"', statement)]
    assert len(reading) == 2, sent  # the categories, the pairs
    assert all("GROUPING SETS" in statement for statement in reading)


def test_no_permission(connect, postgres, tmp_path, capsys):  # noqa: F811
    backend = connect(postgres.address())
    backend.create_table("closed", survey())
    with postgres.connect(autocommit=True) as connection:
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    as_guest = postgres.address("guest", "guest")
    other = connect(as_guest)
    theirs = backend.table("closed")
    unreadable = other.sql('SELECT * FROM "closed"', schema=theirs.schema())
    with pytest.raises(DatabaseError, match="may not read it: permission denied for table closed"):
        tw.count(unreadable)
    for name in ("closed", "public.closed"):
        assert run(["count", as_guest, "--table", name, "-o", str(tmp_path / "t")]) == 4
        err = capsys.readouterr().err
        assert f"may not read the table '{name}'" in err
    assert run(["count", as_guest, "--table", "clsed", "-o", str(tmp_path / "t")]) == 3
    assert "no table 'clsed'" in capsys.readouterr().err
    assert "guest:guest" not in err
    assert not (tmp_path / "t").exists()


def test_a_lost_connection(connect, postgres):  # noqa: F811
    backend = connect(postgres.address())
    table = backend.create_table("lost", survey())
    with postgres.connect(autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [backend.con.info.backend_pid])
    with pytest.raises(DatabaseError, match="the postgres database: no connection, or it was lost: "):
        tw.count(table)


def test_addresses(connect, postgres, tmp_path, capsys):  # noqa: F811
    backend = connect(postgres.address())
    backend.create_table("household", survey().drop_columns(["w"]))
    backend.create_database("archive")
    backend.create_table("old", survey(50, seed=1).drop_columns(["w"]), database="archive")
    out = tmp_path / "t"

    def count(*arguments):
        code = run(["count", *arguments, "-o", str(out), "--force"])
        return code, capsys.readouterr()

    assert count(postgres.address(), "--table", "household")[0] == 0
    assert tw.Tables.load(out) == tw.count(survey().drop_columns(["w"]))
    code, told = count(postgres.address(), "--table", "archive.old", "--drop", "n", "--where", "c0 > 1", "--json")
    assert (code, tw.Tables.load(out).schema["c0"].categories) == (0, (2, 10))
    assert '"records": ' in told.out
    code, told = count(postgres.address(), "--table", "houshold")
    assert code == 3
    assert "no table 'houshold' in postgres://owner:***@" in told.err
    assert "did you mean 'household'?" in told.err
    code, told = count(postgres.address(password="wrong"), "--table", "household")
    assert code == 4
    assert "the user or the password is wrong" in told.err
    assert "wrong@" not in told.err


def test_a_name_that_drivers_could_take_for_a_placeholder(connect, postgres):  # noqa: F811
    backend = connect(postgres.address())
    backend.create_table("percent", pa.table({"a": ["x", "y%s"], "b": [1, 2]}))
    with postgres.connect(autocommit=True) as connection:
        connection.execute('ALTER TABLE percent RENAME COLUMN a TO "100 %s {} $1 \\ ?"')
    counted = same(backend.table("percent"))
    assert counted.schema.names == ("100 %s {} $1 \\ ?", "b")


# The command line on files of databases


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE survey (age TEXT, vote TEXT, "w" REAL)')
        connection.executemany("INSERT INTO survey VALUES (?, ?, ?)", [("a", "y", 1), ("b", "n", 2.5), ("b", None, 1)])
    connection.close()
    return path


def test_counts_of_a_database_add(file, tmp_path, capsys):
    out = tmp_path / "all.tables"
    address = f"sqlite://{file}"
    assert run(["count", address, "--table", "survey", "--weights", "w", "-o", str(out)]) == 0
    assert capsys.readouterr().out.startswith("3 records counted: 1 table of 2 variables")
    assert run(["count", address, "--table", "survey", "--where", "age = 'b'", "--drop", "w", "--add", str(out)]) == 3
    # The tables remember the column of weights.
    assert run(["count", address, "--table", "survey", "--where", "age = 'b'", "--add", str(out)]) == 0
    assert tw.Tables.load(out).totals.tolist() == [6.0]
    some = ["--table", "survey", "--where", "age = 'b'", "--weights", "none"]
    assert run(["count", address, *some, "--add", str(out)]) == 0
    assert tw.Tables.load(out).totals.tolist() == [7.0]
    assert tw.Tables.load(out).n_records.tolist() == [4]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["sqlite://{file}"], 3, "name the table of the database with --table"),
        (["sqlite://{file}", "--table", "survey", "--bins", "w"], 3, "--bins"),
        (["sqlite://{file}", "--table", "survy"], 3, "no table 'survy' in sqlite://"),
        (["sqlite://{file}", "--table", "survey", "--only", "agee"], 3, "no column 'agee'; did you mean 'age'?"),
        (["sqlite://{file}", "--table", "survey", "--where", "nope = 1"], 4, "no such column: nope"),
        (["sqlite://{file}.not", "--table", "survey"], 4, "there is no file"),
        (["nosuch://x", "--table", "survey"], 3, "is not the address of a database"),
        (["{file}.csv", "--table", "survey"], 3, "--table and --inside"),
        (
            ["postgres://ann:secret@127.0.0.1:1/db", "--table", "t"],
            4,
            "postgres://ann:***@127.0.0.1:1/db: no connection",
        ),
        (["postgres://ann@x:secret@127.0.0.1:1/db", "--table", "t"], 4, "postgres://ann@x:***@127.0.0.1:1/db: "),
        (["postgres://ann:se@secret@127.0.0.1:1/db", "--table", "t"], 4, "postgres://ann:***@127.0.0.1:1/db: "),
        (["postgres://ann:[secret@127.0.0.1:1/db", "--table", "t"], 3, "is not the address of a database"),
        (["postgres://127.0.0.1:1/db?password=secret", "--table", "t"], 4, "?password=***: "),
    ],
)
def test_errors(file, tmp_path, capsys, arguments, code, told):
    filled = [argument.format(file=file) for argument in arguments]
    assert run(["count", *filled, "-o", str(tmp_path / "t")]) == code
    err = capsys.readouterr().err
    assert told in err
    assert "secret" not in err
    assert not (tmp_path / "t").exists()
    assert not file.with_name("s.db.not").exists()


def test_no_error_chain_shows_a_password():
    from twoway.data.sql.connections import connected_table

    with (
        pytest.raises(DatabaseError) as raised,
        connected_table("postgres://ann:secret@127.0.0.1:1/db?password=secret", "t"),
    ):
        pass
    assert raised.value.__cause__ is None
    assert "secret" not in str(raised.value)


def test_large_tables_are_read_in_batches(connect, monkeypatch):
    """Labels of later batches get codes of their own, and an identifier is refused before all of it was read."""
    monkeypatch.setattr("twoway.data.sql.database_table._BATCH_ROWS", 7)
    records = pa.table({"a": [f"label {n // 3}" for n in range(100)], "b": [None, 1, 2, None] * 25})
    table = connect("duckdb://").create_table("t", records)
    assert tw.count(table) == tw.count(records)
    with pytest.raises(DataError, match="column 'a' has more than 20"):
        tw.count(tw.DatabaseTable(table, max_categories=20))


def test_without_the_extra(monkeypatch, file):
    monkeypatch.setitem(__import__("sys").modules, "ibis", None)
    from twoway.data.sql.connections import connected_table

    missing = pytest.raises(DataError, match=re.escape('pip install "twoway[sql]"'))
    with missing, connected_table(f"sqlite://{file}", "survey"):
        pass
