"""Files that put Landfall on machines."""
