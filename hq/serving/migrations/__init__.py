"""How the serving store's tables came to be, version by version."""
