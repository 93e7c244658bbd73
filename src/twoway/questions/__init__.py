"""The question language: parse, print, answer."""

from twoway.questions.answer import Answer, ask
from twoway.questions.language import parse
from twoway.questions.question import Contrast, Question, Term

__all__ = ["Answer", "Contrast", "Question", "Term", "ask", "parse"]
