"""The watch as a service over a node's log: it runs the rules of `cargo` on what was appended."""
