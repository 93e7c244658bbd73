"""The question language: parse, print, answer."""

from twoway.questions.answer import Answer, ask
from twoway.questions.language import Contrast, Question, Term, parse

__all__ = ["Answer", "Contrast", "Question", "Term", "ask", "parse"]
