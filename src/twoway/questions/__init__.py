"""The question language: parse, print, answer."""

from twoway.questions.answer import Answer, ask
from twoway.questions.language import Question, Term, parse

__all__ = ["Answer", "Question", "Term", "ask", "parse"]
