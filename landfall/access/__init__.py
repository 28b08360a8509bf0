"""Who may do what at a node: principals, credentials, and the checks of passwords."""
