"""The joint probability of many discrete variables, from records with missing cells or from two-way tables alone.

>>> import twoway as tw
>>> pmf = tw.fit({"age": ["young", "old", None, "old"], "vote": ["no", "yes", "yes", None]}, rank=1)
>>> round(pmf.prob({"vote": "yes"}), 1)
0.7
"""

import importlib

__version__ = "0.1.0"

# Nothing is imported before it is used, so that the command line starts at once. The stub __init__.pyi is the one list
# of public names, a line `from .module import name as name` each, which type checkers and the documentation read too.
with open(f"{__file__}i", encoding="utf-8") as _stub:
    _MODULE_OF_NAME = {line.split()[3]: line.split()[1] for line in _stub if line.startswith("from ")}
__all__ = sorted(_MODULE_OF_NAME)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    source = _MODULE_OF_NAME[name]
    if source == ".":
        return importlib.import_module(f".{name}", __name__)
    globals()[name] = value = getattr(importlib.import_module(source, __name__), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
