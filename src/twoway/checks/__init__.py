"""What can be checked without a fit: whether tables agree with one another, and a model with its tables."""
