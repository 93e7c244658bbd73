"""Benchmarks, which no test runs, import only names that exist."""

import ast
from pathlib import Path

import pytest

import twoway as tw

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
HELPERS = Path(__file__).resolve().parent


def is_checked(module):
    """Return whether a module is of the package, or one that tests and benchmarks share."""
    return module.partition(".")[0] == "twoway" or (HELPERS / f"{module.replace('.', '/')}.py").exists()


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_names_that_a_benchmark_imports_exist(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_checked(node.module):
            exec(compile(ast.Module([node], []), path.name, "exec"), {})
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tw":
            assert hasattr(tw, node.attr), node.attr
