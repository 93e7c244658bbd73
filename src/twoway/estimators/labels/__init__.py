"""Labels of items by several annotators."""
