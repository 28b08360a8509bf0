"""`python -m landfall`: the command line."""

from landfall.cli import main

main()
