"""A link's daily budget of bytes, and its shares."""
