"""The command line `landfall`."""
