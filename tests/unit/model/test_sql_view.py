"""A model as a database view: scores and completed rows equal the library's."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from postgres_server import postgres  # noqa: F401  # a fixture
from random_models import random_pmf

import twoway as tw
from twoway.cli import run
from twoway.errors import DataError, UnknownNameError
from twoway.model.sql_view import sql_view

pytest.importorskip("ibis", reason='databases need ibis: pip install "twoway[sql]"')

DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 5, 5)]
SCHEMA = tw.Schema(
    (
        tw.Variable("x'; DROP TABLE t; --", ("it's", '"quoted"', "zoë 😀", "'; DROP TABLE t; --")),
        tw.Variable('size "in" m', (-1, 0.5, 1000)),
        tw.Variable("select", (False, True)),
        tw.Variable("day", tuple(str(day) for day in DAYS)),
        tw.Variable("constant", ("NA",)),
    )
)


def rows_of(schema, n, seed=0):
    """Return rows with holes, some of them written as markers, dates as dates, and a key."""
    rng = np.random.default_rng(seed)
    columns = {"id": pa.array(range(n))}
    for variable in schema:
        labels = [*(DAYS if variable.name == "day" else variable.categories), None]
        cells = [labels[code] for code in rng.integers(0, len(labels), n)]
        is_text = isinstance(labels[0], str)
        columns[variable.name] = pa.array(
            [" ? " if cell is None and is_text and rng.random() < 0.5 else cell for cell in cells]
        )
    return pa.table(columns)


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def database(request, connect):
    if request.param == "postgres":
        backend = connect(request.getfixturevalue("postgres").address())
        yield backend
        with backend.con.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS t CASCADE")
    else:
        yield connect(f"{request.param}://")


def ask(database, pmf, what, **options):
    """Make a view of the table t and return its rows, in the order of their key."""
    statement = sql_view(pmf, "t", what=what, dialect=database.name, keep=["id"], view="v", **options)
    connection = database.con
    connection.execute("DROP VIEW IF EXISTS v")
    connection.execute(statement)
    return connection.execute("SELECT * FROM v ORDER BY id").fetchall()


@pytest.mark.parametrize("rank", [1, 4])
def test_scores_and_completed_rows(database, rank):
    pmf = random_pmf(SCHEMA, rank)
    rows = rows_of(SCHEMA, 200)
    database.create_table("t", rows)
    shown = rows.drop_columns(["id"])
    scores = [row[-1] for row in ask(database, pmf, "score")]
    np.testing.assert_allclose(scores, pmf.log_prob(shown), rtol=0, atol=1e-9)
    completed = ask(database, pmf, "impute")
    assert [row[0] for row in completed] == list(range(200))
    expected = tw.Records(pmf.impute(shown), schema=SCHEMA)
    found = tw.Records(
        {name: [row[place] for row in completed] for place, name in enumerate(SCHEMA.names, 1)}
        | ({"select": [bool(row[3]) for row in completed]} if database.name == "sqlite" else {}),
        schema=SCHEMA,
    )
    np.testing.assert_array_equal(found.codes(), expected.codes())
    assert (found.codes() >= 0).all()


@pytest.mark.slow
def test_many_variables_do_not_underflow(database):
    n = 120
    schema = tw.Schema(tuple(tw.Variable(f"x{place}", ("a", "b")) for place in range(n)))
    rare = np.array([[1e-3, 2e-3], [1 - 1e-3, 1 - 2e-3]])
    pmf = tw.JointPMF(np.array([0.75, 0.25]), [rare] * n, schema)
    rows = pa.table({"id": [0, 1, 2]} | {f"x{place}": ["a", "b", None if place % 2 else "a"] for place in range(n)})
    database.create_table("t", rows)
    scores = np.array([row[-1] for row in ask(database, pmf, "score")])
    expected = pmf.log_prob(rows.drop_columns(["id"]))
    assert expected[0] < -740  # far below what exp can give
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_what_the_model_does_not_know_and_what_it_calls_impossible(database):
    schema = tw.Schema((tw.Variable("a", ("x", "y")), tw.Variable("b", ("u", "v"))))
    never = np.array([[1.0, 1.0], [0.0, 0.0]])
    pmf = tw.JointPMF(np.array([0.5, 0.5]), [never, np.array([[0.9, 0.2], [0.1, 0.8]])], schema)
    rows = pa.table({"id": [0, 1, 2, 3], "a": ["x", "z", "y", None], "b": ["u", None, None, None]})
    database.create_table("t", rows)
    scores = [row[-1] for row in ask(database, pmf, "score")]
    assert scores[0] == pytest.approx(np.log(0.55))
    assert scores[1:] == [None, -np.inf, 0.0]
    completed = [tuple(row[1:]) for row in ask(database, pmf, "impute")]
    assert completed == [("x", "u"), ("z", "u"), ("y", None), ("x", "u")]
    # Another word for a hole.
    assert ask(database, pmf, "score", missing=["z"])[1][-1] == pytest.approx(0.0)


def test_more_categories_than_allowed_columns(database, monkeypatch):
    monkeypatch.setattr("twoway.model.sql_view._MOST_COLUMNS", 25)
    pmf = random_pmf(SCHEMA, 3)
    rows = rows_of(SCHEMA, 20)
    database.create_table("t", rows)
    completed = ask(database, pmf, "impute")
    expected = pmf.impute(rows.drop_columns(["id"])).to_pylist()
    assert [str(row[1]) for row in completed] == [str(row[SCHEMA.names[0]]) for row in expected]
    assert [float(row[2]) for row in completed] == [float(row[SCHEMA.names[1]]) for row in expected]
    monkeypatch.setattr("twoway.model.sql_view._MOST_COLUMNS", 10)
    with pytest.raises(DataError, match="columns"):
        sql_view(pmf, "t")


def test_other_dialects_parse():
    import sqlglot

    pmf = random_pmf(SCHEMA, 2)
    for dialect in ("snowflake", "bigquery", "spark"):
        for what in ("score", "impute"):
            statement = sql_view(pmf, "place.t", what=what, dialect=dialect)
            assert len(sqlglot.parse(statement.rstrip(";\n"), dialect=dialect)) == 1


def test_errors():
    pmf = random_pmf(SCHEMA, 2)
    with pytest.raises(UnknownNameError, match="no dialect 'postgre'; did you mean 'postgres'"):
        sql_view(pmf, "t", dialect="postgre")
    with pytest.raises(UnknownNameError, match="no view 'fill'"):
        sql_view(pmf, "t", what="fill")
    with pytest.raises(DataError, match="'select'"):
        sql_view(pmf, "t", keep=["select"])
    mixed = random_pmf(tw.Schema((tw.Variable("a", (1, "x")),)), 1)
    with pytest.raises(DataError, match=r"'a' .*\(number, text\)"):
        sql_view(mixed, "t")


def test_the_command(tmp_path, capsys):
    model, out = tmp_path / "m.twoway", tmp_path / "v.sql"
    pmf = random_pmf(SCHEMA, 2)
    pmf.save(model)
    command = ["export", str(model), "--sql", "--table", "t", "--keep", "id", "--dialect", "duckdb"]
    assert run([*command, "-o", str(out)]) == 0
    assert "a view for duckdb" in capsys.readouterr().out
    assert out.read_text(encoding="utf-8") == sql_view(pmf, "t", keep=["id"], dialect="duckdb")
    assert run([*command, "-o", str(out)]) == 4  # it is there
    assert run([*command, "--what", "impute"]) == 0
    assert 'CREATE VIEW "t_imputed" AS' in capsys.readouterr().out
    assert run(["export", str(model), "--table", "t"]) == 2
    binned = tw.Schema((tw.Variable("income", ("below 3", "3 or more"), edges=(3,)), tw.Variable("a", ("x", "y"))))
    random_pmf(binned, 2).save(model)
    assert run(["export", str(model), "--sql", "--table", "t"]) == 3
    assert "cannot be exported: 'income'" in capsys.readouterr().err
