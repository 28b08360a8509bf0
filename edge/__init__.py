"""The ship's node: intake, onboard rules, the log and the crew's console."""
