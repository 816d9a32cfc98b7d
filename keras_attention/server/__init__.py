"""HTTP server over the pipelines: its limits, its metrics, the demo page."""
