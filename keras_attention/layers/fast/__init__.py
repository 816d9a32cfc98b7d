"""What only speed and memory need: caches, grouped heads, fused projections, and attention in chunks."""
