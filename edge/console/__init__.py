"""The crew's console: its page and its HTTP API."""
