"""HTTP server for the pipelines, with limits, metrics and a demo page."""
