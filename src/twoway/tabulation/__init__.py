"""Tables of a survey: every question by a banner, with bases, intervals and significance, to sheets and pages."""

from twoway.tabulation.result import BannerColumn, BannerRow, BannerTable, Tabulation
from twoway.tabulation.tabulate import tabulate

__all__ = ["BannerColumn", "BannerRow", "BannerTable", "Tabulation", "tabulate"]
