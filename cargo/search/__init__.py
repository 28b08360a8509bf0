"""Where lost containers may drift, and the area to search."""
