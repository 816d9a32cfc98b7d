"""Fast execution: buckets, compiled and stored programs, weight copies, engines and the queue that batches requests."""
