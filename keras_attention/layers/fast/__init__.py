"""Optimizations for speed and memory: caches, grouped heads, fused projections and attention in chunks."""
