"""Packages are layers: imports between them point one way, and modules do not import each other in a cycle."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import twoway

PACKAGE = Path(twoway.__file__).parent

# The order of the packages, lowest first: each imports only those before it.
LAYERS = [
    "text",
    "notebook",
    "arrays",
    "errors",
    "lazy_imports",
    "category_labels",
    "schema",
    "report",
    "parallel",
    "storage",
    "kernels",
    "data",
    "tables",
    "model",
    "datasets",
    "checks",
    "solvers",
    "fitting",
    "synthesis",
    "questions",
    "uncertainty",
    "segmentation",
    "diagnosis",
    "estimators",
    "tabulation",
    "explorer",
    "plots",
    "paper",
    "cli",
    "__main__",
]

# Methods that only call a public function of a layer above: `JointPMF.table` is `tabulate`. Other modules below "paper"
# may not import the package itself, whose names are of all layers.
CALLS_UP = {"model.pmf": "tabulate"}


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


@functools.cache
def import_statements(source):
    """Return the import statements of a module, except those for type checkers only."""
    statements, waiting = [], [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            statements.append(node)
        elif isinstance(node, ast.If) and is_type_checking(node.test):
            waiting.extend(node.orelse)
        elif not isinstance(node, ast.expr):
            waiting.extend(ast.iter_child_nodes(node))
    return statements


def imports(source, name, known, is_package=False):
    """Yield the modules of the package that a module imports, except those for type checkers only."""
    for node in import_statements(source):
        if isinstance(node, ast.Import):
            targets = [(alias.name, None) for alias in node.names]
        else:
            base = node.module or ""
            if node.level:
                here = ["twoway", *(name.split(".") if name else [])]
                above = here[: len(here) - node.level + is_package]
                base = ".".join([*above, *([node.module] if node.module else [])])
            targets = [(base, alias.name) for alias in node.names]
        for target, member in targets:
            if target.split(".")[0] != "twoway":
                continue
            inside = target.removeprefix("twoway").removeprefix(".")
            deeper = f"{inside}.{member}".removeprefix(".") if member else inside
            yield deeper if deeper in known else inside


def upward_imports(sources, layers):
    """Return the imports that point up, as text; ``sources`` maps a module to (text, whether it is a package)."""
    upward = []
    for name, (source, is_package) in sources.items():
        layer = name.partition(".")[0]
        for target in imports(source, name, sources, is_package):
            # The package itself contains only the version, and loads public names on demand.
            if target and (not name or layers.index(target.partition(".")[0]) > layers.index(layer)):
                upward += [f"{name or 'twoway'} imports {target}"]
    return upward


def whole_package_imports(sources, layers):
    """Return the modules of these layers that import the package itself, and the names that they use of it."""
    users = {}
    for name, (source, _) in sources.items():
        if name.partition(".")[0] not in layers:
            continue
        aliases = {
            alias.asname or alias.name
            for node in import_statements(source)
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name == "twoway"
        }
        names = {
            node.attr
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
        }
        if aliases:
            users[name] = " ".join(sorted(names))
    return users


def cycles(sources):
    """Return the modules that import each other in a cycle."""
    targets = {
        name: set(imports(source, name, sources, is_package)) - {""} for name, (source, is_package) in sources.items()
    }
    while free := [name for name, wanted in targets.items() if not wanted & targets.keys()]:
        for name in free:
            del targets[name]
    return sorted(targets)


def read_sources():
    return {
        module_name(path): (path.read_text(encoding="utf-8"), path.name == "__init__.py")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def test_every_package_is_a_layer():
    assert {name.partition(".")[0] for name in read_sources()} - {""} == set(LAYERS)


def test_unit_tests_have_the_folders_of_the_package():
    unit = Path(__file__).parent / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    assert {folder for folder in folders if not (PACKAGE / folder).is_dir()} == set()


def test_imports_point_one_way():
    assert upward_imports(read_sources(), LAYERS) == []


def test_layers_do_not_import_the_whole_package():
    assert whole_package_imports(read_sources(), LAYERS[: LAYERS.index("paper")]) == CALLS_UP
    sources = {"low": ("def f():\n    import twoway as tw\n    return tw.ask, tw.Mode", False), "high": ("", False)}
    assert whole_package_imports(sources, ["low", "high"]) == {"low": "Mode ask"}


def test_no_modules_import_one_another():
    assert cycles(read_sources()) == []


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
    ],
)
def test_an_import_that_points_up_is_found(source):
    sources = {"low": (source, False), "high": ("import twoway.low", False)}
    assert upward_imports(sources, ["low", "high"]) == ["low imports high"]
    assert cycles(sources) == ["high", "low"]


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
def test_an_import_that_points_down_is_allowed(source):
    sources = {"": ("", True), "low": ("", False), "high": (source, False), "higher": ("", False)}
    assert upward_imports(sources, ["low", "high", "higher"]) == []
    assert cycles(sources) == []


def test_imports_of_packages_are_found():
    sources = {"": ("from twoway.low import x", True), "low": ("", False), "box": ("from .inner import x", True)}
    sources["box.inner"] = ("from .. import low", False)
    assert upward_imports(sources, ["low", "box"]) == ["twoway imports low"]
    assert cycles(sources) == []
    sources["box.inner"] = ("from ..box import x", False)
    assert cycles(sources) == ["box", "box.inner"]


# Lazy imports


def imported_after(code, tmp_path):
    """Return the top-level packages that a new process imports when it runs some code."""
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
