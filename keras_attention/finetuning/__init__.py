"""From a table of texts and labels to a classifier of the zoo."""
