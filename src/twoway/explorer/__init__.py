"""The explorer: a model as one page that opens anywhere, pmf → dict → page."""

from twoway.explorer.page import Page, explore

__all__ = ["Page", "explore"]
