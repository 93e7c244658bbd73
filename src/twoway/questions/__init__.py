"""The question language: parse, print, answer."""
