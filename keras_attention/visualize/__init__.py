"""Pictures: attention as heat maps, quality against length. Imports nothing of ours but the errors."""
