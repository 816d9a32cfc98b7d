"""Pictures and pages: attention heat maps, plots of scores, the attention page."""
