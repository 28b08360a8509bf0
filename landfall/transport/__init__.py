"""WebSocket and HTTP between nodes: the only user of aiohttp below the node itself."""
