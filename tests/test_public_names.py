"""The public API: one list of names, every class that it returns among them, `seed` by keyword only."""

import functools
import inspect
import re
from pathlib import Path

import pytest

import twoway as tw


@functools.cache
def classes():
    """Return the names of all classes of the package that are not private."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in Path(tw.__file__).parent.rglob("*.py"))
    return set(re.findall(r"^class ([A-Za-z]\w*)", sources, re.MULTILINE))


def names_of(module):
    """Return the public names of a module: its ``__all__``, or what it defines or imports from the package."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "").startswith("twoway")]
    return getattr(module, "__all__", [name for name in own if not name.startswith("_")])


PUBLIC = {*tw.__all__, *names_of(tw.solvers), *names_of(tw.bounds)}
# Attributes that are not for users: the store of the replicates, and how a source reads its rows.
INTERNAL = {"ObservedTables", "Reader"}


def function_of(member):
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    return getattr(member, "__func__", member)


def public_functions():
    """Return every public function and method by its name."""
    functions = {}
    for holder in (tw, tw.datasets, tw.solvers, tw.bounds):
        for name in names_of(holder):
            value = getattr(holder, name)
            if inspect.isclass(value):
                bases = [base for base in value.__mro__ if base.__module__.startswith("twoway")]
                for base in bases:
                    for attribute, member in vars(base).items():
                        if attribute == "__init__" or not attribute.startswith("_"):
                            functions.setdefault(f"{name}.{attribute}", function_of(member))
            elif callable(value):
                functions[f"{holder.__name__}.{name}"] = value
    return {name: function for name, function in functions.items() if inspect.isfunction(function)}


FUNCTIONS = public_functions()


def not_public(annotation):
    """Return the private classes of the package that an annotation names."""
    return (set(re.findall(r"\w+", str(annotation))) & classes()) - PUBLIC - INTERNAL


def test_every_class_that_is_returned_is_public():
    of_solvers = {f"{name}." for name in names_of(tw.solvers)}
    returned = {
        name: not_public(function.__annotations__.get("return", ""))
        for name, function in FUNCTIONS.items()
        if not name.startswith(tuple(of_solvers))
    }
    assert {name: classes for name, classes in returned.items() if classes} == {}


def test_every_class_of_a_public_attribute_is_public():
    classes = [value for name in tw.__all__ if inspect.isclass(value := getattr(tw, name))]
    attributes = {
        f"{value.__name__}.{name}": not_public(annotation)
        for value in classes
        for name, annotation in inspect.get_annotations(value).items()
        if not name.startswith("_")
    }
    assert {name: found for name, found in attributes.items() if found} == {}


def test_functions_and_classes_are_found():
    assert {"twoway.fit", "JointPMF.mode", "Records.weight_totals", "Tables.count"} <= FUNCTIONS.keys()
    assert not_public("ObservedTables | PairMatrix | None") == {"PairMatrix"}


def takes_seed(function):
    """Return whether a function has the parameter, except as a dataclass field."""
    return "seed" in inspect.signature(function).parameters and function.__qualname__ not in DATACLASSES


# Made by the package, not by users.
DATACLASSES = {"Report.__init__", "Problem.__init__", "SegmentRelations.__init__"}


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if takes_seed(function)])
def test_seed_is_given_by_keyword_only(name):
    assert inspect.signature(FUNCTIONS[name]).parameters["seed"].kind is inspect.Parameter.KEYWORD_ONLY
