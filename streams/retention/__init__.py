"""What a copy drops, and when: retention by age and bytes, and the thinning of a ship whose disk budget is spent. Pure but for the log."""
