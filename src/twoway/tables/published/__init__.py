"""Published tables of any number of variables, and all else that is published or known about a population."""
