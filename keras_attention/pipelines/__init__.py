"""Text in, answer out: translator, classifier, mask filler, text encoder."""
