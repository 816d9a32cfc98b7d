"""Tables of series -> series and labels, and a distance of series."""
