"""How streams are managed: definitions, selectors of nodes, roles, and the names of companion streams."""
