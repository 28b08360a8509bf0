"""Set-up: everything between a fresh clone and a project that runs, in the standard library alone."""
