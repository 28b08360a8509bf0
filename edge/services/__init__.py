"""What a ship's node does in addition to log and sync: digests, loss reports, answers to queries, backlog reports."""
