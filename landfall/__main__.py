"""`python -m landfall`: the command line."""

from landfall.cli.main import main

main()
