"""Blocks carried by hand: a file of frames, each signed by the node that wrote it, and sealed for the one that is to read it if so told."""
