"""Tables of counts: counted from records, published by others, or with noise for privacy."""
