"""Blocks carried by hand: a file of frames. Each frame is signed by the node that wrote it and, if requested, sealed for the node that is
to read it."""
