"""The command line, which starts every other part."""
