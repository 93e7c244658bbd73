"""The explorer: a model as one page that opens anywhere, pmf → dict → page."""

from twoway.explorer.page import explore

__all__ = ["explore"]
