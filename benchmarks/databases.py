"""Compare reading the columns of a database table and counting in twoway with counting in the database.

    python benchmarks/databases.py            # 200,000 records
    python benchmarks/databases.py --quick    # 20,000

Prints a Markdown table. PostgreSQL runs on loopback, as in the tests, so reading has no network cost;
without a server its row is left out.
"""

import io
import sys
import time
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv

import twoway as tw

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "engines"))
N_VARIABLES, N_CATEGORIES, REPEATS = 20, 5, 2


def records(n):
    rng = np.random.default_rng(0)
    labels = pa.array([f"label {code}" for code in range(N_CATEGORIES)])
    codes = rng.integers(0, N_CATEGORIES, (n, N_VARIABLES))
    holes = rng.random((n, N_VARIABLES)) < 0.2
    return pa.table({f"x{j}": labels.take(pa.array(codes[:, j], mask=holes[:, j])) for j in range(N_VARIABLES)})


def best(work):
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


def load_postgres(server, rows):
    text = io.BytesIO()
    pyarrow.csv.write_csv(rows, text)
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t ({', '.join(f'x{j} text' for j in range(N_VARIABLES))})")
        with cursor.copy("COPY t FROM STDIN (FORMAT csv, HEADER)") as copy:
            copy.write(text.getvalue())
        cursor.execute("VACUUM ANALYZE t")
    return ibis.connect(server.address()).table("t")


@contextmanager
def closing_backend(table):
    try:
        yield
    finally:
        table.get_backend().disconnect()


def main():
    warnings.simplefilter("ignore")
    n = 20_000 if "--quick" in sys.argv else 200_000
    rows = records(n)
    expected = tw.count(rows)
    with ExitStack() as stack:
        tables = {name: getattr(ibis, name).connect().create_table("t", rows) for name in ("duckdb", "sqlite")}
        try:
            import pytest
            from postgres_server import run_server

            tables["postgres"] = load_postgres(stack.enter_context(run_server()), rows)
        except pytest.skip.Exception as reason:
            print(f"PostgreSQL is left out: {reason}", file=sys.stderr)
        print(
            f"{n:,} records × {N_VARIABLES} variables × {N_CATEGORIES} categories, a fifth missing; best of {REPEATS}\n"
        )
        print("| database | read columns, count in twoway | count inside | count inside, schema given |")
        print("|---|---|---|---|")
        for name, table in tables.items():
            with closing_backend(table):
                streamed, here = best(lambda table=table: tw.count(table))
                within = tw.DatabaseTable(table, inside=True)
                inside, counted = best(lambda within=within: tw.count(within))
                known = tw.DatabaseTable(table, schema=expected.schema, inside=True)
                given, again = best(lambda known=known: tw.count(known))
            assert counted == again == here == expected
            print(f"| {name} | {streamed:.2f} s | {inside:.2f} s | {given:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
