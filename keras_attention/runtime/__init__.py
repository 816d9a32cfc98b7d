"""Fast execution: buckets, compiled and stored programs, copies of weights, engines, the queue that batches requests."""
