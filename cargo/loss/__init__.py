"""The watch over a ship's or a quay's boxes, and the decision that one is lost."""
