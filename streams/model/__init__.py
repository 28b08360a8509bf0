"""Records, blocks, offsets, ranges, errors and clocks: the values that all packages share."""
