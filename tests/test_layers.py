"""Imports point one way: a module imports only modules that stand before it in one list."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import twoway

PACKAGE = Path(twoway.__file__).parent

# The one order of the modules, lowest first. A new module gets a line here, as low as it can stand.
ORDER = [
    "errors",
    "weighing",
    "schema",
    "bin_labels",
    "report",
    "parallel",
    "container",
    "checkpoint",
    "kernels",
    "kernels.jit",
    "kernels.plain_lanes",
    "kernels.lanes",
    "kernels.logarithms",
    "kernels.compression",
    "kernels.counting",
    "kernels.expectation",
    "kernels.maximization",
    "kernels.triples",
    "frames",
    "distribution",
    "missing",
    "engines",
    "engines.text_types",
    "engines.file_set",
    "engines.writing",
    "engines.duck",
    "engines.conditions",
    "engines.headers",
    "engines.files",
    "record_source",
    "coding",
    "reading",
    "records",
    "engines.batches",
    "engines.scratch",
    "engines.file_records",
    "mixture",
    "parameters",
    "events",
    "information",
    "mode_search",
    "model_file",
    "observed",
    "imputation",
    "pmf",
    "sql_export",
    "counting",
    "crosstabs.cells",
    "crosstabs.sheets",
    "crosstabs.labels",
    "crosstabs.shares",
    "crosstabs.kinds",
    "crosstabs.published",
    "crosstabs",
    "privacy",
    "table_layout",
    "table_sums",
    "releasing",
    "tables",
    "engines.connections",
    "engines.grouping",
    "engines.sql",
    "engines.partitions",
    "engines.cluster",
    "engines.opening",
    "chance",
    "disagreements",
    "sources",
    "measures",
    "datasets.folder",
    "datasets.counts",
    "bounds.base",
    "bounds.tables",
    "bounds.spa",
    "bounds.em",
    "bounds",
    "datasets.digits",
    "datasets.movielens",
    "datasets.synthetic",
    "datasets.uci",
    "datasets",
    "diagnosis",
    "diagnosis.pair_graph",
    "solvers.pairs",
    "solvers.cells",
    "solvers.base",
    "solvers.starts",
    "solvers.latent",
    "solvers.mirror",
    "solvers.spa",
    "solvers.coupled_nmf",
    "solvers.triples",
    "solvers.ctd",
    "solvers.em",
    "solvers.mle_ad",
    "solvers.combine",
    "solvers.tuning",
    "solvers.auto",
    "solvers",
    "diagnosis.intervals",
    "diagnosis.resampling",
    "diagnosis.spectrum",
    "diagnosis.table_program",
    "diagnosis.probability_range",
    "diagnosis.contradiction",
    "diagnosis.fit_quality",
    "ranks",
    "fitting",
    "updating",
    "plots.heatmap",
    "plots.model",
    "plots.fit",
    "plots.rank",
    "plots.scatter",
    "plots",
    "estimators.rating_table",
    "estimators.rating_model",
    "estimators.ratings",
    "estimators.bins",
    "estimators.averaging",
    "estimators.base",
    "estimators.classifier",
    "estimators.density",
    "estimators.discretizer",
    "estimators.imputer",
    "estimators",
    "diagnosis.pooling",
    "diagnosis.beliefs",
    "diagnosis.observed_tables",
    "diagnosis.bootstrap",
    "diagnosis.replication",
    "explorer.replicates",
    "explorer.page",
    "explorer",
    "diagnosis.scattered",
    "diagnosis.alternatives",
    "diagnosis.conditions",
    "diagnosis.verdict",
    "diagnosis.cases",
    "diagnosis.judgement",
    "diagnosis.diagnose",
    "diagnosis.plan",
    "experiments",
    "experiments.scores",
    "experiments.base",
    "experiments.choosing",
    "experiments.classifiers",
    "experiments.factorization",
    "experiments.synthetic",
    "experiments.classification",
    "experiments.recommendation",
    "experiments.tables",
    "experiments.run",
    "experiments.summary",
    "experiments.show",
    "questions.language",
    "questions.parse",
    "questions.answer",
    "questions.complete",
    "questions",
    "cli.terminal",
    "cli.binning",
    "cli.options",
    "cli.schema_file",
    "cli.prompt",
    "cli.answer_files",
    "cli.answers",
    "cli.ask",
    "cli.check",
    "cli.compare",
    "cli.count",
    "cli.demo_picture",
    "cli.demo",
    "cli.explore",
    "cli.export",
    "cli.fit",
    "cli.impute",
    "cli.info",
    "cli.plan",
    "cli.reproduce",
    "cli.sample",
    "cli.score",
    "cli.update",
    "cli.app",
    "cli",
    "__main__",
]
PLACE = {name: place for place, name in enumerate(ORDER)}


def module_name(path, package=PACKAGE):
    """Return a file's module, without the package: "solvers.em", or "" for the package itself."""
    parts = list(path.relative_to(package).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def is_type_checking(test):
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def imports(source, name, known, is_package=False):
    """Yield the modules of the package that a module imports anywhere, but not for type checkers only."""
    waiting = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and is_type_checking(node.test):
            waiting.extend(node.orelse)
            continue
        waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            targets = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = ["twoway", *(name.split(".") if name else [])]
                above = here[: len(here) - node.level + is_package]
                base = ".".join([*above, *([node.module] if node.module else [])])
            targets = [(base, alias.name) for alias in node.names]
        else:
            continue
        for target, member in targets:
            if target.split(".")[0] != "twoway":
                continue
            inside = target.removeprefix("twoway").removeprefix(".")
            deeper = f"{inside}.{member}".removeprefix(".") if member else inside
            yield deeper if deeper in known else inside


def violations(sources, place):
    """Return the imports that point up, as text; ``sources`` maps a module to (text, whether it is a package)."""
    found = []
    for name, (source, is_package) in sources.items():
        # The package itself holds only the version, and hands out public names when they are asked for.
        for target in imports(source, name, sources, is_package):
            if name and target == "":
                continue
            if not name or place[target] >= place[name]:
                found.append(f"{name or 'twoway'} imports {target}")
    return found


def read_sources():
    return {
        module_name(path): (path.read_text(encoding="utf-8"), path.name == "__init__.py")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def test_every_module_has_its_place():
    assert len(PLACE) == len(ORDER)
    assert set(read_sources()) - {""} == set(ORDER)


def test_imports_point_one_way():
    assert violations(read_sources(), PLACE) == []


@pytest.mark.parametrize(
    "source",
    [
        "import twoway.high",
        "from twoway.high import x",
        "from twoway import high",
        "from . import high",
        "from .high import x",
        "def f():\n    from twoway.high import x",
        "class A:\n    def f(self):\n        if True:\n            import twoway.high as h",
        "try:\n    import twoway.high\nexcept ImportError:\n    pass",
        "if TYPE_CHECKING:\n    import os\nelse:\n    import twoway.high",
        "import twoway.low",
    ],
)
def test_the_walker_finds_what_points_up(source):
    sources = {"low": (source, False), "high": ("", False)}
    target = "low" if source.endswith("twoway.low") else "high"
    assert violations(sources, {"low": 0, "high": 1}) == [f"low imports {target}"]


@pytest.mark.parametrize(
    "source",
    [
        "import twoway.low",
        "from twoway.low import high",
        "import numpy.high",
        "from twoway import __version__",
        "if TYPE_CHECKING:\n    from twoway.higher import x",
        "if typing.TYPE_CHECKING:\n    from twoway.higher import x",
    ],
)
def test_the_walker_lets_pass_what_points_down(source):
    sources = {"low": ("", False), "high": (source, False), "higher": ("", False)}
    assert violations(sources, {"low": 0, "high": 1, "higher": 2}) == []


def test_packages_are_walked_too():
    sources = {"": ("from twoway.low import x", True), "low": ("", False), "box": ("from .low import x", True)}
    sources["box.low"] = ("from .. import low", False)
    place = {"low": 0, "box.low": 1, "box": 2}
    assert violations(sources, place) == ["twoway imports low"]
    sources["box.low"] = ("from ..box import x", False)
    assert violations(sources, place) == ["twoway imports low", "box.low imports box"]


# What is imported only when it is used


def imported_after(code, tmp_path):
    """Return the top-level packages that a fresh process has imported after some code."""
    script = f"{code}\nimport sys\nprint(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy(tmp_path):
    found = imported_after("import twoway", tmp_path)
    assert "twoway" in found
    assert not found & {
        "numpy",
        "numba",
        "scipy",
        "pandas",
        "pyarrow",
        "sklearn",
        "polars",
        "narwhals",
        "rich",
        "typer",
    }


def test_asking_a_saved_model_imports_numpy_only(tmp_path):
    from twoway.datasets import dirichlet_rows

    dirichlet_rows(3, 4, 2).save(tmp_path / "model.twoway")
    asked = (
        "import twoway as tw\n"
        "pmf = tw.JointPMF.load('model.twoway')\n"
        "table = pmf.given({'x1': 0}).marginal(['x2', 'x3'])\n"
        "assert 0 < table[0, 0] < 1\n"
        "str(table), pmf.prob({'x1': 1}), pmf.mode(), pmf.expect('x1'), pmf.entropy(['x1'])"
    )
    found = imported_after(asked, tmp_path)
    assert "numpy" in found
    assert not found & {"numba", "scipy", "pandas", "pyarrow", "sklearn", "polars", "narwhals", "rich"}


def test_the_check_of_imports_can_fail(tmp_path):
    assert "numba" in imported_after("import twoway.kernels.jit", tmp_path)
