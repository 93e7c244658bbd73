"""The command line: parse, call, print; no mathematics. One file per command."""

from twoway.cli.app import EXIT_CODES, main, run

__all__ = ["EXIT_CODES", "main", "run"]
