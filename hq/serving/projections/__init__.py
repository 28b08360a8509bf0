"""How the records of each stream become rows: one function a stream, run inside the projector's transaction."""
