"""The explorer: a model as one page that opens anywhere, pmf → dict → page."""
