"""The rules that each reading is checked against, and the table of all rules."""
