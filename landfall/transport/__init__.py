"""WebSocket and HTTP between nodes: the only door to aiohttp below the node itself."""
