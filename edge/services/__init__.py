"""What a ship's node does beside log and sync: digests, loss reports, answers to queries, backlog reports."""
