"""A PySpark table is counted on its cluster. PySpark is not installed for the tests: it is large, and needs Java."""

import shutil

import numpy as np
import pyarrow as pa
import pytest

import twoway as tw

ibis = pytest.importorskip("ibis", reason='databases need ibis: pip install "twoway[sql]"')
pyspark_sql = pytest.importorskip("pyspark.sql", reason="there is no PySpark here: pip install pyspark")


@pytest.mark.filterwarnings("ignore")
def test_a_spark_table_is_counted_there():
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not here")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = pyspark_sql.SparkSession.builder.master("local[1]").config(map=settings)
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    try:
        rng = np.random.default_rng(0)
        labels = ["it's", "b", None]
        rows = pa.table(
            {
                "a": pa.array([labels[code] for code in rng.integers(0, 3, 100)]),
                "b`; --": pa.array([[1, 2, None][code] for code in rng.integers(0, 3, 100)], pa.int64()),
                "c": pa.array(rng.integers(0, 2, 100) == 1),
                "w": pa.array(rng.random(100)),
            }
        )
        kinds = "a string, `b``; --` bigint, c boolean, w double"
        frame = session.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], kinds)
        frame.createOrReplaceTempView("survey")
        table = ibis.pyspark.connect(session).table("survey")
        assert tw.count(tw.DatabaseTable(table, weights="w", inside=True)) == tw.count(tw.Records(rows, weights="w"))
        assert tw.count(table.drop("w")) == tw.count(rows.drop_columns(["w"]))
    finally:
        session.stop()
